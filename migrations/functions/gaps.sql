-- Functions that note, close, lose and reopen gaps of any stream. The columns that a gap keeps when its verdict
-- changes stand in three statements. `times` is none of them: it counts how often an unanswered range was requested.

-- Notes gaps, one for each range. The same gap found again changes nothing. Of two gaps with the same beginning,
-- the longer one stays. found: when the gaps were found. settled: when they were lost or repaired. Default: now.
create or replace function recorder.note_gaps(
  of_stream text, of_category market.category, of_symbol text, of_type text, of_interval text,
  as_verdict text, gaps tstzmultirange, why text, found timestamptz default null, settled timestamptz default null
)
returns void language sql set search_path = pg_catalog, pg_temp as $$
  insert into recorder.ledger as k
    (stream, category, symbol, type, interval, verdict, part, ranges, reason, noted_at, settled_at)
  select of_stream, of_category, of_symbol, of_type, of_interval, as_verdict, lower(r), tstzmultirange(r), why,
    coalesce(found, now()), case when as_verdict <> 'missing' then coalesce(settled, found, now()) end
  from unnest(gaps) as r
  where not exists (
    select from recorder.ledger s
    where (s.stream, s.category, s.symbol, s.type, s.interval) = (of_stream, of_category, of_symbol, of_type, of_interval)
      and s.verdict in ('missing', 'lost', 'repaired')
      and s.part = lower(r) and s.ranges = tstzmultirange(r))
  on conflict (stream, category, symbol, type, interval, verdict, part) do update
    set ranges = k.ranges + excluded.ranges where not k.ranges @> excluded.ranges
$$;

-- Takes ranges that are known by now out of the gaps of a series. A gap that they fill wholly is repaired. Of a gap
-- that they fill in part, the rest stays the same gap, with the time at which it was found. It may be two gaps then.
-- filled_by: live or history, for fills.
create or replace function recorder.close_gaps(
  of_stream text, of_category market.category, of_symbol text, of_type text, of_interval text,
  filled tstzmultirange, filled_at timestamptz default now(), filled_by text default null
)
returns void language sql set search_path = pg_catalog, pg_temp
-- Rows are looked up by their keys, however many gaps the series has.
set enable_seqscan = off set enable_mergejoin = off set enable_hashjoin = off as $$
  with near as (
    -- Short gaps begin within an hour before the ranges or in them. Long ones are few, and have an index of their own.
    select k.verdict, k.part from recorder.ledger k
    where (k.stream, k.category, k.symbol, k.type, k.interval) = (of_stream, of_category, of_symbol, of_type, of_interval)
      and k.verdict in ('missing', 'lost')
      and k.part > lower(filled) - interval '1 hour' and k.part < upper(filled)
    union
    select k.verdict, k.part from recorder.ledger k
    where (k.stream, k.category, k.symbol, k.type, k.interval) = (of_stream, of_category, of_symbol, of_type, of_interval)
      and k.gap_until - k.part >= interval '1 hour'
      and k.gap_until > lower(filled) and k.part < upper(filled)
  ), touched as (
    delete from recorder.ledger k using near n
    where (k.stream, k.category, k.symbol, k.type, k.interval) = (of_stream, of_category, of_symbol, of_type, of_interval)
      and k.verdict = n.verdict and k.part = n.part and k.ranges && filled
    returning k.*
  ), closed as (
    select t.*, case when t.ranges <@ filled then 'repaired' else t.verdict end as closed_as from touched t
  ), pieces as (
    -- Two gaps that overlap may leave pieces with the same beginning. The longer one stays.
    select distinct on (closed_as, lower(piece)) c.*, piece
    from closed c cross join lateral unnest(case closed_as when 'repaired' then ranges else ranges - filled end) as piece
    order by closed_as, lower(piece), upper(piece) desc
  )
  insert into recorder.ledger as k (
    stream, category, symbol, type, interval, verdict, part, ranges, reason, noted_at, settled_at, judged_at, filled_from
  )
  select stream, category, symbol, type, interval, closed_as, lower(piece), tstzmultirange(piece), reason, noted_at,
    case closed_as when 'repaired' then filled_at else settled_at end,
    -- The rest of a gap in fills is compared with its candles anew.
    null, case closed_as when 'repaired' then filled_by end
  from pieces
  on conflict (stream, category, symbol, type, interval, verdict, part) do update
    set ranges = k.ranges + excluded.ranges where not k.ranges @> excluded.ranges
$$;

-- Marks open gaps of a stream that end by a time as lost, because the service gives nothing older.
create or replace function recorder.lose_gaps(
  of_stream text, until timestamptz, categories market.category[] default null
)
returns void language sql set search_path = pg_catalog, pg_temp as $$
  with turned as (
    delete from recorder.ledger k
    where k.stream = of_stream and k.verdict = 'missing' and k.symbol <> '*' and k.gap_until <= until
      and (categories is null or k.category = any (categories))
    returning *
  )
  insert into recorder.ledger as k (
    stream, category, symbol, type, interval, verdict, part, ranges, reason, noted_at, settled_at, judged_at, filled_from
  )
  select stream, category, symbol, type, interval, 'lost', part, ranges, reason, noted_at, now(), judged_at, filled_from
  from turned
  on conflict (stream, category, symbol, type, interval, verdict, part) do update
    set ranges = k.ranges + excluded.ranges where not k.ranges @> excluded.ranges
$$;

-- Opens lost gaps of a stream again that end after a time, because the service gives their rows after all.
create or replace function recorder.reopen_gaps(
  of_stream text, since timestamptz, categories market.category[] default null
)
returns void language sql set search_path = pg_catalog, pg_temp as $$
  with turned as (
    delete from recorder.ledger k
    where k.stream = of_stream and k.verdict = 'lost' and k.symbol <> '*' and k.gap_until > since
      and (categories is null or k.category = any (categories))
    returning *
  )
  insert into recorder.ledger as k (
    stream, category, symbol, type, interval, verdict, part, ranges, reason, noted_at, settled_at, judged_at, filled_from
  )
  select stream, category, symbol, type, interval, 'missing', part, ranges, reason, noted_at, null, judged_at,
    filled_from
  from turned
  on conflict (stream, category, symbol, type, interval, verdict, part) do update
    set ranges = k.ranges + excluded.ranges where not k.ranges @> excluded.ranges
$$;
