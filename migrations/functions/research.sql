-- Functions for studies: returns and volatility, books as figures, bars, and joins by time. Logarithms are of double
-- precision, because as decimals they would not be exact either. Quotients are rounded, after 16 digits at least. All
-- other results are exact to the last digit.

create or replace function market.universe_at(moment timestamptz)
returns setof market.instrument_history language sql stable parallel safe as $$
  select h.* from market.instrument_history h
  where h.valid_from <= moment and (h.valid_to is null or h.valid_to > moment)
$$;
comment on function market.universe_at is
  'The instruments that were listed at a moment, also those that have gone since, each with the specification that '
  'held then. Selecting from it keeps survivors from being the only ones in a study.';

-- A small x is not added to 1 alone: ln(1 + x) would have few of its digits. A large fall is not added to 1 at all. The
-- close before the range is looked for in a week, because chunks without a row of the instrument cost time, too.
create or replace function market.log_returns(
  category market.category, symbol text, width interval, from_time timestamptz, to_time timestamptz
)
returns table (open_time timestamptz, close numeric, log_return double precision)
language sql stable parallel safe as $$
  -- A day has 24 hours, whatever the time zone of the session.
  with grid as (
    select s.span, case when isfinite(from_time)
      then date_bin(s.span, from_time + s.span - interval '1 microsecond', timestamptz 'epoch') else from_time end as first_step
    from (select make_interval(secs => extract(epoch from width)::float8) as span) s
  ), known as materialized (
    select range_agg(tstzrange(v.from_time, v.to_time)) as ranges from market.coverage v
    where v.category = log_returns.category and v.symbol = log_returns.symbol and v.stream = 'candles'
      and v.type = 'market' and v.interval = '1m'
      and v.to_time > log_returns.from_time - interval '168 hours' and v.from_time < log_returns.to_time
  ), before as (
    select m.open_time + interval '1 minute' as closed_at, m.close from grid g cross join market.candles m
    where m.category = log_returns.category and m.symbol = log_returns.symbol and m.type = 'market'
      and m.interval = '1m' and m.is_closed
      -- The planner leaves out chunks by the range's own bounds.
      and m.open_time >= from_time - interval '168 hours'
      and m.open_time < from_time + make_interval(secs => extract(epoch from width)::float8)
      and m.open_time < g.first_step
    order by m.open_time desc limit 1
  ), bucket as (
    select o.open_time, o.close, o.is_complete, lead(o.open_time) over (order by o.open_time) as next_open
    from grid g
    cross join lateral market.ohlcv(log_returns.category, log_returns.symbol, width, g.first_step, to_time) o
  ), followed as (
    select b.open_time, b.close, b.open_time + g.span as first_step, b.next_open,
      -- The end of the last minute with a candle. It need not be known where the next bucket follows at once.
      case when b.is_complete and b.next_open = b.open_time + g.span then b.next_open else (
        select max(m.open_time) + interval '1 minute' from market.candles m
        where m.category = log_returns.category and m.symbol = log_returns.symbol and m.type = 'market'
          and m.interval = '1m' and m.is_closed and m.open_time >= b.open_time and m.open_time < b.open_time + g.span
          and m.open_time >= from_time and m.open_time < to_time) end as closed_at
    from grid g cross join bucket b
    union all
    select null, e.close, g.first_step, (select min(b.open_time) from bucket b), e.closed_at
    from grid g cross join before e
  )
  select r.open_time, r.close,
    case when r.is_known and r.close / nullif(r.close_before, 0) > 0
      then case when r.change not between -0.5 and 1 then ln((r.close / r.close_before)::float8)
        when 1 + r.change = 1 then r.change else r.change * ln(1 + r.change) / ((1 + r.change) - 1) end end
  from (
    select b.open_time, b.close, f.close as close_before,
      b.is_complete and (f.closed_at >= b.open_time or k.ranges @> tstzrange(f.closed_at, b.open_time)) as is_known,
      (b.close - f.close)::float8 / nullif(f.close, 0)::float8 as change
    from bucket b cross join known k left join followed f on f.next_open = b.open_time
    union all
    select s.step, f.close, f.close, true, 0
    from followed f cross join grid g cross join known k
    cross join lateral generate_series(f.first_step,
      least(f.next_open, to_time, coalesce(upper(k.ranges), f.first_step)) - g.span, g.span) as s (step)
    where k.ranges @> tstzrange(f.closed_at, s.step + g.span)
  ) r
  order by r.open_time
$$;
comment on function market.log_returns is
  'Logarithm of the close of each candle over the last close before it, from closed 1m candles. A step that is proven '
  'to be without trade repeats the close, and its return is 0. NULL unless each minute since the close before is '
  'recorded, or proven to be without trade: no return spans a gap, and a candle that is not complete has none. Nor has '
  'the first of the range, when the close before is more than 168 hours older. Begin the range at a multiple of width.';

