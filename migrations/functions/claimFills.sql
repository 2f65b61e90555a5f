-- The one place where fills are claimed: every claim subtracts the evidence against it. What lies between two claims of
-- a series is a gap.

-- Returns why fills are missing before a response: after the start of a recorder, a failure, or (null) another
-- response.
create or replace function recorder.reason_for_missed(what text, after text)
returns text language sql immutable set search_path = pg_catalog, pg_temp as $$
  select case after
    when 'start' then format('the recorder did not run, or not for this instrument, '
      'and its first response shows fewer %s than happened meanwhile', what)
    when 'failure' then format('the service did not respond, '
      'and its next response shows fewer %s than happened meanwhile', what)
    else format('more %s happened between two responses than one response shows', what)
  end
$$;

-- Returns why the end of an instrument is missing that has left the list.
create or replace function recorder.reason_for_end()
returns text language sql immutable as $$
  select 'the instrument left the list of the service, and no later response shows what came last'
$$;

-- Returns the time of the first fill that a response showed. asked_since is later than it by the disorder of its
-- response, which is less than a minute.
create or replace function recorder.first_fill(
  of_category market.category, of_symbol text, asked_since timestamptz
)
returns timestamptz language sql stable as $$
  select pg_catalog.min(t.ts) from market.fills t
  where t.category = of_category and t.symbol = of_symbol and t.ts >= asked_since - interval '1 minute'
$$;

-- Returns the time before which retention removes the fills of a series; null without it. What left is no gap.
create or replace function recorder.fills_kept_from(of_category market.category, of_symbol text)
returns timestamptz language sql stable set search_path = pg_catalog, pg_temp as $$
  select k.asked_since from recorder.ledger k
  where recorder.is_of(k, 'fills', of_category, of_symbol, '', '') and k.verdict = 'final' and k.part = '-infinity'
$$;

-- Returns the time of the newest fill since a time; null without one.
create or replace function recorder.last_fill(of_category market.category, of_symbol text, since timestamptz)
returns timestamptz language sql stable set search_path = pg_catalog, pg_temp as $$
  select max(t.ts) from market.fills t
  where t.category = of_category and t.symbol = of_symbol and t.ts >= since
$$;

-- Notes as gaps what lies between ranges of fills and the claims next to them, or between claims in them. What open
-- wants ask for is none yet, nor what a later response may join.
create or replace function recorder.miss_fills(
  of_category market.category, of_symbol text, around tstzmultirange, by text, after_what text default null
)
returns void language plpgsql set search_path = pg_catalog, pg_temp set enable_seqscan = off as $$
declare
  unasked_reason constant text := 'not recorded: nobody asked for it, or the recorder or the service was away';
  within constant tstzrange := range_merge(around);
  known tstzmultirange;
  begins timestamptz;
  ends timestamptz;
  unknown tstzmultirange;
begin
  -- A backfill that is cancelled may still be claiming.
  perform from recorder.ledger k
  where recorder.is_of(k, 'fills', of_category, of_symbol, '', '')
    and k.verdict = 'recorded' and k.part = '-infinity' for update;
  select range_agg(r), coalesce(max(upper(r)) filter (where upper(r) <= lower(within)), min(lower(r * within))),
    coalesce(min(lower(r)) filter (where lower(r) >= upper(within)), max(upper(r * within)))
    into known, begins, ends
  from (
    select unnest(k.ranges) as r from recorder.ledger k
    where recorder.is_of(k, 'fills', of_category, of_symbol, '', '')
      and k.verdict = 'recorded' and k.part >= coalesce((
        select max(b.part) from recorder.ledger b
        where recorder.is_of(b, 'fills', of_category, of_symbol, '', '')
          and b.verdict = 'recorded' and b.part <= lower(within)
          and not isempty(b.ranges) and lower(b.ranges) < lower(within)
      ), '-infinity')
    union all
    select unnest(recorder.final_from('fills', of_category, of_symbol, '', '', lower(within)))
    union all
    select tstzrange(null, f.kept) from recorder.fills_kept_from(of_category, of_symbol) as f (kept)
    where f.kept is not null
  ) k;
  -- Without any claim both are null.
  unknown := case when begins < ends then tstzmultirange(tstzrange(begins, ends)) - known end;
  if not isempty(unknown) then
    perform recorder.note_unknown('fills', of_category, of_symbol, '', '', unknown - coalesce(range_agg(r), '{}'),
      case by when 'live' then recorder.reason_for_missed('fills', after_what) else unasked_reason end)
    from (
      select unnest(w.ranges - w.done) as r from recorder.want w
      where (w.stream, w.category, w.symbol, w.type, w.interval) = ('fills', of_category, of_symbol, '', '')
        and w.ended_at is null and not w.again
      union all
      select unnest(k.ranges) from recorder.ledger k
      where recorder.is_of(k, 'fills', of_category, of_symbol, '', '')
        and k.verdict = 'unsettled' and by is distinct from 'live'
    ) awaited;
  end if;
