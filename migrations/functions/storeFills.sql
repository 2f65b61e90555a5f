-- Stores pages of fills with what they prove: recorder.store_fills. It compares each page with what is stored, judges
-- which run of fills the page proves, and writes the proof and the gaps.
--
-- A page is an unbroken run of fills. Two pages join if they share a fill, or if the later one is not full and
-- therefore shows all fills. Several fills may share a millisecond, and the newest millisecond of a page may still
-- grow. So a run ends before its newest millisecond, and the run of a full page begins after its oldest one. Pages are
-- judged by stored fills and not by requests. The verdict is therefore the same after a restart, a replay or a change
-- of recorders, and for any order of pages.
--
-- An example in which a full page has four fills, one fill happens every ten milliseconds, and all is settled:
--
--     page   10   20   30   40   50   60   70   80   90  100 ms
--     1       a    b    c    d                                 run [11, 40): more fills may share 10 and 40
--     2            b    c    d    e                            shares b: the run goes on, to [11, 50)
--     3                                 g    h    i    j       shares none: run [71, 100), and gap [50, 71)
--     4                           e    f    g    h             comes late, shares e: run [50, 80) closes the gap
--
-- A run is claimed only up to a margin before the response's own time. Fills show up late, and one may be dated ahead.
-- The rest of a run is unsettled, and a later page that joins it claims it.
--
-- A full page may lie within one or two milliseconds. Its fills are stored, but they prove no range. The gap before
-- them ends just after the page's oldest millisecond.

drop type if exists recorder.compared_page;
create type recorder.compared_page as (
  page integer, category market.category, symbol text, is_full boolean, requested timestamptz, received timestamptz,
  unread tstzmultirange, oldest timestamptz, newest timestamptz,
  -- Number of fills that were not stored yet, and of fills that are stored with other values.
  inserted integer, differing integer,
  -- Number of stored fills that the page lacks although it covers their time.
  left_out integer,
  -- Time of the oldest fill of the page that was stored before.
  shared timestamptz,
  -- Claimed ranges of the newest part, or of all parts if the page begins before the newest; and the newest part.
  claimed tstzmultirange, part timestamptz,
  -- True while no response has ever shown a fill. Only a mark is claimed then: one millisecond before an empty page.
  is_mark boolean,
  -- Ranges that are seen and not claimed yet.
  unsettled tstzmultirange
);

-- Judges a page with fills: the run that it proves with the run that it joins, and the gap before it. Either may be
-- null. Call it in store_fills, whose settings it needs. The arrays are those of store_fills.
create or replace function recorder.judge_fills(
  p recorder.compared_page, row_page integer[], row_exec_id text[], out run tstzrange, out gap tstzrange
)
language plpgsql as $$
declare
  a_ms constant interval := '1 millisecond';
  -- The service was seen to show fills of 29 hours ago. An older one may have left a page that is not full.
  reach constant interval := '1 day';
  runs constant tstzmultirange := p.claimed + p.unsettled;
  begins timestamptz := case when p.is_full then p.oldest + a_ms else p.oldest - a_ms end;
  ends constant timestamptz := least(p.newest, p.requested);
  -- The end of the run that the page joins.
  joined timestamptz;
  -- The end of what is known before a page that joins no run.
  before timestamptz;
