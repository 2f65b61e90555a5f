import { type Kysely, sql } from 'kysely'

const instrument = 'category market.category, symbol text'
const range = 'from_time timestamptz, to_time timestamptz'

/**
 * Rolled up from hours or five minutes where they fit into the range as a whole, and from minutes before and behind them. A
 * range that ends in the future has no end that could cut an hour in two.
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
        where (select rollup from fit) = '1h' and r.category = ohlcv.category and r.symbol = ohlcv.symbol
          and r.open_time >= (select whole_from from fit) and r.open_time < (select whole_to from fit)
        union all
        select r.open_time, r.open, r.high, r.low, r.close, r.base_volume, r.quote_turnover from market.ohlcv_5m r
        where (select rollup from fit) = '5m' and r.category = ohlcv.category and r.symbol = ohlcv.symbol
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

/** An interval of 0 is how the service may say that it is not set. */
const fundingHistory = `
      select s.settled_at, t.funding_rate, s.fund_interval, t.ts
      from (
        select h.settled_at, coalesce(
          nullif((select v.fund_interval
            from market.instrument_at(funding_history.category, funding_history.symbol, h.settled_at) v), 0),
          nullif((select i.fund_interval from market.instruments i
            where i.category = funding_history.category and i.symbol = funding_history.symbol), 0), 8) as fund_interval
        from generate_series(
          date_bin('1 hour', from_time + interval '1 hour' - interval '1 microsecond', timestamptz 'epoch'),
          least(to_time, now()) - interval '1 microsecond', interval '1 hour') as h (settled_at)
      ) s
      cross join lateral (
        select k.funding_rate, k.ts from market.tickers k
        where k.category = funding_history.category and k.symbol = funding_history.symbol
          and k.ts < s.settled_at and k.ts >= s.settled_at - make_interval(hours => s.fund_interval::integer)
          and k.funding_rate is not null
        order by k.ts desc limit 1
      ) t
      where extract(hour from s.settled_at at time zone 'UTC')::bigint % s.fund_interval = 0
      order by s.settled_at`

/** market.ohlcv holds exactly the minutes of its range, and market.funding_history takes an interval of 0 for none. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`create or replace function market.ohlcv ${sql.raw(
    `(${instrument}, width interval, ${range}, origin timestamptz default 'epoch')
    returns table (open_time timestamptz, open numeric, high numeric, low numeric, close numeric,
      base_volume numeric, quote_turnover numeric)`,
  )} language sql stable parallel safe as ${sql.lit(`${ohlcv}\n`)}`.execute(db)
  await sql`create or replace function market.funding_history ${sql.raw(
    `(${instrument}, ${range})
    returns table (settled_at timestamptz, funding_rate numeric, fund_interval bigint, seen_at timestamptz)`,
  )} language sql stable parallel safe as ${sql.lit(`${fundingHistory}\n`)}`.execute(db)
}