create or replace function market.realized_volatility(
  category market.category, symbol text, width interval, from_time timestamptz, to_time timestamptz
)
returns double precision language sql stable parallel safe as $$
  select sqrt(sum(r.log_return * r.log_return) / nullif(count(r.log_return), 0)
    * (31536000 / extract(epoch from width)::float8))
  from market.log_returns(realized_volatility.category, realized_volatility.symbol, width, from_time, to_time) r
$$;
comment on function market.realized_volatility is
  'Realized volatility of a half-open range as a fraction a year of 365 days: the root of the mean square of the '
  'log returns of this width. Steps that are proven to be without trade count as returns of 0. NULL without a return.';

-- Of a crossed book the best levels are the far ones. Figures of an order book are not in SQL, because the planner does
-- not inline a body with a query inside. Calling such a function takes twenty times as long as this loop.
create or replace function market.book_imbalance(
  bid_prices numeric[], bid_sizes numeric[], ask_prices numeric[], ask_sizes numeric[],
  within_bps numeric default null
)
returns numeric language plpgsql immutable parallel safe as $$
declare
  bids numeric := bid_sizes[1];
  asks numeric := ask_sizes[1];
  twice_mid constant numeric := bid_prices[1] + ask_prices[1];
begin
  if twice_mid is null or within_bps is null then
    return (bids - asks) / nullif(bids + asks, 0);
  end if;
  bids := 0;
  asks := 0;
  for i in 1..cardinality(bid_prices) loop
    exit when bid_prices[i] * 20000 < twice_mid * (10000 - within_bps);
    continue when bid_prices[i] * 20000 > twice_mid * (10000 + within_bps);
    bids := bids + bid_sizes[i];
  end loop;
  for i in 1..cardinality(ask_prices) loop
    exit when ask_prices[i] * 20000 > twice_mid * (10000 + within_bps);
    continue when ask_prices[i] * 20000 < twice_mid * (10000 - within_bps);
    asks := asks + ask_sizes[i];
  end loop;
  return (bids - asks) / nullif(bids + asks, 0);
end
$$;
comment on function market.book_imbalance is
  '(bids - asks) / (bids + asks) of an order book: 1 is only bids, -1 only asks. Of the best level, or of all '
  'levels up to within_bps basis points from the middle price. NULL when a side is empty.';

create or replace function market.microprice(
  bid_prices numeric[], bid_sizes numeric[], ask_prices numeric[], ask_sizes numeric[],
  within_bps numeric default null
)
returns numeric language plpgsql immutable parallel safe as $$
declare
  bids numeric := bid_sizes[1];
  asks numeric := ask_sizes[1];
  twice_mid constant numeric := bid_prices[1] + ask_prices[1];
begin
  if twice_mid is null or within_bps is null then
    return (ask_prices[1] * bids + bid_prices[1] * asks) / nullif(bids + asks, 0);
  end if;
  bids := 0;
  asks := 0;
  for i in 1..cardinality(bid_prices) loop
    exit when bid_prices[i] * 20000 < twice_mid * (10000 - within_bps);
    continue when bid_prices[i] * 20000 > twice_mid * (10000 + within_bps);
    bids := bids + bid_sizes[i];
  end loop;
  for i in 1..cardinality(ask_prices) loop
    exit when ask_prices[i] * 20000 > twice_mid * (10000 + within_bps);
    continue when ask_prices[i] * 20000 < twice_mid * (10000 - within_bps);
    asks := asks + ask_sizes[i];
  end loop;
  return (ask_prices[1] * bids + bid_prices[1] * asks) / nullif(bids + asks, 0);
end
$$;
comment on function market.microprice is
  'The best prices, each weighted by the size of the other side: nearer to the ask when there are more bids. Sizes '
  'of the best level, or of all levels up to within_bps basis points from the middle price. NULL when a side is '
  'empty.';