end
$$;

-- Claims ranges of fills of a series that the caller has locked. What evidence speaks against is not claimed. Gaps in
-- the claim are closed, and what is left between it and the claims around it is noted as gaps. at, by: when and by what
-- the fills came, live or history. after_what: what a live response came after, as in reason_for_missed.
create or replace function recorder.claim_fills(
  of_category market.category, of_symbol text, claim tstzmultirange,
  at timestamptz default now(), by text default null, after_what text default null
)
returns void language plpgsql set search_path = pg_catalog, pg_temp set enable_seqscan = off as $$
declare
  against record;
  -- Rows that have left are neither claimed again nor missing.
  final constant tstzmultirange := recorder.final_from('fills', of_category, of_symbol, '', '', lower(claim));
  granted tstzmultirange;
  newest record;
begin
  if isempty(claim) then
    return;
  end if;
  against := recorder.evidence_against('fills', of_category, of_symbol, '', '', claim);
  granted := claim - against.ranges - final;
  select k.part, k.ranges, (select r from unnest(k.ranges) as r order by r desc limit 1) as last
    into newest from recorder.ledger k
  where recorder.is_of(k, 'fills', of_category, of_symbol, '', '')
    and k.verdict = 'recorded'
  order by k.part desc limit 1;
  if lower(claim) >= lower(newest.last) and lower(claim) <= upper(newest.last)
    and granted = tstzmultirange(range_merge(claim))
    and not exists (
      select from recorder.ledger k
      where recorder.is_of(k, 'fills', of_category, of_symbol, '', '')
        and k.verdict in ('missing', 'lost') and k.part >= lower(claim) and k.part < upper(claim))
  then
    -- Nearly every claim continues the newest range.
    update recorder.ledger k set ranges = k.ranges + granted
    where recorder.is_of(k, 'fills', of_category, of_symbol, '', '')
      and k.verdict = 'recorded' and k.part = newest.part and not k.ranges @> granted;
    return;
  end if;

  insert into recorder.ledger as c (stream, category, symbol, type, interval, verdict, part, ranges)
  select 'fills', of_category, of_symbol, '', '', 'recorded', p.part, range_agg(r * tstzrange(p.part, p.until))
  from (
    select part, lead(part) over (order by part) as until from (
      -- Parts of the series, from the part that the claim begins in.
      select s.part from recorder.ledger s
      where recorder.is_of(s, 'fills', of_category, of_symbol, '', '')
        and s.verdict = 'recorded' and s.part >= (
          select max(b.part) from recorder.ledger b
          where recorder.is_of(b, 'fills', of_category, of_symbol, '', '')
            and b.verdict = 'recorded' and b.part <= lower(granted))
      union
      -- A part is full at 128 ranges, and the next one begins after a gap. Writing a full part takes a thousandth of a
      -- second, and two kilobytes of WAL.
      select upper(newest.ranges)
      where upper(newest.ranges) < lower(granted) and (select count(*) from unnest(newest.ranges)) >= 128
    ) as found
  ) p cross join lateral unnest(granted) as r
  where r && tstzrange(p.part, p.until)
  group by p.part
  on conflict (stream, category, symbol, type, interval, verdict, part) do update
    set ranges = c.ranges + excluded.ranges
    where not c.ranges @> excluded.ranges;
  perform recorder.close_gaps('fills', of_category, of_symbol, '', '', granted + claim * final, at, by);

  if not isempty(against.ranges * claim) then
    perform recorder.note_unknown('fills', of_category, of_symbol, '', '',
      against.ranges * claim, against.reason);
  end if;
  perform recorder.miss_fills(of_category, of_symbol, claim, by, after_what);
