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

drop function if exists market.ohlcv(market.category, text, interval, timestamptz, timestamptz, timestamptz);

-- Returns the time before which rollups outlive their candles; NULL if no candle was removed for its age. Readers of
-- schema market do not see schema recorder.
create or replace function recorder_page.final_before()
returns timestamptz language sql stable security definer set search_path = '' as $$
  select before from recorder.final_rollups
$$;

-- Returns the candles of steps whose minutes may have been removed for their age: of each, the rollup or the stored
-- minutes, whichever has more of them. A function of its own, because the views of rollups take long to plan.
create or replace function recorder_page.final_candles(
  category market.category, symbol text, step interval, final_from timestamptz, final_to timestamptz
)
returns table (
  open_time timestamptz, open numeric, high numeric, low numeric, close numeric, base_volume numeric,
  quote_turnover numeric, minutes bigint
) language plpgsql stable parallel safe rows 100 set plan_cache_mode = force_custom_plan as $$
begin
  return query
  select distinct on (f.open_time)
    f.open_time, f.open, f.high, f.low, f.close, f.base_volume, f.quote_turnover, f.minutes
  from (
    select date_bin(step, c.open_time, timestamptz 'epoch') as open_time,
      (array_agg(c.open order by c.open_time))[1] as open, max(c.high) as high, min(c.low) as low,
      (array_agg(c.close order by c.open_time))[count(*)] as close,
      case when count(c.base_volume) = count(*) then sum(c.base_volume) end as base_volume,
      case when count(c.quote_turnover) = count(*) then sum(c.quote_turnover) end as quote_turnover,
      count(*) as minutes, false as is_rollup
    from market.candles c
    where c.category = final_candles.category and c.symbol = final_candles.symbol and c.type = 'market'
      and c.interval = '1m' and c.is_closed and c.open_time >= final_from and c.open_time < final_to
    group by 1
    union all
    select r.open_time, r.open, r.high, r.low, r.close, r.base_volume, r.quote_turnover, r.minutes, true
    from market.ohlcv_1h r
    where step = interval '1 hour' and r.category = final_candles.category and r.symbol = final_candles.symbol
      and r.open_time >= final_from and r.open_time < final_to
    union all
    select r.open_time, r.open, r.high, r.low, r.close, r.base_volume, r.quote_turnover, r.minutes, true
    from market.ohlcv_5m r
    where step = interval '5 minutes' and r.category = final_candles.category and r.symbol = final_candles.symbol
      and r.open_time >= final_from and r.open_time < final_to
  ) f order by f.open_time, f.minutes desc, f.is_rollup;
end
$$;

-- Reads minutes, because rollups may lack what was stored or changed since. A bound reaches the index of the minutes,
-- and to group them costs no more than to plan and to read rollups. Only where minutes were removed for their age, the
-- rollups of hours or five minutes are read that have more minutes than are stored. Each call is planned with its
-- values, so that a branch that does not apply costs nothing.
create function market.ohlcv(
  category market.category, symbol text, width interval, from_time timestamptz, to_time timestamptz,
  origin timestamptz default 'epoch'
)
returns table (
  open_time timestamptz, open numeric, high numeric, low numeric, close numeric, base_volume numeric,
  quote_turnover numeric, minutes bigint, expected_minutes bigint, is_complete boolean
) language plpgsql stable strict parallel safe rows 100 set plan_cache_mode = force_custom_plan as $$
declare
  -- A day has 24 hours, whatever the time zone of the session.
  span constant interval := make_interval(secs => extract(epoch from width)::float8);
  final_before constant timestamptz := recorder_page.final_before();
  step interval;
  final_from timestamptz;
  final_to timestamptz;
  known tstzmultirange;
begin
  if extract(year from width) <> 0 or extract(month from width) <> 0 then
    raise exception 'the width of a candle is counted in days or less, not in months' using errcode = '0A000';
  end if;
  if extract(epoch from width) < 60 then
    raise exception 'candles are made of minutes, so that their width is a minute at least' using errcode = '22023';
  end if;
  if from_time < final_before and exists (select from pg_class r join pg_namespace n on n.oid = r.relnamespace
    where n.nspname = 'recorder' and r.relname = 'ohlcv_1h')
  then
    step := case
      when extract(epoch from span) % 3600 = 0 and extract(epoch from origin) % 3600 = 0 then interval '1 hour'
      when extract(epoch from span) % 300 = 0 and extract(epoch from origin) % 300 = 0 then interval '5 minutes' end;
  end if;
  if step is not null then
    final_from := case when isfinite(from_time)
      then date_bin(step, from_time + step - interval '1 microsecond', timestamptz 'epoch') else from_time end;
    final_to := greatest(final_from, date_bin(step,
      least(to_time, final_before + step - interval '1 microsecond'), timestamptz 'epoch'));
  end if;
  select range_agg(tstzrange(v.from_time, v.to_time)) into known from market.coverage v
  where v.category = ohlcv.category and v.symbol = ohlcv.symbol and v.stream = 'candles' and v.type = 'market'
    and v.interval = '1m' and v.to_time > ohlcv.from_time and v.from_time < ohlcv.to_time;

  return query
  select b.open_time, b.open, b.high, b.low, b.close, b.base_volume, b.quote_turnover, b.minutes, e.minutes,
    b.open_time >= ohlcv.from_time and b.open_time + span <= ohlcv.to_time
      and (b.minutes = e.minutes or coalesce(known @> tstzrange(b.open_time, b.open_time + span), false))
  from (
    select date_bin(span, s.open_time, origin) as open_time, (array_agg(s.open order by s.open_time))[1] as open,
      max(s.high) as high, min(s.low) as low, (array_agg(s.close order by s.open_time))[count(*)] as close,
      case when count(s.base_volume) = count(*) then sum(s.base_volume) end as base_volume,
      case when count(s.quote_turnover) = count(*) then sum(s.quote_turnover) end as quote_turnover,
      sum(s.minutes)::bigint as minutes
    from (
      select c.open_time, c.open, c.high, c.low, c.close, c.base_volume, c.quote_turnover, 1::bigint as minutes
      from market.candles c
      where c.category = ohlcv.category and c.symbol = ohlcv.symbol and c.type = 'market' and c.interval = '1m'
        and c.is_closed and c.open_time >= ohlcv.from_time and c.open_time < ohlcv.to_time
        and (step is null or c.open_time < final_from or c.open_time >= final_to)
      union all
      select f.* from recorder_page.final_candles(ohlcv.category, ohlcv.symbol, step, final_from, final_to) f
      where step is not null
    ) s group by 1
  ) b
  cross join lateral (select (ceil(extract(epoch from b.open_time + span) / 60)
    - ceil(extract(epoch from b.open_time) / 60))::bigint as minutes) e
  order by 1;
