-- Stores pages of fills with what they prove: recorder.store_fills. It compares each page with what is stored, judges
-- which run of fills the page proves, and has it claimed.
--
-- A page is an unbroken run of fills. Several fills may share a millisecond, so a run ends before the newest one of its
-- page and begins after the oldest one. Runs that overlap are one run: a page that lacks a stored fill of its time
-- proves nothing, so two such pages show the same fills there. Neither the size of a page nor its request counts. The
-- verdict is therefore the same after a restart, a replay or a change of recorders, and for any order of pages.
--
-- An example in which a page has four fills, one fill happens every ten milliseconds, and all is settled:
--
--     page   10   20   30   40   50   60   70   80   90  100 ms
--     1       a    b    c    d                                 run [11, 40): more fills may share 10 and 40
--     2            b    c    d    e                            run [21, 50) goes on: [11, 50)
--     3                                 g    h    i    j       run [71, 100), and gap [50, 71)
--     4                           e    f    g    h             run [51, 80): 50 is at the edge of both, and stays a gap
--
-- A run is claimed only up to a margin before the response's own time. Fills show up late, and one may be dated ahead.
-- The rest of a run is unsettled, and a later page that joins it claims it. Where times run against the order of fills,
-- the edges of a run move inward by the most that was seen. What is seen beyond them is the tail of the newest run: the
-- page that goes on from it proves it.

drop type if exists recorder.compared_page;
create type recorder.compared_page as (
  page integer, category market.category, symbol text, requested timestamptz, received timestamptz,
  -- What the response came after, as in reason_for_missed.
  after_what text,
  unread tstzmultirange, oldest timestamptz, newest timestamptz, edge timestamptz, disorder interval,
  -- Number of fills that were not stored yet, and of those stored with other values; true if some had whole seconds.
  inserted integer, differing integer, is_finer boolean,
  -- Number and milliseconds of stored fills that the page lacks although it covers their time.
  left_out integer, hidden tstzmultirange,
  -- Times of the oldest fill of the page that was stored before, or has left, of the oldest and the newest that was so
  -- with these values, and of the oldest new one; true if responses dispute fills.
  known_from timestamptz, shared_from timestamptz, shared timestamptz, new_from timestamptz, is_disputed boolean,
  -- True if one of these fills did not come from the history; null without any.
  is_shown_live boolean,
  -- Claimed ranges of the newest part that begins before the page, and of later ones, and what has left.
  claimed tstzmultirange,
  -- Ranges that are proven and not claimed yet, and the tail of the newest run; service time of the newest response.
  unsettled tstzmultirange, tail tstzrange, asked timestamptz,
  -- Time of the first fill of all that responses showed before, if none is claimed before the page; null if the page
  -- shares a fill of a response and is not older than that one.
  first timestamptz
);

-- Judges a whole page with fills. run: what it proves with all that it joins, settled or not; gap: what it shows to be
-- missing before it. Each may be null. unsettled, tail: what stays proven and unclaimed, and is seen after the newest
-- run.
create or replace function recorder.judge_fills(
  p recorder.compared_page, out run tstzrange, out gap tstzrange, out unsettled tstzmultirange, out tail tstzrange
)
language plpgsql immutable as $$
declare
  a_ms constant interval := '1 millisecond';
  newest constant timestamptz := least(p.newest, p.requested);
  ends constant timestamptz := newest - p.disorder;
  before timestamptz;
  -- It shares no fill of an older response. History stores more than it claims.
  is_apart constant boolean := coalesce(p.shared is null or not p.is_shown_live or p.first > newest, false);
  -- The newest run, as far as it was not claimed when it came. Fills are missing since, or since the first one of all.
  last constant tstzrange := (
    select r from unnest(p.unsettled * tstzmultirange(tstzrange(lower(p.tail) - interval '1 minute', null))
      + tstzmultirange(p.tail)) as r order by r desc limit 1);
  -- It goes on from the newest run, or from what is proven beyond its own edge.
  does_join constant boolean := exists (
    select from unnest(p.claimed + p.unsettled + tstzmultirange(p.tail)) as r
    -- A page that proved nothing may have stored the fills that it shares.
    where r @> p.oldest and p.shared_from <= upper(r) and (r @> p.edge + p.disorder or r @> p.tail and not isempty(p.tail)));
  begins constant timestamptz := p.edge + a_ms + case when does_join then interval '0' else p.disorder end;
