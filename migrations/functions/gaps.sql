-- Functions that note, close, lose and reopen gaps of any stream. The columns that a gap keeps when its verdict
-- changes stand in four statements. `times` is none of them: it counts how often an unanswered range was requested.

-- Counts the stored rows of a series within ranges. Streams without claims count none, nor do candles that only formed.
create or replace function recorder.count_rows(
  of_stream text, of_category market.category, of_symbol text, of_type text, of_interval text, within tstzmultirange
)
returns bigint language plpgsql stable set search_path = pg_catalog, pg_temp set enable_seqscan = off as $$
declare
  time_column constant text := case of_stream when 'candles' then 'open_time' else 'ts' end;
  found bigint := 0;
begin
  if of_stream in ('fills', 'candles', 'funding_rates', 'liquidations') then
    execute format($count$
      select count(*) from unnest($1) as r join market.%I t on t.%I >= lower(r) and t.%2$I < upper(r)
        and t.%2$I >= lower($1) and t.%2$I < upper($1)
      where t.category = $2 and t.symbol = $3 %s
      $count$, of_stream, time_column, case of_stream when 'candles' then
        'and t.type = $4::market.candle_type and t.interval = $5::market.candle_interval and t.is_closed' else '' end)
      into found using within, of_category, of_symbol, of_type, of_interval;
  end if;
  return found;
end
$$;

-- Notes gaps, one for each range. The same gap found again changes nothing. Of two gaps with the same beginning,
-- the longer one stays. found: when the gaps were found. settled: when they were lost or repaired. Default: now.
create or replace function recorder.note_gaps(
  of_stream text, of_category market.category, of_symbol text, of_type text, of_interval text,
  as_verdict text, gaps tstzmultirange, why text, found timestamptz default null, settled timestamptz default null
)
returns void language sql set search_path = pg_catalog, pg_temp as $$
  insert into recorder.ledger as k
    (stream, category, symbol, type, interval, verdict, part, ranges, reason, noted_at, settled_at, rows_before)
  select of_stream, of_category, of_symbol, of_type, of_interval, as_verdict, lower(r), tstzmultirange(r), why,
    coalesce(found, now()), case when as_verdict <> 'missing' then coalesce(settled, found, now()) end,
    recorder.count_rows(of_stream, of_category, of_symbol, of_type, of_interval, tstzmultirange(r))
  from unnest(gaps - recorder.final_from(of_stream, of_category, of_symbol, of_type, of_interval, lower(gaps))) as r
  where not exists (
    select from recorder.ledger s
    where recorder.is_of(s, of_stream, of_category, of_symbol, of_type, of_interval)
      and s.verdict in ('missing', 'lost')
      and s.part = lower(r) and s.ranges = tstzmultirange(r))
  on conflict (stream, category, symbol, type, interval, verdict, part) do update
    set ranges = k.ranges + excluded.ranges where not k.ranges @> excluded.ranges
$$;

-- Notes as gaps what no gap of the series holds yet. Where a gap with the same reason ends, it goes on.
create or replace function recorder.note_unknown(
  of_stream text, of_category market.category, of_symbol text, of_type text, of_interval text,
  unknown tstzmultirange, why text
)
returns void language plpgsql set search_path = pg_catalog, pg_temp set enable_seqscan = off as $$
declare
  known constant tstzmultirange := coalesce((
    select range_agg(r) from recorder.ledger k cross join lateral unnest(k.ranges) as r
    where recorder.is_of(k, of_stream, of_category, of_symbol, of_type, of_interval)
      and k.gap_until > lower(unknown) and k.part < upper(unknown)), '{}')
    + recorder.final_from(of_stream, of_category, of_symbol, of_type, of_interval, lower(unknown));
  rest tstzrange;
begin
  for rest in select unnest(unknown - known) loop
    update recorder.ledger k set ranges = k.ranges + tstzmultirange(rest), rows_before = rows_before
      + recorder.count_rows(of_stream, of_category, of_symbol, of_type, of_interval, tstzmultirange(rest))
    where recorder.is_of(k, of_stream, of_category, of_symbol, of_type, of_interval)
      and k.verdict = 'missing' and k.gap_until = lower(rest) and k.reason = why;
    if not found then
      perform recorder.note_gaps(of_stream, of_category, of_symbol, of_type, of_interval, 'missing',
        tstzmultirange(rest), why);
    end if;
  end loop;
end
$$;