begin
  if p.left_out > 0 then
    -- A page that leaves out stored fills of its time proves nothing.
    return;
  end if;
  if p.shared is not null then
    if p.shared < upper(runs) and runs @> tstzrange(p.shared, upper(runs)) then
      joined := upper(runs);
    else
      -- A run does not hold the milliseconds of its first and its last fill.
      select upper(r) into joined from unnest(runs) as r
      where lower(r) - a_ms <= p.shared and p.shared <= upper(r) order by r desc limit 1;
      if joined is null or joined = p.shared then
        -- At the very end of a run, the shared fill may belong to a later page that left no run.
        select coalesce(max(g.gap_until), joined) into joined from recorder.ledger g
        where (g.stream, g.category, g.symbol, g.type, g.interval) = ('fills', p.category, p.symbol, '', '')
          and g.gap_until between p.shared and p.shared + a_ms;
      end if;
    end if;
  elsif not p.is_full and p.is_mark then
    -- Only empty pages came before, and this page shows all fills.
    if not exists (
      select from market.fills t
      where t.category = p.category and t.symbol = p.symbol and t.ts between lower(p.claimed) and p.oldest - a_ms)
    then
      joined := upper(runs);
      if p.requested - joined > reach then
        -- The page may lack fills that are older than the reach, but none after its oldest one.
        if joined < begins then gap := tstzrange(joined, least(begins, p.requested - reach)); end if;
        joined := p.requested - reach;
      end if;
    end if;
  end if;

  if joined is not null then
    begins := least(begins, joined);
  else
    before := (select max(upper(r)) from unnest(runs) as r where upper(r) <= begins);
    -- The unsettled end of a run may hold fills that no response has shown.
    before := coalesce((select lower(u) from unnest(p.unsettled) as u where upper(u) = before), before);
    if p.shared is null then
      -- A page that left no run has left its fills.
      before := greatest(before, (
        select t.ts from market.fills t
        where t.category = p.category and t.symbol = p.symbol and t.ts <= p.oldest
          and t.ts >= coalesce(before, lower(p.claimed), '-infinity')
          and not (t.ts = p.oldest and t.exec_id = any (
            select e from unnest(row_exec_id, row_page) as own (e, of_page) where of_page = p.page))
          and not exists (select from unnest(p.unsettled) as u where u @> t.ts or upper(u) = t.ts)
        order by t.ts desc limit 1));
    end if;
    if before < begins then gap := tstzrange(before, begins); end if;
  end if;
  if begins < ends then run := tstzrange(begins, ends); end if;
end
$$;

create or replace function recorder.store_fills(
  -- One element for each page, and at most one page of an instrument. unread: milliseconds of rows that cannot be
  -- stored; null if they are not known.
  page_category market.category[], page_symbol text[], page_is_full boolean[], page_requested timestamptz[],
  page_received timestamptz[], page_unread tstzmultirange[],
  -- Times of the oldest and the newest fill of each page, null if it has none, and its number of fills.
  page_oldest timestamptz[], page_newest timestamptz[], page_fills integer[],
  -- One element for each fill. row_page: the place of its page, from 1. A page holds each of its fills once.
  row_page integer[], row_ms double precision[], row_exec_id text[], row_exec_link_id text[], row_side market.side[],
  row_price numeric[], row_size numeric[], row_is_rpi boolean[], row_extra jsonb[]
)
returns table (page integer, inserted integer, gaps integer, left_out integer, conflicting integer)
language plpgsql
set search_path = pg_catalog, pg_temp
-- Rows are looked up by their keys, also while the planner has no statistics of a new table.
set enable_seqscan = off set enable_bitmapscan = off set enable_mergejoin = off set jit = off
as $$
#variable_conflict use_column
declare
  a_ms constant interval := '1 millisecond';
  -- The service was seen to show fills of 29 hours ago. An older one may have left a page that is not full.
  reach constant interval := '1 day';
  -- A response may show a fill this much later than newer fills.
  settling constant interval := '2 seconds';
  unread_reason constant text := 'a fill could not be understood; see recorder.rejected_row';
  conflict_reason constant text := 'a fill that is stored came again with other values; see recorder.rejected_row';
  missed_reason constant text := 'more fills happened between two responses than one response shows';
  nothing constant tstzmultirange := '{}';
  oldest_of_all constant timestamptz := (select min(t) from unnest(page_oldest) as t);
  newest_of_all constant timestamptz := (select max(t) from unnest(page_newest) as t);
  p recorder.compared_page;
  judged record;
  run tstzmultirange;
  gap tstzmultirange;
  conflicts tstzmultirange;
  unproven tstzmultirange;
  claim tstzmultirange;
  unsettled tstzmultirange;
  runs tstzmultirange;
  -- What is written for all pages at once: one element for each page, null for nothing.
  page_claim tstzmultirange[] := array_fill(null::tstzmultirange, array[cardinality(page_symbol)]);
  page_part timestamptz[] := array_fill(null::timestamptz, array[cardinality(page_symbol)]);
  page_unsettled tstzmultirange[] := page_claim;