begin
  tail := p.tail;
  unsettled := p.unsettled;
  if begins < ends then
    -- What an earlier page proved is no longer proven where this one runs further against the order.
    unsettled := unsettled - tstzmultirange(tstzrange(ends, newest));
    -- Joined pages prove nothing nearer to their newest fill than the largest disorder among them: the tail is as long.
    unsettled := case when does_join
      then unsettled + tstzmultirange(p.tail * tstzrange(null, least(ends, newest - (upper(p.tail) - lower(p.tail)))))
      else unsettled - tstzmultirange(tstzrange(p.oldest, begins)) end;
    run := (
      select r from unnest(p.claimed + unsettled + tstzmultirange(tstzrange(begins, ends))) as r
      where r @> begins);
    if isempty(p.tail) or newest >= upper(p.tail) then
      tail := tstzrange(least(upper(run), newest - a_ms), newest);
    end if;
  end if;
  -- Fills of one time prove nothing. If none of them was shown before, others were missed before them, or between the
  -- page and a newer one that came first.
  if lower(run) = begins or run is null and is_apart then
    -- The millisecond of a fill that has left ends before the run that begins after this fill.
    before := (
      select max(upper(r)) from unnest(p.claimed) as r
      where upper(r) <= begins and not (p.shared is not null and r @> p.oldest));
    if is_apart then
      before := coalesce(least(before, case when lower(last) < begins then lower(last) end), p.first + a_ms);
    elsif before is null and p.shared <= p.edge then
      -- No page goes on from what was proven before the edge alone, and no claim.
      before := (
        select min(lower(r)) from unnest(p.unsettled + tstzmultirange(p.tail)) as r where upper(r) <= begins);
    end if;
    gap := tstzrange(least(before, begins), greatest(before, begins));
  elsif upper(last) + a_ms < lower(run) then
    -- It joins what history has claimed since the last run.
    gap := tstzrange(lower(last), lower(run));
  end if;
end
$$;

