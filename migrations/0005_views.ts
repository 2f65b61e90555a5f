import { type Kysely, sql } from 'kysely'
import { commentOn, keyComments } from './comments.js'

const rollups = {
  ohlcv_5m: '5 minutes',
  ohlcv_15m: '15 minutes',
  ohlcv_1h: '1 hour',
  ohlcv_4h: '4 hours',
  ohlcv_1d: '1 day',
} as const

/** Views for analysts, in portable SQL. */
export async function up(db: Kysely<unknown>): Promise<void> {
  // One index descent per instrument; "distinct on" would read the whole history of tickers.
  await sql`
    create view market.latest_tickers as
      select t.*
      from market.instruments i
      cross join lateral (
        select * from market.tickers t
        where t.category = i.category and t.symbol = i.symbol
        order by t.ts desc
        limit 1
      ) t
      -- Margin trades on the spot books and has no tickers: looking for them would go through all of the past.
      where i.category <> 'MARGIN';

    create view market.order_book_levels as
      select b.category, b.symbol, b.ts, s.side, l.level::integer as level, l.price, l.size
      from market.order_books b
      cross join lateral (
        values ('bid', b.bid_prices, b.bid_sizes), ('ask', b.ask_prices, b.ask_sizes)
      ) as s (side, prices, sizes)
      cross join lateral unnest(s.prices, s.sizes) with ordinality as l (price, size, level);

    create view market.rpi_order_book_levels as
      select b.category, b.symbol, b.ts, s.side, l.level::integer as level, l.price, l.size, l.rpi_size
      from market.rpi_order_books b
      cross join lateral (
        values ('bid', b.bid_prices, b.bid_sizes, b.bid_rpi_sizes), ('ask', b.ask_prices, b.ask_sizes, b.ask_rpi_sizes)
      ) as s (side, prices, sizes, rpi_sizes)
      cross join lateral unnest(s.prices, s.sizes, s.rpi_sizes) with ordinality as l (price, size, rpi_size, level);

    create view market.coverage as
      select c.category, c.symbol, c.stream,
        nullif(c.type, '')::market.candle_type as type,
        nullif(c.interval, '')::market.candle_interval as interval,
        lower(r) as from_time, upper(r) as to_time
      from recorder.coverage c
      cross join lateral unnest(c.ranges) as r;

    create view market.gaps as
      select g.category, g.symbol, g.stream,
        nullif(g.type, '')::market.candle_type as type,
        nullif(g.interval, '')::market.candle_interval as interval,
        lower(g.range) as from_time, upper(g.range) as to_time, g.reason, g.state
      from recorder.gap g;
  `.execute(db)

  for (const [name, length] of Object.entries(rollups)) {
    const bucket = sql`date_bin(${sql.lit(length)}::interval, open_time, timestamptz 'epoch')`
    await sql`
      create view ${sql.table(`market.${name}`)} as
        select category, symbol, ${bucket} as open_time,
          (array_agg(open order by open_time))[1] as open,
          max(high) as high,
          min(low) as low,
          (array_agg(close order by open_time desc))[1] as close,
          sum(base_volume) as base_volume,
          sum(quote_turnover) as quote_turnover
        from market.candles
        where type = 'market' and interval = '1m' and is_closed
        group by category, symbol, ${bucket}`.execute(db)
    await commentOn(db, {
      [`market.${name}`]: {
        kind: 'view',
        comment: `Candles of ${length}, rolled up from closed 1m market candles; aligned to 00:00 UTC. Recent ones may be partial.`,
        columns: {
          ...keyComments,
          open_time: 'When it opens (inclusive), UTC-aligned.',
          open: 'First price, in quote coin.',
          high: 'Highest price, in quote coin.',
          low: 'Lowest price, in quote coin.',
          close: 'Last price, in quote coin.',
          base_volume: 'Volume, in base coin.',
          quote_turnover: 'Turnover, in quote coin.',
        },
      },
    })
  }

  await sql`
    do $$
    declare c record;
    begin
      for c in
        select a.attname, d.description
        from pg_attribute a
        join pg_description d on d.objoid = a.attrelid and d.classoid = 'pg_class'::regclass and d.objsubid = a.attnum
        where a.attrelid = 'market.tickers'::regclass and a.attnum > 0
      loop
        execute format('comment on column market.latest_tickers.%I is %L', c.attname, c.description);
      end loop;
    end
    $$`.execute(db)

  const levels = {
    ...keyComments,
    ts: 'Time of the snapshot, by the service.',
    side: 'bid or ask.',
    level: '1 is the best price of its side.',
    price: 'Price, in quote coin.',
    size: 'Size at that price, in base coin.',
  }
  const series = {
    ...keyComments,
    stream: 'What is recorded, named as the table that holds it.',
    type: 'Candles: market, mark, index or premium; NULL otherwise.',
    interval: 'Candles: length as the service names it; NULL otherwise.',
    from_time: "Begin, by the service's time (inclusive).",
    to_time: "End, by the service's time (exclusive).",
  }
  await commentOn(db, {
    'market.latest_tickers': { kind: 'view', comment: 'The newest ticker of each instrument.', columns: {} },
    'market.order_book_levels': {
      kind: 'view',
      comment: 'Order books, one row per price level. Ask for a category, symbol and range of ts.',
      columns: levels,
    },
    'market.rpi_order_book_levels': {
      kind: 'view',
      comment: 'Order books with RPI sizes, one row per price level. Ask for a category, symbol and range of ts.',
      columns: {
        ...levels,
        size: 'Visible (non-RPI) size at that price, in base coin.',
        rpi_size: 'RPI size at that price, in base coin.',
      },
    },
    'market.coverage': {
      kind: 'view',
      comment: 'Ranges of time that are proven to be stored in full.',
      columns: series,
    },
    'market.gaps': {
      kind: 'view',
      comment: 'Known gaps in what was recorded.',
      columns: {
        ...series,
        reason: 'Why it is there.',
        state: 'open (may be repaired), repaired, or lost (the service no longer has it).',
      },
    },
  })
}