-- Takes ranges that are known by now out of the gaps of a series. A gap that they fill wholly is repaired if rows came
-- since it was noted; otherwise nothing was missing, and it is deleted. Of a gap that they fill in part, so is a part
-- with more rows than all of it had, and the rest stays the same gap, with the time at which it was found. It may be
-- two gaps then. filled_by: live or history, for fills.
create or replace function recorder.close_gaps(
  of_stream text, of_category market.category, of_symbol text, of_type text, of_interval text,
  filled tstzmultirange, filled_at timestamptz default now(), filled_by text default null
)
returns void language sql set search_path = pg_catalog, pg_temp
-- Rows are looked up by their keys, however many gaps the series has. A caller may have turned off what PostgreSQL 17
-- needs to prefer the index of long gaps.
set enable_seqscan = off set enable_mergejoin = off set enable_hashjoin = off set enable_bitmapscan = on as $$
  with near as (
    -- Short gaps begin within an hour before the ranges or in them. Long ones are few, and have an index of their own.
    select k.part from recorder.ledger k
    where recorder.is_of(k, of_stream, of_category, of_symbol, of_type, of_interval)
      and k.verdict in ('missing', 'lost')
      and k.part > lower(filled) - interval '1 hour' and k.part < upper(filled)
    union
    select k.part from recorder.ledger k
    where recorder.is_of(k, of_stream, of_category, of_symbol, of_type, of_interval)
      and k.gap_until - k.part >= interval '1 hour'
      and k.gap_until > lower(filled) and k.part < upper(filled)
  ), touched as (
    -- An array of keys cannot be joined the other way round, with a look at every gap first.
    delete from recorder.ledger k
    where recorder.is_of(k, of_stream, of_category, of_symbol, of_type, of_interval)
      and k.verdict in ('missing', 'lost') and k.part = any (array(select n.part from near n)) and k.ranges && filled
    returning k.*
  ), pieces as (
    -- Two gaps that overlap may leave pieces with the same beginning. The longer one stays.
    select distinct on (closed_as, lower(piece)) t.*, closed_as, piece
    from touched t cross join lateral (
      select 'repaired' as closed_as, unnest(t.ranges * filled) as piece
      union all select t.verdict, unnest(t.ranges - filled)
    ) p
    where closed_as <> 'repaired'
      or t.rows_before
        < recorder.count_rows(of_stream, of_category, of_symbol, of_type, of_interval, tstzmultirange(piece))
    order by closed_as, lower(piece), upper(piece) desc
  ), grown as (
    -- The past is repaired from the newest time on. What was repaired of the same gap above a piece joins it.
    delete from recorder.ledger k using pieces p
    where recorder.is_of(k, of_stream, of_category, of_symbol, of_type, of_interval)
      and k.verdict = 'repaired' and p.closed_as = 'repaired' and k.part = upper(p.piece)
      and (k.noted_at, k.reason) = (p.noted_at, p.reason)
    returning p.id, p.piece, k.ranges
  )
  insert into recorder.ledger as k (
    stream, category, symbol, type, interval, verdict, part, ranges, reason, noted_at, settled_at, filled_from, rows_before
  )
  select stream, category, symbol, type, interval, closed_as, lower(whole), whole, reason, noted_at,
    case closed_as when 'repaired' then filled_at else settled_at end,
    case closed_as when 'repaired' then filled_by end,
    -- Rows may have come to the rest already. Those of a repaired part are not counted again each time that it grows.
    case closed_as when 'repaired' then rows_before
      else least(rows_before, recorder.count_rows(of_stream, of_category, of_symbol, of_type, of_interval, whole)) end
  from pieces p cross join lateral (
    select tstzmultirange(p.piece) + coalesce(range_agg(r), '{}') as whole
    from grown g cross join lateral unnest(g.ranges) as r where (g.id, g.piece) = (p.id, p.piece)
  ) w
  on conflict (stream, category, symbol, type, interval, verdict, part) do update
    set ranges = k.ranges + excluded.ranges where not k.ranges @> excluded.ranges
$$;

-- Turns gaps of a stream into lost or open ones, if they end after a time and not after another, because the service
-- gives their rows no more, or gives them after all. The gap that was noted last stays the last one.
create or replace function recorder.turn_gaps(
  of_stream text, as_verdict text, after timestamptz, until timestamptz, categories market.category[] default null
)
returns void language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  before_verdict constant text := case as_verdict when 'lost' then 'missing' else 'lost' end;
begin
  -- A writer that waited for a gap would find it gone, and not see what it has become. So writers wait at their series,
  -- in the order of end_claims.
  perform from recorder.ledger k
  where k.stream = of_stream and k.verdict = 'recorded' and k.part = '-infinity'
    and (k.category, k.symbol, k.type, k.interval) in (
      select g.category, g.symbol, g.type, g.interval from recorder.ledger g
      where g.stream = of_stream and g.verdict = before_verdict and g.gap_until > after and g.gap_until <= until
        and (categories is null or g.category = any (categories)))
  order by k.category::text collate "C", k.symbol collate "C", k.type collate "C", k.interval collate "C"
  for update;
  with turned as (
    delete from recorder.ledger k
    where k.stream = of_stream and k.verdict = before_verdict
      and k.symbol <> '*' and k.gap_until > after and k.gap_until <= until
      and (categories is null or k.category = any (categories))
    returning *
  )
  insert into recorder.ledger as k (
    stream, category, symbol, type, interval, verdict, part, ranges, reason, noted_at, settled_at, filled_from, rows_before
  )
  select stream, category, symbol, type, interval, as_verdict, part, ranges, reason, noted_at,
    case as_verdict when 'lost' then now() end, filled_from, rows_before
  from turned order by id
  on conflict (stream, category, symbol, type, interval, verdict, part) do update
    set ranges = k.ranges + excluded.ranges where not k.ranges @> excluded.ranges;
end
$$;
