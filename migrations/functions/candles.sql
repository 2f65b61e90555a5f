-- Candles of other widths and alignments, made of closed 1m market candles, and candles without gaps.

create or replace function market.interval_length(which market.candle_interval)
returns interval language sql immutable parallel safe as $$
  select case which
    when '1m' then interval '1 minute' when '3m' then interval '3 minutes' when '5m' then interval '5 minutes'
    when '15m' then interval '15 minutes' when '30m' then interval '30 minutes'
    when '1H' then interval '1 hour' when '4H' then interval '4 hours' when '6H' then interval '6 hours'
    when '12H' then interval '12 hours' when '1D' then interval '24 hours'
    when '3D' then interval '72 hours' when '1W' then interval '168 hours'
    when '6Hutc' then interval '6 hours' when '12Hutc' then interval '12 hours' when '1Dutc' then interval '24 hours'
    when '3Dutc' then interval '72 hours' when '1Wutc' then interval '168 hours' end
$$;
comment on function market.interval_length is
  'How long a candle of this interval is.';

-- Rolls up hours or five minutes that lie wholly in the range, and minutes before and after them. The end of a range
-- in the future cuts no hour in two. Conditions on the range and the width are repeated for the planner. Otherwise it
-- takes every chunk of candles and of each rollup into account.
create or replace function market.ohlcv(
  category market.category, symbol text, width interval, from_time timestamptz, to_time timestamptz,
  origin timestamptz default 'epoch'
)
returns table (
  open_time timestamptz, open numeric, high numeric, low numeric, close numeric, base_volume numeric,
  quote_turnover numeric
) language sql stable parallel safe as $$
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
          then date_bin(step, from_time + step - interval '1 microsecond',
            timestamptz 'epoch') else from_time end as whole_from,
        case when to_time >= now() then to_time else date_bin(step, to_time, timestamptz 'epoch') end as whole_to
    ) as whole
  ), source as (
    select r.open_time, r.open, r.high, r.low, r.close, r.base_volume, r.quote_turnover from market.ohlcv_1h r
    where extract(epoch from width) % 3600 = 0 and extract(epoch from origin) % 3600 = 0
      and r.category = ohlcv.category and r.symbol = ohlcv.symbol
      and r.open_time >= from_time and r.open_time < to_time
      and r.open_time >= (select whole_from from fit) and r.open_time < (select whole_to from fit)
    union all
    select r.open_time, r.open, r.high, r.low, r.close, r.base_volume, r.quote_turnover from market.ohlcv_5m r
    where (select rollup from fit) = '5m' and r.category = ohlcv.category and r.symbol = ohlcv.symbol
      and r.open_time >= from_time and r.open_time < to_time
      and r.open_time >= (select whole_from from fit) and r.open_time < (select whole_to from fit)
    union all
    select c.open_time, c.open, c.high, c.low, c.close, c.base_volume, c.quote_turnover from market.candles c
    where c.category = ohlcv.category and c.symbol = ohlcv.symbol and c.type = 'market' and c.interval = '1m'
      and c.is_closed
      and c.open_time >= from_time and c.open_time < to_time and c.open_time < (select whole_from from fit)
    union all
    select c.open_time, c.open, c.high, c.low, c.close, c.base_volume, c.quote_turnover from market.candles c
    where c.category = ohlcv.category and c.symbol = ohlcv.symbol and c.type = 'market' and c.interval = '1m'
      and c.is_closed
      and c.open_time >= from_time and c.open_time < to_time and c.open_time >= (select whole_to from fit)
  )
  select date_bin(width, s.open_time, origin), (array_agg(s.open order by s.open_time))[1], max(s.high), min(s.low),
    (array_agg(s.close order by s.open_time desc))[1], sum(s.base_volume), sum(s.quote_turnover)
  from source s group by 1 order by 1
$$;
comment on function market.ohlcv is
  'Candles of any width and alignment, rolled up from closed 1m market candles that open in a half-open range: '
  'width ''24 hours'' with origin ''1970-01-01 16:00Z'' gives days that open at 16:00 UTC.';