-- Bars close after an amount was traded. A fill counts whole in the bar in which it begins. No fill is split, and all
-- bars together hold exactly the fills of the range. Fills of one millisecond follow by exec_id as a number: '1000' is
-- after '999', so that the shorter one is first.
create or replace function market.volume_bars(
  category market.category, symbol text, from_time timestamptz, to_time timestamptz, bar_size numeric
)
returns table (
  bar bigint, open_time timestamptz, close_time timestamptz, open numeric, high numeric, low numeric, close numeric,
  base_volume numeric, quote_turnover numeric, buy_volume numeric, fills bigint
) language sql stable parallel safe as $$
  select row_number() over (order by d.bar), min(d.ts), max(d.ts),
    (array_agg(d.price order by d.ts, length(d.exec_id), d.exec_id))[1], max(d.price), min(d.price),
    (array_agg(d.price order by d.ts desc, length(d.exec_id) desc, d.exec_id desc))[1],
    case volume_bars.category when 'COIN-FUTURES' then round(sum(d.base), 20) else sum(d.base) end, sum(d.quote),
    coalesce(case volume_bars.category when 'COIN-FUTURES' then round(sum(d.base) filter (where d.side = 'buy'), 20)
      else sum(d.base) filter (where d.side = 'buy') end, 0), count(*)
  from (
    select a.*,
      div(case volume_bars.category when 'COIN-FUTURES' then round(a.before, 20) else a.before end, bar_size) as bar
    from (
      select f.ts, f.exec_id, f.price, f.side, q.base, market.fill_quote_value(f.category, f.price, f.size) as quote,
        sum(q.base) over (order by f.ts, length(f.exec_id), f.exec_id) - q.base as before
      from market.fills f
      -- Quotients have 40 digits, and their sums are compared by 20: three times 100/3 are 100.
      cross join lateral (select case volume_bars.category when 'COIN-FUTURES'
        then round(f.size, 40) / nullif(f.price, 0) else f.size end as base) q
      where f.category = volume_bars.category and f.symbol = volume_bars.symbol and f.ts >= from_time and f.ts < to_time
        and bar_size > 0
    ) a
  ) d
  group by d.bar order by d.bar
$$;
comment on function market.volume_bars is
  'Bars of the fills of a half-open range, one for each bar_size of volume (base coin), the last of what is left. A '
  'fill counts whole in the bar in which it begins, and what it exceeds counts towards the next. The first bar '
  'begins at from_time. Volumes of COIN-FUTURES are quotients, given to 20 digits behind the point.';

create or replace function market.dollar_bars(
  category market.category, symbol text, from_time timestamptz, to_time timestamptz, bar_size numeric
)
returns table (
  bar bigint, open_time timestamptz, close_time timestamptz, open numeric, high numeric, low numeric, close numeric,
  base_volume numeric, quote_turnover numeric, buy_volume numeric, fills bigint
) language sql stable parallel safe as $$
  select row_number() over (order by d.bar), min(d.ts), max(d.ts),
    (array_agg(d.price order by d.ts, length(d.exec_id), d.exec_id))[1], max(d.price), min(d.price),
    (array_agg(d.price order by d.ts desc, length(d.exec_id) desc, d.exec_id desc))[1], sum(d.base), sum(d.quote),
    coalesce(sum(d.base) filter (where d.side = 'buy'), 0), count(*)
  from (
    select a.*, div(sum(a.quote) over (order by a.ts, length(a.exec_id), a.exec_id) - a.quote, bar_size) as bar
    from (
      select f.ts, f.exec_id, f.price, f.side, market.fill_base_size(f.category, f.price, f.size) as base,
        market.fill_quote_value(f.category, f.price, f.size) as quote
      from market.fills f
      where f.category = dollar_bars.category and f.symbol = dollar_bars.symbol and f.ts >= from_time and f.ts < to_time
        and bar_size > 0
    ) a
  ) d
  group by d.bar order by d.bar
$$;
comment on function market.dollar_bars is
  'Bars of the fills of a half-open range, one for each bar_size of turnover (quote coin), the last of what is '
  'left. A fill counts whole in the bar in which it begins, and what it exceeds counts towards the next. The first '
  'bar begins at from_time.';