end
$$;
comment on function market.ohlcv is
  'Candles of any width and alignment, rolled up from closed 1m market candles that open in a half-open range: '
  'width ''24 hours'' with origin ''1970-01-01 16:00Z'' gives days that open at 16:00 UTC. minutes are those rolled up, '
  'expected_minutes those of the width. is_complete is true when each minute is recorded, or proven to be without '
  'trade. A volume is NULL where that of a minute is unknown. Reads the range alone, and the minutes as they are now, '
  'also where the server keeps rollups: of those it reads what has lost its minutes to retention.';

-- PL/pgSQL is planned at the call. A plan for any time would take every chunk into account.
create or replace function market.candle_before(
  category market.category, symbol text, candle_interval market.candle_interval, before timestamptz,
  type market.candle_type default 'market'
)
returns table (open_time timestamptz, close numeric) language plpgsql stable parallel safe rows 1 as $$
begin
  return query select c.open_time, c.close from market.candles c
    where c.category = candle_before.category and c.symbol = candle_before.symbol and c.type = candle_before.type
      and c.interval = candle_interval and c.is_closed and c.open_time < before
    order by c.open_time desc limit 1;
end
$$;
comment on function market.candle_before is
  'The newest closed candle that opens before a moment, however long before; no row where there is none.';

-- Looks for the candle before the range, nearby first. Steps follow from that candle. A stored candle stands at its own
-- time, and steps go on from there, because days have begun to open at another hour.
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
      and c.open_time < from_time and c.open_time >= from_time - interval '168 hours'
    order by c.open_time desc limit 1
  ), before as (
    select n.open_time, n.close from near n
    union all
    select far.open_time, far.close
    from market.candle_before(candles_without_gaps.category, candles_without_gaps.symbol, candle_interval,
      from_time - interval '168 hours', candles_without_gaps.type) far
    where not exists (select from near)
  ), inside as (
    select c.open_time, c.open, c.high, c.low, c.close, c.base_volume, c.quote_turnover from market.candles c
    where c.category = candles_without_gaps.category and c.symbol = candles_without_gaps.symbol
      and c.type = candles_without_gaps.type and c.interval = candle_interval and c.is_closed
      and c.open_time >= from_time and c.open_time < to_time
  ), known as materialized (
    select range_agg(tstzrange(v.from_time, v.to_time)) as ranges from market.coverage v
    where v.category = candles_without_gaps.category and v.symbol = candles_without_gaps.symbol
      and v.stream = 'candles' and v.type = candles_without_gaps.type and v.interval = candle_interval
      and v.to_time > candles_without_gaps.from_time and v.from_time < candles_without_gaps.to_time
  ), followed as (
    select f.first_step, f.close, lead(f.open_time) over (order by f.open_time) as next_open
    from (
      select b.open_time, b.close, date_bin(market.interval_length(candle_interval),
        from_time + market.interval_length(candle_interval) - interval '1 microsecond', b.open_time) as first_step
      from before b
      union all
      select i.open_time, i.close, i.open_time + market.interval_length(candle_interval) from inside i
    ) f
  )
  select i.open_time, i.open, i.high, i.low, i.close, i.base_volume, i.quote_turnover, false, true from inside i
  union all
  select g.step, f.close, f.close, f.close, f.close, 0, 0, true,
    coalesce((select k.ranges from known k)
      @> tstzrange(g.step, least(g.step + market.interval_length(candle_interval), f.next_open)), false)
  from followed f
  -- The time of a transaction stands still, so that rows and proofs may be younger than now().
  cross join lateral generate_series(f.first_step, least(to_time,
      coalesce(f.next_open, greatest(now(), (select upper(k.ranges) from known k)))) - interval '1 microsecond',
    market.interval_length(candle_interval)) as g (step)
  where f.first_step < coalesce(f.next_open, to_time)
  order by 1
$$;
comment on function market.candles_without_gaps is
  'Closed candles of a half-open range, one for each step. Where one is missing, is_filled is true, its prices are '
  'the close before it and its volume is 0: nothing was traded when is_recorded is true, and when it is false, that '
  'step was not recorded or is not over, and nobody knows. A volume that the service does not tell stays NULL. Begins '
  'with the first candle that there is, and ends with the present.';