end
$$;

-- Returns true if two times of a fill differ, and none is the whole second of the other: responses may give such times.
create or replace function recorder.is_moved(one timestamptz, other timestamptz)
returns boolean language sql stable as $$
  select one <> other
    and date_trunc('second', greatest(one, other), 'UTC') <> least(one, other)
$$;

-- Keeps fills of a page that differ from stored ones, as rejected rows. Returns the milliseconds of these fills, as they
-- are stored and as the page has them.
-- Only these rows show the other values, so more are kept than of other rejected rows: 10,000 new ones in an hour.
-- Fills that change all the time would otherwise fill the disk. Beyond that bound they still lose their claim.
create or replace function recorder.reject_fills(
  of_category market.category, of_symbol text, why text, at timestamptz,
  row_ms double precision[], row_exec_id text[], row_side market.side[], row_price numeric[], row_size numeric[],
  row_page integer[], of_page integer
)
returns tstzmultirange language sql set search_path = pg_catalog, pg_temp as $$
  with differing as materialized (
    select t.ts, shown.ts as shown_ts, jsonb_build_object('ts', r.time_ms, 'execId', r.exec_id, 'side', r.side,
      'price', r.price::text, 'size', r.size::text)::text as raw
    from unnest(row_ms, row_exec_id, row_side, row_price, row_size, row_page)
      as r (time_ms, exec_id, side, price, size, page)
    cross join to_timestamp(r.time_ms / 1000) as shown (ts)
    join market.fills t on t.category = of_category and t.symbol = of_symbol and t.exec_id = r.exec_id
      and t.ts between (select to_timestamp(min(m) / 1000) from unnest(row_ms, row_page) as o (m, page)
          where o.page = of_page) - interval '1 second'
        and (select to_timestamp(max(m) / 1000) from unnest(row_ms, row_page) as o (m, page)
          where o.page = of_page) + interval '1 second'
    where r.page = of_page and (t.price <> r.price or t.size <> r.size or t.side <> r.side
      or recorder.is_moved(t.ts, shown.ts))
  ), kept as (
    insert into recorder.rejected_row as kept
      (digest, operation, parameters, reason, raw, raw_sha256, raw_bytes, first_seen_at, last_seen_at)
    select digest, 'fills', parameters, why, d.raw, raw_sha256, octet_length(d.raw), at, at
    from (select raw, row_number() over () as place from differing) d
    cross join jsonb_build_object('category', of_category, 'symbol', of_symbol) as parameters
    cross join encode(sha256(convert_to(d.raw, 'UTF8')), 'hex') as raw_sha256
    cross join jsonb_build_array('fills', parameters, why, raw_sha256) as named
    cross join encode(sha256(convert_to(named::text, 'UTF8')), 'hex') as digest
    where d.place <= 10000 - (
        select count(*) from recorder.rejected_row
        where operation = 'fills' and first_seen_at > at - interval '1 hour' and first_seen_at <= at)
      or exists (select from recorder.rejected_row same where same.digest = digest.digest)
    on conflict (digest) do update
      set last_seen_at = excluded.last_seen_at, times_seen = kept.times_seen + 1
      where excluded.last_seen_at > kept.last_seen_at
  )
  select range_agg(tstzrange(ms, ms + interval '1 millisecond'))
  from differing cross join lateral (values (ts), (shown_ts)) as both_times (ms)
$$;