begin
  perform recorder.lock_fills(page_category, page_symbol);
  for p in
    with asked as materialized (
      select q.*, q.place::integer as page
      from unnest(page_category, page_symbol, page_is_full, page_requested, page_received, page_unread, page_oldest,
        page_newest, page_fills)
        with ordinality as q (category, symbol, is_full, requested, received, unread, oldest, newest, fills, place)
    ), known as materialized (
      select a.page, k.*, k.ts < a.newest and (k.ts > a.oldest or not a.is_full) as is_inside
      from asked a cross join lateral (
        select t.ts, t.exec_id, t.side, t.price, t.size from market.fills t
        where t.category = a.category and t.symbol = a.symbol and t.ts between a.oldest and a.newest
          -- Tells the planner of a table in chunks which chunks count. It neither reads nor locks others.
          and t.ts between oldest_of_all and newest_of_all
        -- Ties are needed. In a millisecond with more fills than a page, others could hide those of the page.
        order by t.ts desc fetch first (a.fills + 1) rows with ties
      ) k
    ), compared as materialized (
      select i.*, k.ts is not null as is_known, k.is_inside,
        k.ts is not null and (k.price <> i.price or k.size <> i.size or k.side <> i.side) as differs
      from (
        select r.page, to_timestamp(r.time_ms / 1000) as ts, r.exec_id, r.exec_link_id, r.side, r.price, r.size,
          r.is_rpi, r.extra
        from unnest(row_page, row_ms, row_exec_id, row_exec_link_id, row_side, row_price, row_size, row_is_rpi,
          row_extra)
          as r (page, time_ms, exec_id, exec_link_id, side, price, size, is_rpi, extra)
      ) i left join known k on k.page = i.page and k.ts = i.ts and k.exec_id = i.exec_id
    ), stored as (
      insert into market.fills
        (category, symbol, ts, exec_id, exec_link_id, side, price, size, is_rpi, received_at, extra)
      select a.category, a.symbol, c.ts, c.exec_id, c.exec_link_id, c.side, c.price, c.size, c.is_rpi, a.received,
        coalesce(c.extra, '{}')
      from compared c join asked a using (page) where not c.is_known
      on conflict do nothing
    ), shown as (
      select c.page, count(*) as fills, count(*) filter (where c.is_inside) as inside,
        -- A fill that is dated ahead joins nothing.
        min(c.ts) filter (where c.ts <= a.requested) as shared, count(*) filter (where c.differs) as differing
      from compared c join asked a using (page) where c.is_known group by c.page
    ), there as (
      select k.page, count(*) as inside from known k where k.is_inside group by k.page
    )
    select a.page, a.category, a.symbol, a.is_full, a.requested, a.received, a.unread, a.oldest, a.newest,
      (a.fills - coalesce(s.fills, 0))::integer, coalesce(s.differing, 0)::integer,
      (coalesce(t.inside, 0) - coalesce(s.inside, 0))::integer, s.shared,
      coalesce(case when lower(last.ranges) < a.oldest then last.ranges else whole.ranges end, '{}'), last.part,
      last.part = '-infinity' and upper(last.ranges) - lower(last.ranges) <= a_ms, coalesce(o.ranges, '{}')
    from asked a left join shown s using (page) left join there t using (page)
    left join lateral (
      select c.ranges, c.part from recorder.ledger c
      where (c.stream, c.category, c.symbol, c.type, c.interval) = ('fills', a.category, a.symbol, '', '')
        and c.verdict = 'recorded'
      order by c.part desc limit 1
    ) last on true
    left join lateral (
      select range_agg(r) as ranges from recorder.ledger c cross join lateral unnest(c.ranges) as r
      where (c.stream, c.category, c.symbol, c.type, c.interval) = ('fills', a.category, a.symbol, '', '')
        and c.verdict = 'recorded'
        and not coalesce(lower(last.ranges) < a.oldest, false)
    ) whole on true
    left join recorder.ledger o
      on (o.stream, o.category, o.symbol, o.type, o.interval) = ('fills', a.category, a.symbol, '', '') and o.verdict = 'unsettled' and o.part = '-infinity'
  loop
    runs := p.claimed + p.unsettled;
    claim := nothing; unsettled := p.unsettled; run := nothing; gap := nothing; conflicts := nothing;
    if p.oldest is null then
      -- Nothing was traded yet, so that a later page joins from here if it is not full.
      if not p.is_full and isempty(runs) then
        claim := tstzmultirange(tstzrange(p.requested - a_ms, p.requested));
      elsif not p.is_full and p.is_mark and upper(runs) < p.requested and p.requested - upper(runs) <= reach then
        unsettled := tstzmultirange(tstzrange(lower(runs), p.requested)) - p.claimed;
      end if;
    else
      if p.differing > 0 then
        conflicts := recorder.reject_fills(p.category, p.symbol, conflict_reason, p.received, row_ms, row_exec_id,
          row_side, row_price, row_size, row_page, p.page);
      end if;
      judged := recorder.judge_fills(p, row_page, row_exec_id);
      if judged.gap is not null then
        -- Claimed parts of the gap are not missing.
        gap := tstzmultirange(judged.gap) - p.claimed;
      end if;
      unproven := coalesce(p.unread, nothing) + conflicts;
      if judged.run is not null and p.unread is not null then
        run := tstzmultirange(judged.run);
        unsettled := unsettled + run;
        -- Claims the settled part of the run, and of the unsettled ranges that it touches.
        claim := (select tstzmultirange(r) from unnest(unsettled) as r where r @> judged.run);
        claim := claim * tstzmultirange(tstzrange(null, p.requested - settling)) - unproven;
      end if;
      -- Drops the unsettled ends of old runs, because no page will join them any more.
      unsettled := (unsettled - claim - p.claimed - unproven)
        * tstzmultirange(tstzrange(least(p.newest, p.requested) - reach, null));
    end if;

    if not isempty(conflicts) then
      perform recorder.withdraw_fills(p.category, p.symbol, conflicts);
      perform recorder.note_missing_fills(p.category, p.symbol, conflicts, conflict_reason);
    end if;
    if not isempty(p.unread) then
      perform recorder.note_missing_fills(p.category, p.symbol, (p.unread * run) - conflicts, unread_reason);
    end if;
    if not p.claimed @> claim then
      -- A claim fills no gap if it begins in the newest run, or after it, and if no gap begins in the claim.
      if not runs @> tstzrange(least(lower(claim), upper(runs)), upper(runs)) or exists (
        select from recorder.ledger k
        where (k.stream, k.category, k.symbol, k.type, k.interval) = ('fills', p.category, p.symbol, '', '')
          and k.verdict in ('missing', 'lost') and k.part >= lower(claim) and k.part < upper(claim))
      then
        perform recorder.close_gaps('fills', p.category, p.symbol, '', '', claim, p.received, 'live');
      end if;
      page_claim[p.page] := claim;
      -- A claim that continues the newest range belongs to the part of that range.
      if lower(claim) >= p.part and (lower(claim) <= upper(p.claimed) or isempty(p.claimed)) then
        page_part[p.page] := p.part;
      end if;
    end if;
    if not isempty(gap) then
      -- This comes after the closing, so that the rest of a gap that is known is not noted again.
      perform recorder.note_missing_fills(p.category, p.symbol, gap, missed_reason);
    end if;
    if unsettled <> p.unsettled then
      page_unsettled[p.page] := unsettled;
    end if;

    page := p.page;
    inserted := p.inserted;
    gaps := case when isempty(gap) then 0 else 1 end;
    left_out := p.left_out;
    conflicting := p.differing;
    return next;
  end loop;
  perform recorder.claim_fills(page_category, page_symbol, page_part, page_claim);
  insert into recorder.ledger (stream, category, symbol, verdict, ranges)
  select 'fills', u.category, u.symbol, 'unsettled', u.ranges
  from unnest(page_category, page_symbol, page_unsettled) as u (category, symbol, ranges) where u.ranges is not null
  on conflict (stream, category, symbol, type, interval, verdict, part) do update set ranges = excluded.ranges;
end
$$;