create or replace function recorder.store_fills(
  -- One element for each page, and at most one page of an instrument. unread: milliseconds of rows that cannot be
  -- stored; null if they are not known.
  page_category market.category[], page_symbol text[], page_requested timestamptz[], page_received timestamptz[],
  page_after text[], page_unread tstzmultirange[],
  -- Times of the oldest and the newest fill of each page, null if it has none; the last millisecond for which the
  -- oldest one stands; by how much times run against the order of the fills; their number.
  page_oldest timestamptz[], page_newest timestamptz[], page_edge timestamptz[], page_disorder interval[],
  page_fills integer[],
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
  a_second constant interval := '1 second';
  -- A page that joins an older run comes within this time.
  reach constant interval := '1 day';
  -- A response may show a fill this much later than newer fills.
  settling constant interval := '2 seconds';
  unread_reason constant text := 'a row of this time could not be understood; see recorder.rejected_row';
  conflict_reason constant text := 'a fill that is stored came again with other values; see recorder.rejected_row';
  hidden_reason constant text := 'a response left out fills that are stored';
  nothing constant tstzmultirange := '{}';
  oldest_of_all constant timestamptz := (select min(t) - a_second from unnest(page_oldest) as t);
  newest_of_all constant timestamptz := (select max(t) + a_second from unnest(page_newest) as t);
  p recorder.compared_page;
  judged record;
  gap tstzmultirange;
  conflicts tstzmultirange;
  claim tstzmultirange;
  unsettled tstzmultirange;
  tail tstzrange;
  touched tstzmultirange;
  minutes tstzmultirange;
begin
  perform recorder.lock_fills(page_category, page_symbol);
  for p in
    with asked as materialized (
      select q.*, q.place::integer as page
      from unnest(page_category, page_symbol, page_requested, page_received, page_after, page_unread,
        page_oldest, page_newest, page_edge, page_disorder, page_fills) with ordinality
        as q (category, symbol, requested, received, after_what, unread, oldest, newest, edge, disorder, fills, place)
    ), final as materialized (
      -- What has left: of a page that does not reach below its end, only that end.
      select a.page, case when f.noted_at > a.oldest then f.ranges
        else tstzmultirange(tstzrange(f.noted_at - a_ms, f.noted_at)) end as ranges
      from asked a join recorder.ledger f
        on recorder.is_of(f, 'fills', a.category, a.symbol, '', '')
          and f.verdict = 'final' and f.part = '-infinity'
    ), known as materialized (
      select a.page, k.*, k.ts < a.newest - a.disorder and k.ts > a.edge + a.disorder
        and not coalesce(a.unread @> k.ts, false) as is_inside,
        k.ts + a_second <= a.newest - a.disorder
          and not coalesce(a.unread && tstzrange(k.ts, k.ts + a_second), false) as is_second_inside
      from asked a cross join lateral (
        select t.ts, t.exec_id, t.side, t.price, t.size, t.source,
          t.ts = date_trunc('second', t.ts) as may_be_second
        from market.fills t
        where t.category = a.category and t.symbol = a.symbol
          and t.ts between a.oldest - a_second and a.newest
          -- Tells the planner of a table in chunks which chunks count. It neither reads nor locks others.
          and t.ts between oldest_of_all and newest_of_all
        -- One more than it shows tells of a page that leaves out fills, but not of all that it leaves out. Ties are
        -- needed. In a millisecond with more fills than a page, others could hide those of the page.
        order by t.ts desc fetch first (10 * a.fills + 1000) rows with ties
      ) k
      union all
      -- A fill may have come with a later time than the page gives it.
      select a.page, k.*, false, false
      from asked a cross join lateral (
        select t.ts, t.exec_id, t.side, t.price, t.size, t.source, t.ts = date_trunc('second', t.ts)
        from market.fills t
        where t.category = a.category and t.symbol = a.symbol
          and t.ts > a.newest and t.ts <= a.newest + a_second and t.ts between oldest_of_all and newest_of_all
        order by t.ts fetch first (10 * a.fills + 1000) rows only
      ) k
    ), compared as materialized (
      select i.*, k.ts as known_ts, k.ts is not null or coalesce(f.ranges @> i.ts, false) as is_known,
        k.ts is not null and (k.price <> i.price or k.size <> i.size or k.side <> i.side
          or recorder.is_moved(k.ts, i.ts)) as differs,
        k.ts is not null and recorder.is_moved(k.ts, i.ts) as is_moved,
        k.source is distinct from 'history' as is_live
      from (
        select r.page, to_timestamp(r.time_ms / 1000) as ts, r.exec_id, r.exec_link_id, r.side, r.price, r.size,
          r.is_rpi, r.extra
        from unnest(row_page, row_ms, row_exec_id, row_exec_link_id, row_side, row_price, row_size, row_is_rpi,
          row_extra)
          as r (page, time_ms, exec_id, exec_link_id, side, price, size, is_rpi, extra)
      ) i left join known k on k.page = i.page and k.exec_id = i.exec_id
      left join final f on f.page = i.page
    ), stored as (
      insert into market.fills
        (category, symbol, ts, exec_id, exec_link_id, side, price, size, is_rpi, received_at, extra)
      select a.category, a.symbol, c.ts, c.exec_id, c.exec_link_id, c.side, c.price, c.size, c.is_rpi, a.received,
        coalesce(c.extra, '{}')
      from compared c join asked a using (page) where not c.is_known
      on conflict do nothing
    ), shown as (
      select c.page, count(*) filter (where c.is_known) as fills, count(*) filter (where c.differs) as differing,
        coalesce(bool_or(c.known_ts < c.ts and not c.is_moved), false) as is_finer,
        min(c.ts) filter (where c.is_known) as known_from, min(c.ts) filter (where not c.is_known) as new_from,
        min(c.ts) filter (where c.is_known and not c.differs) as shared_from,
        -- A fill that is dated ahead joins nothing, nor does one that has other values than the stored one.
        max(c.ts) filter (where c.is_known and not c.differs and c.ts <= a.requested) as shared,
        bool_or(c.is_live) filter (where c.is_known and not c.differs and c.ts <= a.requested) as is_live
      from compared c join asked a using (page) group by c.page
    ), hidden as (
      select k.page, count(*) as fills, range_agg(tstzrange(k.ts,
          k.ts + case when k.may_be_second and s.is_finer then a_second else a_ms end)) as ranges
      from known k join shown s using (page)
      left join compared c on (c.page, c.known_ts, c.exec_id) = (k.page, k.ts, k.exec_id)
      where k.is_inside and c.page is null and (k.is_second_inside or not (k.may_be_second and s.is_finer))
      group by k.page
    )
    select a.page, a.category, a.symbol, a.requested, a.received, a.after_what, a.unread,
      a.oldest, a.newest, a.edge, a.disorder,
      (a.fills - coalesce(s.fills, 0))::integer, coalesce(s.differing, 0)::integer, coalesce(s.is_finer, false),
      coalesce(h.fills, 0)::integer, coalesce(h.ranges, '{}'), s.known_from, s.shared_from, s.shared, s.new_from,
      exists (
        select from recorder.ledger d
        where recorder.is_of(d, 'fills', a.category, a.symbol, '', '')
          and d.verdict = 'disputed'), s.is_live,
      coalesce(c.ranges, '{}') + coalesce(f.ranges, '{}'),
      coalesce(o.ranges * tstzmultirange(tstzrange(null, o.settled_at)), '{}'),
      coalesce(range_merge(o.ranges) * tstzrange(o.settled_at, null), 'empty'), o.noted_at,
      -- Needed only where nothing that is stored goes before, because it may look through all chunks.
      case when o.asked_since > a.newest + a_ms then o.asked_since - a_ms
        when s.is_live is not true and o.asked_since is not null
          and coalesce(a.oldest <= lower(c.ranges), true)
        then recorder.first_fill(a.category, a.symbol, o.asked_since) end
    from asked a left join shown s using (page) left join hidden h using (page) left join final f using (page)
    left join recorder.ledger o
      on recorder.is_of(o, 'fills', a.category, a.symbol, '', '')
        and o.verdict = 'unsettled' and o.part = '-infinity'
    left join lateral (
      select range_agg(r) as ranges from recorder.ledger c cross join lateral unnest(c.ranges) as r
      where recorder.is_of(c, 'fills', a.category, a.symbol, '', '')
        and c.verdict = 'recorded' and c.part >= coalesce((
          select b.part from recorder.ledger b
          where recorder.is_of(b, 'fills', a.category, a.symbol, '', '') and b.verdict = 'recorded'
            and lower(b.ranges) < least(a.oldest, lower(a.unread), o.settled_at - interval '1 minute')
          order by b.part desc limit 1), '-infinity')
    ) c on true
  loop
    claim := nothing; unsettled := p.unsettled; tail := p.tail; gap := nothing; conflicts := nothing;
    if p.is_finer then
      -- The finer time stands.
      update market.fills t set ts = r.ts
      from (select page, to_timestamp(time_ms / 1000) as ts, exec_id
        from unnest(row_page, row_ms, row_exec_id) as r (page, time_ms, exec_id)) r
      where r.page = p.page and t.category = p.category and t.symbol = p.symbol and t.exec_id = r.exec_id
        and t.ts = date_trunc('second', r.ts) and t.ts < r.ts
        and t.ts between date_trunc('second', p.oldest) and p.newest
        and not exists (select from market.fills f
          where (f.category, f.symbol, f.ts, f.exec_id) = (p.category, p.symbol, r.ts, r.exec_id));
    end if;
    if p.inserted > 0 then
      p.claimed := p.claimed - recorder.end_silence(p.category, p.symbol, p.oldest, p.newest);
      if p.claimed @> p.oldest and coalesce(p.known_from > p.oldest, true) then
        p.claimed := p.claimed - recorder.end_claim('fills', p.category, p.symbol, p.oldest,
          case when p.left_out > 0 or p.unread is null then p.newest else p.edge + p.disorder end + a_ms,
          p.received);
      end if;
    end if;
    if p.claimed && p.unread then
      p.claimed := p.claimed - recorder.withdraw_unread('fills', p.category, p.symbol, p.unread, a_ms);
    end if;
    if p.differing > 0 then
      conflicts := recorder.reject_fills(p.category, p.symbol, conflict_reason, p.received, row_ms, row_exec_id,
        row_side, row_price, row_size, row_page, p.page);
      perform recorder.note_evidence('fills', p.category, p.symbol, '', '',
        (select array_agg(r) from unnest(conflicts) as r), conflict_reason);
    end if;
    if p.left_out > 0 then
      -- A page that leaves out stored fills of its time is no unbroken run. Pages of weeks may leave out thousands
      -- each, and each fill would become two rows of the ledger.
      perform recorder.note_evidence('fills', p.category, p.symbol, '', '',
        array(select r from unnest(p.hidden) as r order by r desc limit 100), hidden_reason);
    elsif p.oldest is not null then
      judged := recorder.judge_fills(p);
      if judged.run is not null and p.unread is not null then
        if p.is_disputed then
          perform recorder.end_evidence('fills', p.category, p.symbol, '', '', 'disputed',
            tstzmultirange(tstzrange(p.edge + p.disorder + a_ms, null))
              -- A fill of a whole second may lie anywhere in it.
              * tstzmultirange(tstzrange(null, case when p.is_finer
                then date_trunc('second', p.newest - p.disorder, 'UTC') else p.newest - p.disorder end))
              - conflicts - p.unread);
        end if;
        unsettled := judged.unsettled + tstzmultirange(judged.run) - p.unread - conflicts;
        tail := case when isempty(p.unread) then judged.tail else 'empty' end;
        claim := tstzmultirange(judged.run) * tstzmultirange(tstzrange(null, p.requested - settling))
          - p.unread - conflicts;
        if not p.claimed @> p.unread then
          perform recorder.note_unknown('fills', p.category, p.symbol, '', '',
            p.unread * tstzmultirange(judged.run) - p.claimed, unread_reason);
        end if;
      end if;
      -- History may have filled a part of it since the response before, and retention removed one.
      gap := coalesce(tstzmultirange(judged.gap), nothing) - p.claimed - claim;
      if not isempty(gap) then
        gap := gap * tstzmultirange(tstzrange(recorder.fills_kept_from(p.category, p.symbol), null));
      end if;
      -- Drops the unsettled ends of old runs, because no page will join them any more.
      unsettled := (unsettled - claim - p.claimed)
        * tstzmultirange(tstzrange(least(p.newest, p.requested) - reach, null));
    end if;

    if not p.claimed @> claim or not isempty(conflicts) then
      perform recorder.claim_fills(p.category, p.symbol, claim, p.received, 'live', p.after_what);
    end if;
    if not isempty(gap) then
      -- This comes after the closing, so that the rest of a gap that is known is not noted again.
      perform recorder.note_unknown('fills', p.category, p.symbol, '', '', gap,
        recorder.reason_for_missed('fills', p.after_what));
    end if;
    -- Prices of fills that it stored may contradict what is claimed.
    minutes := tstzmultirange(tstzrange(
      date_trunc('minute', least(p.new_from, p.requested), 'UTC'), date_trunc('minute', p.requested, 'UTC')));
    if p.oldest is not null and (p.unread is null or p.left_out > 0) then
      -- It proves nothing, and still shows a fill since which others may be missing.
      insert into recorder.ledger as k (
        stream, category, symbol, verdict, ranges, asked_since, noted_at, settled_at
      )
      values ('fills', p.category, p.symbol, 'unsettled', nothing,
        least(p.requested, p.edge + p.disorder + a_ms), p.requested, 'infinity')
      on conflict (stream, category, symbol, type, interval, verdict, part) do update
        set asked_since = excluded.asked_since where excluded.asked_since < k.asked_since;
    elsif p.unread is not null then
      insert into recorder.ledger as k (
        stream, category, symbol, verdict, ranges, asked_since, noted_at, settled_at
      )
      values ('fills', p.category, p.symbol, 'unsettled', unsettled + tstzmultirange(tail),
        least(p.requested, p.edge + p.disorder + a_ms), p.requested, coalesce(lower(tail), 'infinity'))
      on conflict (stream, category, symbol, type, interval, verdict, part) do update
        set ranges = excluded.ranges, asked_since = least(k.asked_since, excluded.asked_since),
          noted_at = greatest(k.noted_at, excluded.noted_at), settled_at = excluded.settled_at;
      -- Minutes that this response completes or shows, and that are not known yet.
      touched := tstzmultirange(tstzrange(
        date_trunc('minute', least(p.oldest, p.asked, p.requested, lower(claim - p.claimed)), 'UTC'),
        date_trunc('minute', p.requested, 'UTC')));
      minutes := minutes + (touched - p.claimed) + (
        select coalesce(range_agg(r), nothing) from recorder.ledger k cross join lateral unnest(k.ranges) as r
        where recorder.is_of(k, 'fills', p.category, p.symbol, '', '')
          and k.verdict = 'contradicted' and k.part >= lower(touched) and k.part < upper(touched));
    end if;
    if not isempty(minutes) then
      perform recorder.weigh_minutes(p.category, p.symbol, minutes, 'live');
    end if;

    page := p.page;
    inserted := p.inserted;
    gaps := case when isempty(gap) then 0 else 1 end;
    left_out := p.left_out;
    conflicting := p.differing;
    return next;
  end loop;
  -- A page may be stored after the list that its instrument has left.
  perform recorder.end_fills(q.category, array_agg(q.symbol))
  from unnest(page_category, page_symbol) as q (category, symbol)
  join market.instruments i on i.category = q.category and i.symbol = q.symbol and i.disappeared_at is not null
  group by q.category;
end
$$;
