import type { ArchivedTableName } from '../../market/archivedTable.js'

interface DuckFunction {
  /** The tables that it reads. */
  readonly reads: readonly ArchivedTableName[]
  /** What stands after its name in CREATE MACRO. Parameters are not named as columns are: those would go first. */
  readonly macro: string
}

const range = 'from_time, to_time'
const inRange = (column: string) => `${column} >= from_time::timestamptz and ${column} < to_time::timestamptz`
const isInstrument = (row: string) => `${row}.category = of_category and ${row}.symbol = of_symbol`

/** The newest row of a table at a moment. */
function newestAt(table: ArchivedTableName): DuckFunction {
  return {
    reads: [table],
    macro: `(of_category, of_symbol, moment) as table
      select t.* from market.${table} t where ${isInstrument('t')} and t.ts <= moment::timestamptz
      order by t.ts desc limit 1`,
  }
}

/** DuckDB's division gives a float: it must not make floats of the sizes that are not divided before they are added. */
const baseSizes = (where = '') =>
  `case any_value(f.category) when 'COIN-FUTURES' then sum(f.size / nullif(f.price, 0)) ${where} else sum(f.size) ${where} end`
const quoteValues = `case any_value(f.category) when 'COIN-FUTURES' then sum(f.size) else sum(f.size * f.price) end`
const vwap = `${quoteValues} / nullif(${baseSizes()}, 0)`
const best = (which: 'max' | 'min', prices: string, sizes: string) =>
  `(select ${which}(u.price) from (select unnest(b.${prices}) as price, unnest(b.${sizes}) as size) u where u.size > 0)`

/**
 * The functions of schema market as macros of DuckDB, in the same words as there, and what the cookbook uses of PostgreSQL's own.
 * Not among them: candles_without_gaps and funding_history, which ask for the coverage and the present.
 */
