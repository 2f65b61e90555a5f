import { type Kysely, sql } from 'kysely'

/**
 * Rolled up from hours or five minutes where they fit into the range as a whole, and from minutes before and behind them. A
 * range that ends in the future has no end that could cut an hour in two. What the planner can see of the range and of the width it is
 * told as well: without, it takes every chunk that there is into account, of candles and of each rollup.
 */
const ohlcv = `
      with fit as materialized (
        select rollup, case when rollup = '1m' then to_time else whole_from end as whole_from,
          case when rollup = '1m' then to_time else greatest(whole_from, whole_to) end as whole_to
        from (
          select case
              when seconds % 3600 = 0 and extract(epoch from origin) % 3600 = 0 then '1h'
              when seconds % 300 = 0 and extract(epoch from origin) % 300 = 0 then '5m' else '1m' end as rollup,
            case when seconds % 3600 = 0 and extract(epoch from origin) % 3600 = 0 then interval '1 hour'
              else interval '5 minutes' end as step
          from extract(epoch from width) as seconds
        ) as kind
        cross join lateral (
          select
            case when isfinite(from_time)
              then date_bin(step, from_time + step - interval '1 microsecond', timestamptz 'epoch') else from_time end as whole_from,
            case when to_time >= now() then to_time else date_bin(step, to_time, timestamptz 'epoch') end as whole_to
        ) as whole
      ), source as (
        select r.open_time, r.open, r.high, r.low, r.close, r.base_volume, r.quote_turnover from market.ohlcv_1h r
        where extract(epoch from width) % 3600 = 0 and extract(epoch from origin) % 3600 = 0 and r.category = ohlcv.category and r.symbol = ohlcv.symbol
          and r.open_time >= from_time and r.open_time < to_time
          and r.open_time >= (select whole_from from fit) and r.open_time < (select whole_to from fit)
        union all
        select r.open_time, r.open, r.high, r.low, r.close, r.base_volume, r.quote_turnover from market.ohlcv_5m r
        where (select rollup from fit) = '5m' and r.category = ohlcv.category and r.symbol = ohlcv.symbol
          and r.open_time >= from_time and r.open_time < to_time
          and r.open_time >= (select whole_from from fit) and r.open_time < (select whole_to from fit)
        union all
        select c.open_time, c.open, c.high, c.low, c.close, c.base_volume, c.quote_turnover from market.candles c
        where c.category = ohlcv.category and c.symbol = ohlcv.symbol and c.type = 'market' and c.interval = '1m' and c.is_closed
          and c.open_time >= from_time and c.open_time < to_time and c.open_time < (select whole_from from fit)
        union all
        select c.open_time, c.open, c.high, c.low, c.close, c.base_volume, c.quote_turnover from market.candles c
        where c.category = ohlcv.category and c.symbol = ohlcv.symbol and c.type = 'market' and c.interval = '1m' and c.is_closed
          and c.open_time >= from_time and c.open_time < to_time and c.open_time >= (select whole_to from fit)
      )
      select date_bin(width, s.open_time, origin), (array_agg(s.open order by s.open_time))[1], max(s.high), min(s.low),
        (array_agg(s.close order by s.open_time desc))[1], sum(s.base_volume), sum(s.quote_turnover)
      from source s group by 1 order by 1`

/** market.ohlcv takes as long in a table of years as in one of days. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`create or replace function market.ohlcv ${sql.raw(
    `(category market.category, symbol text, width interval, from_time timestamptz, to_time timestamptz,
      origin timestamptz default 'epoch')
    returns table (open_time timestamptz, open numeric, high numeric, low numeric, close numeric,
      base_volume numeric, quote_turnover numeric)`,
  )} language sql stable parallel safe as ${sql.lit(`${ohlcv}\n`)}`.execute(db)
}