-- Fills and quotes are sorted together once. The largest quote so far is the newest, because its time is its first
-- element. A look-up of the quote of each fill would search a compressed table for each fill. Of the quotes before the
-- range only the newest of each kind is read.
create or replace function market.fills_with_quotes(
  category market.category, symbol text, from_time timestamptz, to_time timestamptz,
  max_age interval default '1 minute'
)
returns table (
  ts timestamptz, exec_id text, side market.side, price numeric, size numeric, is_rpi boolean, quote_ts timestamptz,
  bid_price numeric, ask_price numeric, mid numeric, effective_spread_bps numeric
) language sql stable parallel safe as $$
  with events as (
    select f.ts, f.exec_id, f.side, f.price, f.size, f.is_rpi, null::numeric[] as quote
    from market.fills f
    where f.category = fills_with_quotes.category and f.symbol = fills_with_quotes.symbol
      and f.ts >= from_time and f.ts < to_time
    union all
    select t.ts, null, null, null, null, null, array[extract(epoch from t.ts), 1, t.bid1_price, t.ask1_price]
    from market.tickers t
    where t.category = fills_with_quotes.category and t.symbol = fills_with_quotes.symbol
      and t.ts >= from_time and t.ts < to_time and t.bid1_price > 0 and t.ask1_price > 0
    union all
    (select t.ts, null, null, null, null, null, array[extract(epoch from t.ts), 1, t.bid1_price, t.ask1_price]
    from market.tickers t
    where t.category = fills_with_quotes.category and t.symbol = fills_with_quotes.symbol
      and t.bid1_price > 0 and t.ask1_price > 0
      and t.ts < from_time
      and t.ts >= coalesce((from_time at time zone 'UTC' - max_age) at time zone 'UTC', '-infinity')
    order by t.ts desc limit 1)
    union all
    select b.ts, null, null, null, null, null, array[extract(epoch from b.ts), 2, b.best_bid, b.best_ask]
    from market.order_books b
    where b.category = fills_with_quotes.category and b.symbol = fills_with_quotes.symbol
      and b.ts >= from_time and b.ts < to_time and b.best_bid > 0 and b.best_ask > 0
    union all
    (select b.ts, null, null, null, null, null, array[extract(epoch from b.ts), 2, b.best_bid, b.best_ask]
    from market.order_books b
    where b.category = fills_with_quotes.category and b.symbol = fills_with_quotes.symbol
      and b.best_bid > 0 and b.best_ask > 0
      and b.ts < from_time
      and b.ts >= coalesce((from_time at time zone 'UTC' - max_age) at time zone 'UTC', '-infinity')
    order by b.ts desc limit 1)
  ), sorted as (
    select e.*, max(e.quote) over (order by e.ts, e.exec_id nulls first rows unbounded preceding) as newest
    from events e
  ), joined as (
    select s.ts, s.exec_id, s.side, s.price, s.size, s.is_rpi,
      case when max_age is null or s.newest[1] >= extract(epoch from (s.ts at time zone 'UTC' - max_age) at time zone 'UTC')
        then s.newest end as quote
    from sorted s
    where s.exec_id is not null
  )
  select j.ts, j.exec_id, j.side, j.price, j.size, j.is_rpi,
    timestamptz 'epoch' + make_interval(secs => j.quote[1]::float8), j.quote[3], j.quote[4],
    (j.quote[3] + j.quote[4]) * 0.5,
    case j.side when 'buy' then 20000 else -20000 end
      * (j.price - (j.quote[3] + j.quote[4]) * 0.5) / nullif((j.quote[3] + j.quote[4]) * 0.5, 0)
  from joined j
  order by j.ts, length(j.exec_id), j.exec_id
$$;
comment on function market.fills_with_quotes is
  'Each fill of a half-open range with the newest quote at its moment: the best bid and ask of an order book or a '
  'ticker with both sides, whichever is newer. NULL where none is as young as max_age, of which NULL is any age. '
  'effective_spread_bps is twice the distance from the middle price in basis points, positive when the taker paid.';

-- A series of times without an end would fill the disk of the server.
create or replace function recorder_page.grid_bound(moment timestamptz)
returns timestamptz language plpgsql immutable parallel safe as $$
begin
  if not isfinite(moment) then
    raise exception 'a grid begins and ends at finite times, not at %', moment using errcode = '22023';
  end if;
  return moment;
end
$$;

-- Takes counts, because PL/pgSQL takes no array of anonymous rows.
create or replace function recorder_page.grid_length(times integer, "values" integer, dimensions integer)
returns integer language plpgsql immutable parallel safe as $$
begin
  -- unnest() would give the elements of the values one by one.
  if dimensions > 1 then
    raise exception 'on_grid takes no arrays as values: give whole rows, as array_agg(t order by t.ts) does'
      using errcode = '22023';
  end if;
  if times <> "values" then
    raise exception 'on_grid takes a value for each time, not % for %', "values", times using errcode = '22023';
  end if;
  return times;
end
$$;

create or replace function market.on_grid(
  times timestamptz[], "values" anyarray, from_time timestamptz, to_time timestamptz, step interval,
  max_age interval default null
)
returns table (moment timestamptz, ts timestamptz, value anyelement) language sql immutable parallel safe as $$
  select g.moment, u.ts, u.value
  from (
    select m.moment, width_bucket(m.moment, times) as place
    from generate_series(recorder_page.grid_bound(from_time) at time zone 'UTC',
      recorder_page.grid_bound(to_time) at time zone 'UTC' - interval '1 microsecond', step) as s (utc)
    cross join lateral (select s.utc at time zone 'UTC' as moment) m
  ) g
  -- unnest() is called among the columns, because there it keeps a row in one piece.
  left join (
    select unnest(times) as ts, unnest("values") as value,
      generate_series(1, recorder_page.grid_length(cardinality(times), cardinality("values"), array_ndims("values"))) as place
  ) u on u.place = g.place and (max_age is null or u.ts >= (g.moment at time zone 'UTC' - max_age) at time zone 'UTC')
  order by g.moment
$$;
comment on function market.on_grid is
  'The newest of any values at each step of a half-open range. times ascends and has the time of each value; '
  'array_agg(… order by ts) makes both. A value can be a whole row, and no array. NULL where none is as young as '
  'max_age. Both bounds are finite.';
