-- Returns the part of the ranges of a series that belongs to a day, or to days. A candle belongs to the day in which it
-- opens, also where it ends later. A range ends with a candle, so its candles open at whole lengths before its end.
create or replace function recorder.part_of_day(
  ranges tstzmultirange, of_interval text, since timestamptz, until timestamptz
)
returns tstzmultirange language sql stable set search_path = pg_catalog, pg_temp as $$
  select coalesce(range_agg(tstzrange(
    case when lower(r) >= since then lower(r) when length is null then since
      else upper(r) - length * floor(extract(epoch from upper(r) - since) / extract(epoch from length))::float8 end,
    case when upper(r) <= until then upper(r) when length is null then until
      else upper(r) - length * floor(extract(epoch from upper(r) - until) / extract(epoch from length))::float8 end)), '{}')
  from unnest(ranges) as r
  cross join market.interval_length(nullif(of_interval, '')::market.candle_interval) as length
  where r && tstzrange(since, until)
$$;

-- Adds final ranges to a series. The row is noted at their end, so that others know how far they reach without reading
-- them.
create or replace function recorder.add_final(
  of_stream text, of_category market.category, of_symbol text, of_type text, of_interval text, parts tstzmultirange
)
returns void language sql set search_path = pg_catalog, pg_temp as $$
  insert into recorder.ledger as k (stream, category, symbol, type, interval, verdict, ranges, noted_at)
  values (of_stream, of_category, of_symbol, of_type, of_interval, 'final', parts, upper(parts))
  on conflict (stream, category, symbol, type, interval, verdict, part) do update
    set ranges = k.ranges + excluded.ranges, noted_at = greatest(k.noted_at, excluded.noted_at)
$$;

-- Ends what is claimed of a stream on days, with silence, and makes it final where its rows leave for the archive in the
-- same transaction. Gaps stay.
create or replace function recorder.end_claims(
  of_stream text, since timestamptz, until timestamptz, is_archived boolean
)
returns void language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  -- Writers of a series wait at its recorded ranges, so that none of them claims more meanwhile. All lock the first
  -- part, which may be empty. Those of several series come to them in the same order.
  perform from recorder.ledger k
  where k.stream = of_stream and k.verdict = 'recorded' and (k.ranges && tstzrange(since, until)
    or k.part = '-infinity' and exists (
      select from recorder.ledger r
      where recorder.is_of(r, of_stream, k.category, k.symbol, k.type, k.interval)
        and r.verdict = 'recorded' and r.part < until and r.ranges && tstzrange(since, until)))
  order by k.category::text collate "C", k.symbol collate "C", k.type collate "C", k.interval collate "C", k.part
  for update;
  if is_archived then
    perform recorder.add_final(of_stream, f.category, f.symbol, f.type, f.interval, f.parts) from (
      select r.category, r.symbol, r.type, r.interval, range_agg(p) as parts
      from recorder.ledger r cross join lateral unnest(recorder.part_of_day(r.ranges, r.interval, since, until)) as p
      where r.stream = of_stream and r.verdict = 'recorded' and r.ranges && tstzrange(since, until)
      group by r.category, r.symbol, r.type, r.interval) f;
  end if;
  update recorder.ledger k
  set ranges = k.ranges - recorder.part_of_day(k.ranges, k.interval, since, until)
  where k.stream = of_stream and k.verdict in ('recorded', 'silent', 'no trade') and k.part < until
    and k.ranges && tstzrange(since, until);
  -- The first part of the recorded ranges stays, because its row is the lock on the series.
  delete from recorder.ledger k
  where k.stream = of_stream and k.verdict in ('recorded', 'silent', 'no trade') and k.part > '-infinity'
    and isempty(k.ranges);
end
$$;

-- Returns the time of a row that no claim has: its millisecond. Where a service gives whole seconds, it is the second:
-- a claim may begin with the next one, and of a fill of the history a live response may show the finer time later.
create or replace function recorder.moment_of(
  of_stream text, of_category market.category, of_symbol text, at timestamptz, source text
)
returns tstzrange language sql stable set search_path = pg_catalog, pg_temp as $$
  select tstzrange(at, at + case when at = date_trunc('second', at) and (source = 'history' or exists (
      select from recorder.ledger k
      where recorder.is_of(k, of_stream, of_category, of_symbol, '', '')
        and k.verdict in ('recorded', 'final') and k.ranges @> at + interval '1 second'
        and not k.ranges @> at + interval '1 second' - interval '1 microsecond'))
    then interval '1 second' else interval '1 millisecond' end)
