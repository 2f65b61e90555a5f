-- Queries that are easily written wrong by hand.
--
-- The planner inlines bodies in SQL. A parameter with the name of a column is qualified by the function's name.

create or replace function market.fill_base_size(category market.category, price numeric, size numeric)
returns numeric language sql immutable parallel safe as $$
  select case fill_base_size.category when 'COIN-FUTURES' then size / nullif(price, 0) else size end
$$;
comment on function market.fill_base_size is
  'Size of a fill in base coin. Fills of COIN-FUTURES have theirs in quote coin.';

create or replace function market.fill_quote_value(category market.category, price numeric, size numeric)
returns numeric language sql immutable parallel safe as $$
  select case fill_quote_value.category when 'COIN-FUTURES' then size else size * price end
$$;
comment on function market.fill_quote_value is
  'Value of a fill in quote coin. Fills of COIN-FUTURES have their size in quote coin already.';

create or replace function market.spread_bps(best_bid numeric, best_ask numeric)
returns numeric language sql immutable parallel safe as $$
  select case when best_bid > 0 and best_ask > 0 then (best_ask - best_bid) * 20000 / (best_ask + best_bid) end
$$;
comment on function market.spread_bps is
  'Spread in basis points (1/10000) of the middle price; NULL when a side is empty, or its price is 0.';

drop function if exists market.ticker_at(market.category, text, timestamptz),
  market.order_book_at(market.category, text, timestamptz),
  market.rpi_order_book_at(market.category, text, timestamptz);

-- Returns the newest row of an instrument at a moment, of the table whose row type is given. It is looked for nearby
-- first, and each time four times as far. Without a bound, the planner takes every chunk before the moment into
-- account, which takes seconds for a year of them. A dynamic statement is planned with the values of its bounds.
create or replace function recorder_page.newest_at(
  row_type anyelement, category market.category, symbol text, moment timestamptz, max_age interval
)
returns setof anyelement language plpgsql stable parallel safe rows 1 as $$
declare
  -- An infinite moment is as far from every row.
  oldest constant timestamptz := coalesce(case when isfinite(moment)
    then (moment at time zone 'UTC' - max_age) at time zone 'UTC' end, '-infinity');
  until timestamptz := moment;
  since timestamptz;