-- Makes other transactions wait that change the proof of these series. It locks the row of each first part, or adds it,
-- one after another in the order in which a transaction of several series of candles comes to their fills: that of the
-- bytes of category and symbol. So two transactions never wait for each other.
create or replace function recorder.lock_fills(categories market.category[], symbols text[])
returns void language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  insert into recorder.ledger as c (stream, category, symbol, type, interval, verdict, ranges)
  select 'fills', k.category, k.symbol, '', '', 'recorded', '{}'
  from unnest(categories, symbols) as k (category, symbol)
  group by k.category, k.symbol order by k.category::text collate "C", k.symbol collate "C"
  -- A row that is there is locked, and stays as it is.
  on conflict (stream, category, symbol, type, interval, verdict, part) do update set ranges = c.ranges where false;
end
$$;

-- Claims ranges of fills of a series, and compares the minutes that they complete, and others, with their candles.
create or replace function recorder.cover_fills(
  of_category market.category, of_symbol text, claim tstzmultirange,
  at timestamptz default now(), by text default null, minutes tstzmultirange default '{}'
)
returns void language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  perform recorder.lock_fills(array[of_category], array[of_symbol]);
  perform recorder.claim_fills(of_category, of_symbol, claim, at, by);
  perform recorder.weigh_minutes(of_category, of_symbol, claim + minutes, by);
end
$$;

-- Notes as gaps what is unproven of fills of instruments that have left the list, up to their newest live responses. No
-- later response will join them.
create or replace function recorder.end_fills(of_category market.category, left_list text[])
returns void language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  perform recorder.lock_fills(array_agg(asked.category), array_agg(asked.symbol)) from recorder.ledger asked
  where (asked.stream, asked.category, asked.type, asked.interval) = ('fills', of_category, '', '')
    and asked.symbol = any (left_list) and asked.verdict = 'unsettled';
  perform recorder.note_unknown('fills', of_category, asked.symbol, '', '',
    tstzmultirange(tstzrange(known.until, shown.until))
      * tstzmultirange(tstzrange(recorder.fills_kept_from(of_category, asked.symbol), null)), recorder.reason_for_end())
  from recorder.ledger asked
  -- A response that proved nothing may have shown later fills.
  cross join lateral (select greatest(asked.noted_at,
    recorder.last_fill(of_category, asked.symbol, asked.noted_at) + interval '1 millisecond') as until) shown
  cross join lateral (
    select coalesce(max(upper(k.ranges)),
      recorder.first_fill(of_category, asked.symbol, asked.asked_since) + interval '1 millisecond') as until
    from recorder.ledger k
    where recorder.is_of(k, 'fills', of_category, asked.symbol, '', '')
      and k.verdict in ('recorded', 'final')
  ) known
  where (asked.stream, asked.category, asked.type, asked.interval) = ('fills', of_category, '', '')
    and asked.symbol = any (left_list) and asked.verdict = 'unsettled' and known.until < shown.until;
end
$$;

-- Does the same for their candles, from the oldest one on. A candle that still formed then is no gap.
create or replace function recorder.end_candles(of_category market.category, left_list text[])
returns void language sql set search_path = pg_catalog, pg_temp as $$
  -- A response may be being stored. What it claims is seen below.
  select from recorder.ledger k
  where (k.stream, k.category) = ('candles', of_category) and k.symbol = any (left_list) and k.verdict = 'recorded'
  order by k.symbol collate "C", k.type collate "C", k.interval collate "C", k.part
  for update;
  select recorder.note_unknown('candles', of_category, k.symbol, k.type, k.interval, unknown, recorder.reason_for_end())
  from recorder.ledger k
  cross join market.interval_length(k.interval::market.candle_interval) as length
  -- What is too short to hold a candle is none.
  cross join lateral (
    select range_agg(r) as unknown
    from unnest(tstzmultirange(tstzrange(lower(k.ranges), greatest(upper(k.ranges),
      date_bin(length, k.noted_at, upper(k.ranges))))) - k.ranges) as r
    where upper(r) - lower(r) >= length) u
  where (k.stream, k.category) = ('candles', of_category) and k.symbol = any (left_list)
    and k.verdict = 'recorded' and isfinite(k.noted_at) and not isempty(k.ranges) and unknown is not null
$$;