$$;

-- Prepares the ledger for rows of a day that are about to leave. Milliseconds of rows that no claim has become final,
-- so that a later page that shows one of them joins there, and stores nothing again. Gaps no longer count these rows.
create or replace function recorder.keep_moments(of_stream text, since timestamptz, until timestamptz)
returns void language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  if of_stream not in ('fills', 'funding_rates', 'liquidations') then
    return;
  end if;
  update recorder.ledger k set rows_before = greatest(0, k.rows_before
    - recorder.count_rows(k.stream, k.category, k.symbol, k.type, k.interval, k.ranges * tstzmultirange(tstzrange(since, until))))
  where k.stream = of_stream and k.verdict in ('missing', 'lost') and k.rows_before > 0
    and k.part < until and k.gap_until > since;
  execute format($moments$
    with known as materialized (
      select r.category, r.symbol, range_agg(p) as ranges
      from recorder.ledger r cross join lateral unnest(recorder.part_of_day(r.ranges, '', $2, $3)) as p
      where r.stream = $1 and r.type = '' and r.interval = '' and r.verdict in ('recorded', 'final')
        and r.ranges && tstzrange($2, $3)
      group by r.category, r.symbol)
    select recorder.add_final($1, f.category, f.symbol, '', '', f.moments) from (
      select t.category, t.symbol, range_agg(recorder.moment_of($1, t.category, t.symbol, t.ts, %s)) as moments
      from market.%I t left join known on (known.category, known.symbol) = (t.category, t.symbol)
      where t.ts >= $2 and t.ts < $3 and not coalesce(known.ranges @> t.ts, false)
      group by t.category, t.symbol) f
    $moments$, case of_stream when 'fills' then 't.source::text' else 'null' end, of_stream)
    using of_stream, since, until;
end
$$;

-- Keeps of each series of fills the moment of the newest one before a time, from which on rows are kept. It is no row
-- any more: the next page that shows it joins there. Where a service gives whole seconds, the moment is one.
create or replace function recorder.keep_fill_marks(before timestamptz)
returns void language sql set search_path = pg_catalog, pg_temp as $$
  insert into recorder.ledger as k (stream, category, symbol, verdict, ranges, noted_at)
  select 'fills', s.category, s.symbol, 'final', tstzmultirange(mark), upper(mark)
  from recorder.ledger s cross join lateral (
    select f.ts from market.fills f where f.category = s.category and f.symbol = s.symbol and f.ts < before
    order by f.ts desc limit 1
  ) t cross join lateral tstzrange(t.ts,
    t.ts + case date_trunc('second', t.ts) when t.ts then interval '1 second' else interval '1 millisecond' end) as mark
  where s.stream = 'fills' and s.type = '' and s.interval = '' and s.verdict = 'recorded' and s.part = '-infinity'
  on conflict (stream, category, symbol, type, interval, verdict, part) do update
    -- Earlier marks go.
    set noted_at = excluded.noted_at, ranges = excluded.ranges + coalesce((
      select range_agg(r) from unnest(k.ranges) as r where upper(r) - lower(r) > interval '1 second'), '{}')
    where k.noted_at < excluded.noted_at;
  update recorder.ledger k set asked_since = before
  where k.stream = 'fills' and k.type = '' and k.interval = '' and k.verdict = 'final' and k.part = '-infinity'
$$;

-- Ends the mark of a series of fills where a page of the history shows it together with time before it: rows are kept
-- longer by now, and those of the mark are stored again. What is in an archive stays final.
create or replace function recorder.end_fill_mark(of_category market.category, of_symbol text, shown tstzmultirange)
returns void language sql set search_path = pg_catalog, pg_temp as $$
  delete from recorder.ledger k
  where recorder.is_of(k, 'fills', of_category, of_symbol, '', '')
    and k.verdict = 'final' and upper(k.ranges) - lower(k.ranges) <= interval '1 second'
    and exists (select from unnest(shown) as r where r @> range_merge(k.ranges) and lower(r) < lower(k.ranges))
    and not exists (select from recorder.archived_day d where d.table_name = 'fills')
$$;