-- PL/pgSQL is planned at the call. A plan for any time would take every chunk into account.
create or replace function market.candle_before(
  category market.category, symbol text, candle_interval market.candle_interval, before timestamptz,
  type market.candle_type default 'market'
)
returns table (open_time timestamptz, close numeric) language plpgsql stable parallel safe as $$
begin
  return query select c.open_time, c.close from market.candles c
    where c.category = candle_before.category and c.symbol = candle_before.symbol and c.type = candle_before.type
      and c.interval = candle_interval and c.is_closed and c.open_time < before
    order by c.open_time desc limit 1;
end
$$;
comment on function market.candle_before is
  'The newest closed candle that opens before a moment, however long before; no row where there is none.';

-- Looks for the candle before the range, nearby first.
create or replace function market.candles_without_gaps(
  category market.category, symbol text, candle_interval market.candle_interval, from_time timestamptz,
  to_time timestamptz, type market.candle_type default 'market'
)
returns table (
  open_time timestamptz, open numeric, high numeric, low numeric, close numeric, base_volume numeric,
  quote_turnover numeric, is_filled boolean, is_recorded boolean
) language sql stable parallel safe as $$
  with near as (
    select c.open_time, c.close from market.candles c
    where c.category = candles_without_gaps.category and c.symbol = candles_without_gaps.symbol
      and c.type = candles_without_gaps.type and c.interval = candle_interval and c.is_closed
      and c.open_time < from_time and c.open_time >= from_time - interval '7 days'
    order by c.open_time desc limit 1
  ), before as (
    select n.open_time, n.close from near n
    union all
    select far.open_time, far.close
    from market.candle_before(candles_without_gaps.category, candles_without_gaps.symbol, candle_interval,
      from_time - interval '7 days', candles_without_gaps.type) far
    where not exists (select from near)
  ), inside as (
    select c.* from market.candles c
    where c.category = candles_without_gaps.category and c.symbol = candles_without_gaps.symbol
      and c.type = candles_without_gaps.type and c.interval = candle_interval and c.is_closed
      and c.open_time >= from_time and c.open_time < to_time
  ), grid as (
    -- The grid is aligned to stored candles, because candles of a day need not open at midnight UTC.
    select g.open_time
    from (select coalesce((select min(i.open_time) from inside i),
      (select b.open_time from before b)) as open_time) anchor
    cross join lateral generate_series(
      date_bin(market.interval_length(candle_interval), from_time, anchor.open_time),
      least(to_time, now()) - interval '1 microsecond', market.interval_length(candle_interval)) as g (open_time)
    where g.open_time >= from_time
  ), grouped as (
    select g.open_time, i.open, i.high, i.low, i.close, i.base_volume, i.quote_turnover,
      count(i.close) over (order by g.open_time) as candles_so_far
    from grid g left join inside i on i.open_time = g.open_time
  ), carried as (
    select g.*, coalesce(
      first_value(g.close) over (partition by g.candles_so_far order by g.open_time),
      (select b.close from before b)) as last_close
    from grouped g
  ), known as materialized (
    select range_agg(tstzrange(v.from_time, v.to_time)) as ranges from market.coverage v
    where v.category = candles_without_gaps.category and v.symbol = candles_without_gaps.symbol
      and v.stream = 'candles' and v.type = candles_without_gaps.type and v.interval = candle_interval
      and v.to_time > candles_without_gaps.from_time and v.from_time < candles_without_gaps.to_time
  )
  select c.open_time, coalesce(c.open, c.last_close), coalesce(c.high, c.last_close), coalesce(c.low, c.last_close),
    coalesce(c.close, c.last_close), coalesce(c.base_volume, 0), coalesce(c.quote_turnover, 0), c.close is null,
    c.close is not null or coalesce((select k.ranges from known k)
      @> tstzrange(c.open_time, c.open_time + market.interval_length(candle_interval)), false)
  from carried c
  where c.last_close is not null
  order by c.open_time
$$;
comment on function market.candles_without_gaps is
  'Closed candles of a half-open range, one for each step. Where one is missing, is_filled is true, its prices are '
  'the close before it and its volume is 0: nothing was traded when is_recorded is true, and when it is false, that '
  'step was not recorded and nobody knows. Begins with the first candle that there is, and ends with the present.';