const functions: Readonly<Record<string, DuckFunction>> = {
  date_bin: {
    reads: [],
    macro: `(stride, source, of_origin) as time_bucket(stride::interval, source::timestamptz, of_origin::timestamptz)`,
  },
  fill_base_size: {
    reads: [],
    macro: `(of_category, of_price, of_size) as
      case of_category when 'COIN-FUTURES' then of_size / nullif(of_price, 0) else of_size end`,
  },
  fill_quote_value: {
    reads: [],
    macro: `(of_category, of_price, of_size) as
      case of_category when 'COIN-FUTURES' then of_size else of_size * of_price end`,
  },
  spread_bps: {
    reads: [],
    macro: `(of_bid, of_ask) as (of_ask - of_bid) * 20000 / nullif(of_ask + of_bid, 0)`,
  },
  ticker_at: newestAt('tickers'),
  order_book_at: newestAt('order_books'),
  rpi_order_book_at: newestAt('rpi_order_books'),
  instrument_at: {
    reads: ['instrument_history'],
    macro: `(of_category, of_symbol, moment) as table
      select h.* from market.instrument_history h
      where ${isInstrument('h')} and h.valid_from <= moment::timestamptz
        and (h.valid_to is null or h.valid_to > moment::timestamptz)`,
  },
  ohlcv: {
    reads: ['candles'],
    macro: `(of_category, of_symbol, width, ${range}, origin := '1970-01-01 00:00:00Z') as table
      select market.date_bin(width, c.open_time, origin) as open_time, arg_min(c.open, c.open_time) as open,
        max(c.high) as high, min(c.low) as low, arg_max(c.close, c.open_time) as close,
        sum(c.base_volume) as base_volume, sum(c.quote_turnover) as quote_turnover
      from market.candles c
      where ${isInstrument('c')} and c.type = 'market' and c.interval = '1m' and c.is_closed and ${inRange('c.open_time')}
      group by 1 order by 1`,
  },
  vwap: {
    reads: ['fills'],
    macro: `(of_category, of_symbol, ${range}) as
      (select ${vwap} from market.fills f where ${isInstrument('f')} and ${inRange('f.ts')})`,
  },
  vwap_series: {
    reads: ['fills'],
    macro: `(of_category, of_symbol, ${range}, step) as table
      select market.date_bin(step, f.ts, from_time) as open_time, ${vwap} as vwap, ${baseSizes()} as base_volume,
        ${quoteValues} as quote_turnover, count(*) as fills
      from market.fills f where ${isInstrument('f')} and ${inRange('f.ts')}
      group by 1 order by 1`,
  },
  volume_profile: {
    reads: ['fills'],
    macro: `(of_category, of_symbol, ${range}, price_step) as table
      select f.price - f.price % price_step as price_from, f.price - f.price % price_step + price_step as price_to,
        ${baseSizes()} as base_volume, ${quoteValues} as quote_turnover,
        coalesce(${baseSizes("filter (where f.side = 'buy')")}, 0) as buy_volume,
        coalesce(${baseSizes("filter (where f.side = 'sell')")}, 0) as sell_volume, count(*) as fills
      from market.fills f where ${isInstrument('f')} and ${inRange('f.ts')}
      group by 1, 2 order by 1`,
  },
  depth_within: {
    reads: [],
    macro: `(of_prices, of_sizes, of_mid, within_bps) as table
      select coalesce(sum(l.size) filter (where l.is_within), 0) as size,
        coalesce(sum(l.size * l.price) filter (where l.is_within), 0) as value,
        count(*) filter (where l.is_within) as levels, coalesce(bool_or(not l.is_within), false) as is_whole
      from (
        select u.price, u.size, abs(u.price - of_mid) * 10000 <= of_mid * within_bps as is_within
        from (select unnest(of_prices) as price, unnest(of_sizes) as size) u
      ) l`,
  },
  book_depth: {
    reads: ['order_books'],
    macro: `(of_category, of_symbol, ${range}, within_bps) as table
      select b.ts, b.mid, market.spread_bps(b.best_bid, b.best_ask) as spread_bps, bid.size as bid_size, ask.size as ask_size,
        bid.value as bid_value, ask.value as ask_value, bid.is_whole and ask.is_whole as is_whole
      from market.order_books b
      cross join lateral market.depth_within(b.bid_prices, b.bid_sizes, b.mid, within_bps) bid
      cross join lateral market.depth_within(b.ask_prices, b.ask_sizes, b.mid, within_bps) ask
      where ${isInstrument('b')} and ${inRange('b.ts')} and b.mid is not null
      order by b.ts`,
  },
  execution_price: {
    reads: [],
    macro: `(of_prices, of_sizes, quantity) as (
      select case when sum(l.taken) >= quantity then sum(l.taken * l.price) / nullif(quantity, 0) end
      from (
        select u.price, least(u.size, greatest(quantity - coalesce(
          sum(u.size) over (order by u.level rows between unbounded preceding and 1 preceding), 0), 0)) as taken
        from (
          select unnest(of_prices) as price, unnest(of_sizes) as size, unnest(range(1, len(of_prices) + 1)) as level
        ) u
      ) l)`,
  },
  rpi_improvement: {
    reads: ['rpi_order_books'],
    macro: `(of_category, of_symbol, ${range}) as table
      select q.ts, q.visible_bid, q.visible_ask, q.rpi_bid, q.rpi_ask,
        case when q.rpi_bid > q.visible_bid then q.rpi_bid - q.visible_bid when q.rpi_bid <= q.visible_bid then 0 end
          as bid_improvement,
        case when q.rpi_ask < q.visible_ask then q.visible_ask - q.rpi_ask when q.rpi_ask >= q.visible_ask then 0 end
          as ask_improvement,
        bid_improvement * 20000 / nullif(q.visible_bid + q.visible_ask, 0) as bid_improvement_bps,
        ask_improvement * 20000 / nullif(q.visible_bid + q.visible_ask, 0) as ask_improvement_bps
      from (
        select b.ts, ${best('max', 'bid_prices', 'bid_sizes')} as visible_bid,
          ${best('min', 'ask_prices', 'ask_sizes')} as visible_ask,
          ${best('max', 'bid_prices', 'bid_rpi_sizes')} as rpi_bid, ${best('min', 'ask_prices', 'ask_rpi_sizes')} as rpi_ask
        from market.rpi_order_books b where ${isInstrument('b')} and ${inRange('b.ts')}
      ) q
      order by q.ts`,
  },
}

/** The tables that the functions named in a text read. */
export function tablesReadBy(isNamed: (name: string) => boolean): ReadonlySet<ArchivedTableName> {
  return new Set(Object.entries(functions).flatMap(([name, { reads }]) => (isNamed(name) ? reads : [])))
}

/** Statements of DuckDB that define the functions whose tables are there. */
export function functionsOver(tables: ReadonlySet<string>): string[] {
  return Object.entries(functions)
    .filter(([, { reads }]) => reads.every((table) => tables.has(table)))
    .map(([name, { macro }]) => `create macro market.${name}${macro}`)
}
