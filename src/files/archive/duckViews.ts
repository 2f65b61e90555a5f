import type { MarketTable } from '../../market/stream.js'
import { categories } from '../../market/category.js'

/** Columns that the database computes and the files do not contain, as SQL text by table. */
const computed: Readonly<Partial<Record<MarketTable, string>>> = {
  order_books: booksWith(),
  rpi_order_books: booksWith(),
}

function booksWith(): string {
  return `, bid_prices[1] as best_bid, ask_prices[1] as best_ask, (bid_prices[1] + ask_prices[1]) * 0.5 as mid,
    ask_prices[1] - bid_prices[1] as spread`
}

const rollups = {
  ohlcv_5m: '5 minutes',
  ohlcv_15m: '15 minutes',
  ohlcv_1h: '1 hour',
  ohlcv_4h: '4 hours',
  ohlcv_1d: '1 day',
} as const

/** Statements of DuckDB for the views of schema market over files, named and made as those of the database. */
export function viewsOver(files: ReadonlyMap<MarketTable, readonly string[]>): string {
  const there = [...files].filter(([, paths]) => paths.length > 0)
  const names = new Set(there.map(([name]) => name))
  return [
    // Sorted as in the database.
    `create type market.category as enum (${categories.map((name) => `'${name}'`).join(', ')})`,
    ...there.map(([name, paths]) => tableView(name, paths)),
    ...there.flatMap(([name]) => viewsOf(name, names)),
    // Function of PostgreSQL that queries of both engines use.
    `create macro market.date_bin(stride, source, of_origin) as
      time_bucket(stride::interval, source::timestamptz, of_origin::timestamptz)`,
  ].join(';\n')
}

function tableView(name: MarketTable, paths: readonly string[]): string {
  const list = paths.map((path) => `'${path.replaceAll("'", "''")}'`).join(', ')
  return `create view market.${name} as
    select * replace (category::market.category as category)${computed[name] ?? ''}
    from read_parquet([${list}], union_by_name = true, hive_partitioning = false)`
}

function viewsOf(name: MarketTable, names: ReadonlySet<MarketTable>): string[] {
  switch (name) {
    case 'candles':
      return Object.entries(rollups).map(([rollup, length]) => {
        const bucket = `time_bucket(interval '${length}', open_time, timestamptz '1970-01-01 00:00:00+00')`
        return `create view market.${rollup} as
          select category, symbol, ${bucket} as open_time, arg_min(open, c.open_time) as open, max(high) as high,
            min(low) as low, arg_max(close, c.open_time) as close, sum(base_volume) as base_volume,
            sum(quote_turnover) as quote_turnover
          from market.candles c where type = 'market' and interval = '1m' and is_closed group by 1, 2, 3`
      })
    case 'tickers': {
      const newest =
        'select * from market.tickers qualify row_number() over (partition by category, symbol order by ts desc) = 1'
      const joined = `select t.*, i.kind, i.disappeared_at from (${newest}) t join market.instruments i using (category, symbol)`
      return [`create view market.latest_tickers as ${names.has('instruments') ? joined : newest}`]
    }
    case 'order_books':
      return [levels('order_book_levels', name, '')]
    case 'rpi_order_books':
      return [levels('rpi_order_book_levels', name, 'rpi_size')]
    default:
      return []
  }
}

function levels(view: string, table: string, rpi: string): string {
  const side = (which: 'bid' | 'ask') => {
    const more = rpi === '' ? '' : `, unnest(${which}_rpi_sizes) as ${rpi}`
    return `select category, symbol, ts, '${which}' as side, unnest(range(1, len(${which}_prices) + 1))::integer as level,
      unnest(${which}_prices) as price, unnest(${which}_sizes) as size${more} from market.${table}`
  }
  return `create view market.${view} as ${side('bid')} union all ${side('ask')}`
}