-- Marks days of a table that were written to. Only days that were noted for the archive need a mark, and days before
-- the newest of these. A mark that is seen is not written again: whoever takes it waits for this transaction. One with
-- an older snapshot may see a mark that was taken before it wrote anything, and writes its own.
create or replace function recorder.mark_days(of_table text, since timestamptz, until timestamptz)
returns void language sql set search_path = pg_catalog, pg_temp as $$
  insert into recorder.changed_day (table_name, day)
  select of_table, d::date
  from (select min(day) as oldest, max(day) as newest from recorder.archived_day where table_name = of_table) as noted
  cross join lateral generate_series(
    (case when isfinite(since) then (since at time zone 'UTC')::date else oldest end)::timestamp,
    least(newest, case when isfinite(until) then ((until - interval '1 microsecond') at time zone 'UTC')::date end)::timestamp,
    interval '1 day') as d
  where newest is not null and (current_setting('transaction_isolation') <> 'read committed'
    or not exists (select from recorder.changed_day c where c.table_name = of_table and c.day = d::date))
$$;

-- Marks the days of rows that a statement wrote. The argument is the column with the time of a row.
create or replace function recorder.mark_rows() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  newest timestamptz;
  since timestamptz;
  day timestamptz;
begin
  select (max(a.day) + 1)::timestamp at time zone 'UTC' into newest from recorder.archived_day a
  where a.table_name = tg_argv[0];
  if newest is null then
    return null;
  end if;
  execute format('select min(%I) from written', tg_argv[1]) into since;
  if since is null or since >= newest then
    return null;
  end if;
  for day in execute format(
    'select distinct date_trunc(''day'', %1$I, ''UTC'') from written where %1$I < $1', tg_argv[1]) using newest
  loop
    perform recorder.mark_days(tg_argv[0], day, day + interval '1 day');
  end loop;
  return null;
end
$$;

-- Marks the days of ranges whose verdict changed.
create or replace function recorder.mark_ranges() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  newest timestamptz;
  changed tstzmultirange;
  of_stream text;
  r tstzrange;
begin
  if tg_op = 'INSERT' then
    changed := new.ranges;
    of_stream := new.stream;
  elsif tg_op = 'DELETE' then
    changed := old.ranges;
    of_stream := old.stream;
  else
    changed := case when (new.verdict, new.reason, new.settled_at, new.filled_from)
      is distinct from (old.verdict, old.reason, old.settled_at, old.filled_from) then old.ranges + new.ranges
      else (new.ranges - old.ranges) + (old.ranges - new.ranges) end;
    of_stream := new.stream;
  end if;
  select (max(a.day) + 1)::timestamp at time zone 'UTC' into newest from recorder.archived_day a
  where a.table_name = of_stream;
  if newest is null or isempty(changed) or lower(changed) >= newest then
    return null;
  end if;
  for r in select unnest(changed) loop
    perform recorder.mark_days(of_stream, lower(r), upper(r));
  end loop;
  return null;
end
$$;

do $$
declare
  of_verdict constant text := $c$verdict in ('recorded', 'silent', 'no trade', 'missing', 'lost', 'repaired')$c$;
  of_table name;
  of_time name;
begin
  if not exists (select from pg_trigger where tgrelid = 'recorder.ledger'::regclass and tgname = 'mark_inserted') then
    execute format('create trigger mark_inserted after insert on recorder.ledger for each row
      when (new.%s) execute function recorder.mark_ranges()', of_verdict);
    execute format('create trigger mark_updated after update on recorder.ledger for each row
      when (new.%s) execute function recorder.mark_ranges()', of_verdict);
    execute format('create trigger mark_deleted after delete on recorder.ledger for each row
      when (old.%s) execute function recorder.mark_ranges()', of_verdict);
  end if;
  if not exists (select from pg_trigger where tgrelid = 'recorder.restatement'::regclass and tgname = 'mark_updated') then
    create trigger mark_updated after update on recorder.candle_revision referencing new table as written
      for each statement execute function recorder.mark_rows('candles', 'open_time');
    create trigger mark_updated after update on recorder.restatement referencing new table as written
      for each statement execute function recorder.mark_rows('candles', 'detected_at');
  end if;
  -- Every table of the market with a time of its own.
  for of_table, of_time in
    select c.relname, a.attname from pg_class c
    join pg_attribute a on a.attrelid = c.oid and a.attname in ('ts', 'open_time') and a.attnum > 0
    where c.relnamespace = 'market'::regnamespace and c.relkind = 'r'
      and not exists (select from pg_trigger t where t.tgrelid = c.oid and t.tgname = 'mark_inserted')
  loop
    execute format('create trigger mark_inserted after insert on market.%1$I referencing new table as written
      for each statement execute function recorder.mark_rows(%1$L, %2$L)', of_table, of_time);
    execute format('create trigger mark_updated after update on market.%1$I referencing new table as written
      for each statement execute function recorder.mark_rows(%1$L, %2$L)', of_table, of_time);
  end loop;
end
$$;