begin
  for step in 0..7 loop
    since := greatest(oldest,
      case when step < 7 then moment - make_interval(hours => (6 * 4 ^ step)::integer) else '-infinity' end);
    return query execute format('select * from %s t
      where t.category = $1 and t.symbol = $2 and t.ts <= $3 and t.ts >= $4 order by t.ts desc limit 1', pg_typeof(row_type))
      using category, symbol, until, since;
    exit when found or since = oldest;
    until := since;
  end loop;
end
$$;

create or replace function market.ticker_at(
  category market.category, symbol text, moment timestamptz, max_age interval default '7 days'
)
returns setof market.tickers language sql stable parallel safe rows 1 as $$
  select * from recorder_page.newest_at(null::market.tickers, category, symbol, moment, max_age)
$$;
comment on function market.ticker_at is
  'The ticker that was the newest at a moment: one row, or none where none is as young as max_age. NULL is any age.';

create or replace function market.order_book_at(
  category market.category, symbol text, moment timestamptz, max_age interval default '7 days'
)
returns setof market.order_books language sql stable parallel safe rows 1 as $$
  select * from recorder_page.newest_at(null::market.order_books, category, symbol, moment, max_age)
$$;
comment on function market.order_book_at is
  'The order book that was the newest at a moment: one row, or none where none is as young as max_age. NULL is any age.';

create or replace function market.rpi_order_book_at(
  category market.category, symbol text, moment timestamptz, max_age interval default '7 days'
)
returns setof market.rpi_order_books language sql stable parallel safe rows 1 as $$
  select * from recorder_page.newest_at(null::market.rpi_order_books, category, symbol, moment, max_age)
$$;
comment on function market.rpi_order_book_at is
  'The order book with RPI sizes that was the newest at a moment: one row, or none where none is as young as max_age. '
  'NULL is any age.';

create or replace function market.instrument_at(category market.category, symbol text, moment timestamptz)
returns setof market.instrument_history language sql stable parallel safe rows 1 as $$
  select h.* from market.instrument_history h
  where h.category = instrument_at.category and h.symbol = instrument_at.symbol
    and h.valid_from <= moment and (h.valid_to is null or h.valid_to > moment)
$$;
comment on function market.instrument_at is
  'The specification of an instrument that held at a moment: one row, or none while it was not listed.';

-- Each call is planned with its values. SQL with a sum is not inlined, and its plan would take every chunk into
-- account, as the plan of PL/pgSQL would after five calls of a session.
create or replace function market.vwap(
  category market.category, symbol text, from_time timestamptz, to_time timestamptz
)
returns numeric language plpgsql stable parallel safe set plan_cache_mode = force_custom_plan as $$
begin
  -- The base of a fill of COIN-FUTURES is unknown where its price is 0.
  return (select case when count(v.base) = count(*) then sum(v.quote) / nullif(sum(v.base), 0) end
    from market.fills f cross join lateral (
      select market.fill_quote_value(f.category, f.price, f.size) as quote,
        market.fill_base_size(f.category, f.price, f.size) as base) v
    where f.category = vwap.category and f.symbol = vwap.symbol and f.ts >= from_time and f.ts < to_time);
end
$$;
comment on function market.vwap is
  'Volume-weighted average price of the fills of a half-open range, in quote coin; NULL without fills.';

create or replace function market.vwap_series(
  category market.category, symbol text, from_time timestamptz, to_time timestamptz, step interval,
  origin timestamptz default 'epoch'
)
returns table (open_time timestamptz, vwap numeric, base_volume numeric, quote_turnover numeric, fills bigint)
language sql stable parallel safe as $$
  select date_bin(step, f.ts, origin),
    case when count(v.base) = count(*) then sum(v.quote) / nullif(sum(v.base), 0) end,
    case when count(v.base) = count(*) then sum(v.base) end,
    sum(v.quote),
    count(*)
  from market.fills f cross join lateral (
    select market.fill_quote_value(f.category, f.price, f.size) as quote,
      market.fill_base_size(f.category, f.price, f.size) as base) v
  where f.category = vwap_series.category and f.symbol = vwap_series.symbol
    and f.ts >= from_time and f.ts < to_time and step is not null
  group by 1 order by 1
$$;
comment on function market.vwap_series is
  'Volume-weighted average price for each step of a half-open range that has fills. Steps are aligned to origin, so '
  'that the first and the last hold only their part of the range.';

create or replace function market.volume_profile(
  category market.category, symbol text, from_time timestamptz, to_time timestamptz, price_step numeric
)
returns table (
  price_from numeric, price_to numeric, base_volume numeric, quote_turnover numeric, buy_volume numeric,
  sell_volume numeric, fills bigint
) language sql stable parallel safe as $$
  select p.price_from, p.price_from + price_step,
    sum(market.fill_base_size(f.category, f.price, f.size)),
    sum(market.fill_quote_value(f.category, f.price, f.size)),
    coalesce(sum(market.fill_base_size(f.category, f.price, f.size)) filter (where f.side = 'buy'), 0),
    coalesce(sum(market.fill_base_size(f.category, f.price, f.size)) filter (where f.side = 'sell'), 0),
    count(*)
  from market.fills f
  -- div() is exact; a division would be rounded and could put a price into the next step. It truncates towards 0.
  cross join lateral (select (div(f.price, price_step) - case when mod(f.price, price_step) < 0 then 1 else 0 end)
    * price_step as price_from) p
  where f.category = volume_profile.category and f.symbol = volume_profile.symbol
    and f.ts >= from_time and f.ts < to_time
  group by 1 order by 1
$$;
comment on function market.volume_profile is
  'Volume by price: one row for each price step that has fills, split by the side of the taker, in base coin.';

create or replace function market.depth_within(prices numeric[], sizes numeric[], mid numeric, within_bps numeric)
returns table (size numeric, value numeric, levels bigint, is_whole boolean)
language sql immutable parallel safe rows 1 as $$
  select coalesce(sum(l.size) filter (where l.is_within), 0),
    coalesce(sum(l.size * l.price) filter (where l.is_within), 0),
    count(*) filter (where l.is_within),
    coalesce(bool_or(not l.is_within), false)
  from (
    select u.price, u.size, abs(u.price - mid) * 10000 <= mid * within_bps as is_within
    from unnest(prices, sizes) as u (price, size)
  ) l
$$;
comment on function market.depth_within is
  'One side of an order book up to a distance from the middle price, in basis points: size, value (price times '
  'size) and levels. Sizes are taken for base coin; of COIN-FUTURES the service names no unit. is_whole is false when '
  'the snapshot ends before that distance, so that there may be more.';

create or replace function market.book_depth(
  category market.category, symbol text, from_time timestamptz, to_time timestamptz, within_bps numeric
)
returns table (
  ts timestamptz, mid numeric, spread_bps numeric, bid_size numeric, ask_size numeric, bid_value numeric,
  ask_value numeric, is_whole boolean
) language sql stable parallel safe as $$
  select b.ts, b.mid, market.spread_bps(b.best_bid, b.best_ask),
    bid.size, ask.size, bid.value, ask.value, bid.is_whole and ask.is_whole
  from market.order_books b
  cross join lateral market.depth_within(b.bid_prices, b.bid_sizes, b.mid, within_bps) bid
  cross join lateral market.depth_within(b.ask_prices, b.ask_sizes, b.mid, within_bps) ask
  where b.category = book_depth.category and b.symbol = book_depth.symbol
    and b.ts >= from_time and b.ts < to_time and b.mid is not null
  order by b.ts
$$;
comment on function market.book_depth is
  'Spread and depth within a distance (basis points) of the middle price, for each snapshot of a half-open range '
  'that has both sides. is_whole is false when a side of the snapshot ends before that distance.';

create or replace function market.execution_price(prices numeric[], sizes numeric[], quantity numeric)
returns numeric language sql immutable parallel safe as $$
  select case when quantity > 0 and sum(l.taken) >= quantity then sum(l.taken * l.price) / quantity end
  from (
    select u.price, least(u.size,
      greatest(quantity - coalesce(sum(u.size) over (order by u.level rows between unbounded preceding
        and 1 preceding), 0), 0)
    ) as taken
    from unnest(prices, sizes) with ordinality as u (price, size, level)
  ) l
$$;
comment on function market.execution_price is
  'Average price of a market order of this quantity (base coin) against one side of a book, best level first. Of '
  'COIN-FUTURES the service names no unit of sizes in books. NULL '
  'when the side is not deep enough, and when the quantity is not above 0.';

create or replace function market.rpi_improvement(
  category market.category, symbol text, from_time timestamptz, to_time timestamptz
)
returns table (
  ts timestamptz, visible_bid numeric, visible_ask numeric, rpi_bid numeric, rpi_ask numeric, bid_improvement numeric,
  ask_improvement numeric, bid_improvement_bps numeric, ask_improvement_bps numeric
) language sql stable parallel safe as $$
  select b.ts, v.bid, v.ask, r.bid, r.ask, better.bid, better.ask,
    better.bid * 20000 / nullif(v.bid + v.ask, 0), better.ask * 20000 / nullif(v.bid + v.ask, 0)
  from market.rpi_order_books b
  cross join lateral (select
    (select max(u.price) from unnest(b.bid_prices, b.bid_sizes) as u (price, size) where u.size > 0) as bid,
    (select min(u.price) from unnest(b.ask_prices, b.ask_sizes) as u (price, size) where u.size > 0) as ask
  ) v
  cross join lateral (select
    (select max(u.price) from unnest(b.bid_prices, b.bid_rpi_sizes) as u (price, size) where u.size > 0) as bid,
    (select min(u.price) from unnest(b.ask_prices, b.ask_rpi_sizes) as u (price, size) where u.size > 0) as ask
  ) r
  -- greatest() is not used, because it ignores NULL.
  cross join lateral (select
    case when r.bid > v.bid then r.bid - v.bid when r.bid <= v.bid then 0 end as bid,
    case when r.ask < v.ask then v.ask - r.ask when r.ask >= v.ask then 0 end as ask
  ) better
  where b.category = rpi_improvement.category and b.symbol = rpi_improvement.symbol
    and b.ts >= from_time and b.ts < to_time
  order by b.ts
$$;
comment on function market.rpi_improvement is
  'How much better the best RPI quote is than the best visible one, for each snapshot of a half-open range: in '
  'quote coin and in basis points of the visible middle price; 0 when it is not better, NULL when there is no quote '
  'of a kind.';

-- Each week is planned by itself, with the values of its bounds. In one plan of all weeks, each settlement would be
-- compared with every chunk.
create or replace function market.funding_history(
  category market.category, symbol text, from_time timestamptz, to_time timestamptz
)
returns table (settled_at timestamptz, funding_rate numeric, fund_interval bigint, seen_at timestamptz)
language plpgsql stable parallel safe rows 100 set plan_cache_mode = force_custom_plan as $$
declare
  -- No funding was paid before 2016. The rate of a settlement in the future is not the last one yet.
  since timestamptz := greatest(from_time, '2016-01-01Z');
  until constant timestamptz := least(to_time, statement_timestamp());
  week_end timestamptz;
  earliest timestamptz;
begin
  -- To look for the first ticker takes every chunk into account, which costs less than to walk many weeks without one.
  if since < until - interval '9600 hours' then
    select greatest(since, k.ts) into since from market.tickers k
    where k.category = funding_history.category and k.symbol = funding_history.symbol order by k.ts limit 1;
  end if;
  while since < until and from_time < to_time loop
    week_end := least(until, since + interval '168 hours');
    earliest := since - interval '24 hours';
    return query
    select s.settled_at, t.funding_rate, s.fund_interval, t.ts
    from (
      select h.settled_at, coalesce(nullif(v.fund_interval, 0), 8) as fund_interval
      from generate_series(
        date_bin('1 hour', since + interval '1 hour' - interval '1 microsecond', timestamptz 'epoch'),
        week_end - interval '1 microsecond', interval '1 hour') as h (settled_at)
      cross join lateral market.instrument_at(funding_history.category, funding_history.symbol, h.settled_at) v
    ) s
    cross join lateral (
      select k.funding_rate, k.ts from market.tickers k
      where k.category = funding_history.category and k.symbol = funding_history.symbol
        and k.ts < s.settled_at and k.ts >= s.settled_at - make_interval(hours => least(s.fund_interval, 24)::integer)
        -- The planner leaves out chunks by these bounds, not by those of each settlement.
        and k.ts < week_end and k.ts >= earliest
        and k.funding_rate is not null
      order by k.ts desc limit 1
    ) t
    where extract(hour from s.settled_at at time zone 'UTC')::bigint % s.fund_interval = 0
    order by s.settled_at;
    since := week_end;
  end loop;
end
$$;
comment on function market.funding_history is
  'Funding at each settlement of a half-open range: the last rate that tickers showed before it (a fraction), the '
  'hours between settlements at that time, and when the rate was seen. Left out are settlements without tickers before '
  'them, moments at which the instrument was not listed, and those to come. The rates that the service settled are in '
  'market.funding_rates.';
