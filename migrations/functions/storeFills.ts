import { sql } from 'kysely'
import { fillsOf } from './fillProof.js'

/**
 * Stores pages of fills with what they prove: recorder.store_fills.
 *
 * A page is an unbroken run of fills. Two pages join if they share a fill, or if the later one is not full and
 * therefore shows all fills. Several fills may share a millisecond, and the newest millisecond of a page may still
 * grow. So a run ends before its newest millisecond, and the run of a full page begins after its oldest one. Pages are
 * judged by stored fills and not by requests. The verdict is therefore the same after a restart, a replay or a change
 * of recorders, and for any order of pages.
 *
 * A run is claimed only up to a margin before the response's own time. Fills show up late, and one may be dated ahead. The rest of a run is unsettled, and a later page that joins it claims it.
 *
 * A full page may lie within one or two milliseconds. It then has no whole millisecond, proves nothing, and leaves no
 * run that later pages could join. It leaves its fills, and the gap before it, which ends where its run would begin.
 */
export const storeFills = sql.raw(`
    create function recorder.store_fills(
      -- One element for each page. unread: milliseconds of rows that cannot be stored; null if they are not known.
      page_category market.category[], page_symbol text[], page_is_full boolean[], page_requested timestamptz[],
      page_received timestamptz[], page_unread tstzmultirange[],
      -- Times of the oldest and the newest fill of each page, null if it has none, and its number of fills.
      page_oldest timestamptz[], page_newest timestamptz[], page_fills integer[],
      -- Pages of one series have different turns. Pages are in the order of turns, and rows in the order of pages.
      page_turn integer[],
      -- One element for each fill. A page holds each of its fills once.
      row_page integer[], row_ms double precision[], row_exec_id text[], row_exec_link_id text[], row_side market.side[],
      row_price numeric[], row_size numeric[], row_is_rpi boolean[], row_extra jsonb[]
    )
    returns table (page integer, inserted integer, gaps integer, hidden integer, conflicting integer)
    language plpgsql
    set search_path = pg_catalog, pg_temp
    -- Rows are looked up by their keys, also while the planner has no statistics of a new table.
    set enable_seqscan = off set enable_bitmapscan = off set enable_mergejoin = off set jit = off
    as $$
    #variable_conflict use_column
    declare
      a_ms constant interval := '1 millisecond';
      -- A response may show a fill this much later than newer fills.
      settling constant interval := '2 seconds';
      -- The service was seen to show fills of 29 hours ago. An older one may have left a page that is not full.
      reach constant interval := '1 day';
      unread_reason constant text := 'a fill could not be understood; see recorder.rejected_row';
      conflict_reason constant text := 'a fill that is stored came again with other values; see recorder.rejected_row';
      missed_reason constant text := 'more fills happened between two responses than one response shows';
      nothing constant tstzmultirange := '{}';
      oldest_of_all constant timestamptz := (select min(t) from unnest(page_oldest) as t);
      newest_of_all constant timestamptz := (select max(t) from unnest(page_newest) as t);
      pages constant integer := cardinality(page_turn);
      is_one_turn constant boolean := page_turn[pages] = 1;
      page_from integer;
      page_to integer := 0;
      row_from integer;
      row_to integer := 0;
      f record;
      runs tstzmultirange;
      unsettled tstzmultirange;
      begins timestamptz;
      ends timestamptz;
      joined timestamptz;
      is_newest boolean;
      before timestamptz;
      gap tstzrange;
      added tstzmultirange;
      conflicts tstzmultirange;
      claim tstzmultirange;
      claim_category market.category[];
      claim_symbol text[];
      claim_part timestamptz[];
      claim_ranges tstzmultirange[];
      open_category market.category[];
      open_symbol text[];
      open_ranges tstzmultirange[];
    begin
      perform recorder.lock_fills(page_category, page_symbol);
      while page_to < pages loop
        page_from := page_to + 1;
        row_from := row_to + 1;
        if is_one_turn then
          page_to := pages;
        else
          page_to := page_from + (select count(*) from unnest(page_turn) as t where t = page_turn[page_from]) - 1;
          row_to := row_to + (select sum(n) from unnest(page_fills[page_from:page_to]) as n);
        end if;
        claim_category := '{}'; claim_symbol := '{}'; claim_part := '{}'; claim_ranges := '{}';
        open_category := '{}'; open_symbol := '{}'; open_ranges := '{}';
        for f in
          with asked as materialized (
            select p.*, (page_from + p.place - 1)::integer as page
            from unnest(page_category[page_from:page_to], page_symbol[page_from:page_to], page_is_full[page_from:page_to],
              page_requested[page_from:page_to], page_received[page_from:page_to], page_unread[page_from:page_to],
              page_oldest[page_from:page_to], page_newest[page_from:page_to], page_fills[page_from:page_to])
              with ordinality as p (category, symbol, is_full, requested, received, unread, oldest, newest, fills, place)
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
              select r.page, to_timestamp(r.time_ms / 1000) as ts, r.exec_id, r.exec_link_id, r.side, r.price, r.size, r.is_rpi,
                r.extra
              from unnest(
                case when is_one_turn then row_page else row_page[row_from:row_to] end,
                case when is_one_turn then row_ms else row_ms[row_from:row_to] end,
                case when is_one_turn then row_exec_id else row_exec_id[row_from:row_to] end,
                case when is_one_turn then row_exec_link_id else row_exec_link_id[row_from:row_to] end,
                case when is_one_turn then row_side else row_side[row_from:row_to] end,
                case when is_one_turn then row_price else row_price[row_from:row_to] end,
                case when is_one_turn then row_size else row_size[row_from:row_to] end,
                case when is_one_turn then row_is_rpi else row_is_rpi[row_from:row_to] end,
                case when is_one_turn then row_extra else row_extra[row_from:row_to] end
              ) as r (page, time_ms, exec_id, exec_link_id, side, price, size, is_rpi, extra)
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
          select a.*, a.fills - coalesce(s.fills, 0) as new, s.shared, coalesce(s.differing, 0) as differing,
            coalesce(t.inside, 0) - coalesce(s.inside, 0) as hidden,
            -- Claimed ranges of the newest part, or of all parts if the page begins before the newest.
            case when lower(last.ranges) < a.oldest then last.ranges else whole.ranges end as claimed, last.part,
            -- A mark is the one millisecond that an empty page claims first. Only empty pages came before, then.
            last.part = '-infinity' and upper(last.ranges) - lower(last.ranges) <= a_ms as is_mark, o.ranges as unsettled
          from asked a left join shown s using (page) left join there t using (page)
          left join lateral (
            select c.ranges, c.part from recorder.known c
            where ${fillsOf('c', 'a.')} and c.verdict = 'recorded'
            order by c.part desc limit 1
          ) last on true
          left join lateral (
            select range_agg(r) as ranges from recorder.known c cross join lateral unnest(c.ranges) as r
            where ${fillsOf('c', 'a.')} and c.verdict = 'recorded'
              and not coalesce(lower(last.ranges) < a.oldest, false)
          ) whole on true
          left join recorder.known o on ${fillsOf('o', 'a.')} and o.verdict = 'unsettled' and o.part = '-infinity'
        loop
          page := f.page; inserted := f.new; gaps := 0; hidden := f.hidden; conflicting := f.differing;
          f.claimed := coalesce(f.claimed, nothing);
          f.unsettled := coalesce(f.unsettled, nothing);
          unsettled := f.unsettled;
          runs := f.claimed + unsettled;
          added := nothing; claim := nothing; conflicts := nothing; gap := null; joined := null; is_newest := false;
          if f.oldest is null then
            -- Nothing was traded yet, so that a later page joins from here if it is not full.
            if not f.is_full and isempty(runs) then
              claim := tstzmultirange(tstzrange(f.requested - a_ms, f.requested));
            elsif not f.is_full and f.is_mark and upper(runs) < f.requested and f.requested - upper(runs) <= reach then
              unsettled := tstzmultirange(tstzrange(lower(runs), f.requested)) - f.claimed;
            end if;
          else
            if f.differing > 0 then
              conflicts := recorder.reject_fills(f.category, f.symbol, conflict_reason, f.received, row_ms, row_exec_id, row_side,
                row_price, row_size, row_page, f.page);
            end if;
            -- A page that leaves out stored fills of its time proves nothing.
            if f.hidden = 0 then
              begins := case when f.is_full then f.oldest + a_ms else f.oldest - a_ms end;
              ends := least(f.newest, f.requested);
              if f.shared is not null then
                if f.shared < upper(runs) and runs @> tstzrange(f.shared, upper(runs)) then
                  joined := upper(runs);
                  is_newest := true;
                else
                  -- A run does not hold the milliseconds of its first and its last fill.
                  select upper(r) into joined from unnest(runs) as r
                  where lower(r) - a_ms <= f.shared and f.shared <= upper(r) order by r desc limit 1;
                  if joined is null or joined = f.shared then
                    -- At the very end of a run, the shared fill may belong to a later page that left no run.
                    select coalesce(max(g.gap_until), joined) into joined from recorder.known g
                    where ${fillsOf('g', 'f.')} and g.gap_until between f.shared and f.shared + a_ms;
                  end if;
                end if;
              elsif not f.is_full and f.is_mark then
                -- Only empty pages came before, and this page shows all fills.
                if not exists (
                  select from market.fills t
                  where t.category = f.category and t.symbol = f.symbol and t.ts between lower(f.claimed) and f.oldest - a_ms)
                then
                  joined := upper(runs);
                  if f.requested - joined > reach then
                    gap := tstzrange(joined, f.requested - reach);
                    joined := f.requested - reach;
                  end if;
                end if;
              end if;
              if joined is not null then
                begins := least(begins, joined);
              else
                before := (select max(upper(r)) from unnest(runs) as r where upper(r) <= begins);
                -- The unsettled end of a run may hold fills that no response has shown.
                before := coalesce((select lower(u) from unnest(unsettled) as u where upper(u) = before), before);
                if f.shared is null then
                  before := greatest(before, (
                    select t.ts from market.fills t
                    where t.category = f.category and t.symbol = f.symbol and t.ts <= f.oldest
                      and t.ts >= coalesce(before, lower(f.claimed), '-infinity')
                      and not (t.ts = f.oldest and t.exec_id = any (
                        select e from unnest(row_exec_id, row_page) as own (e, p) where p = f.page))
                      and not exists (select from unnest(unsettled) as u where u @> t.ts or upper(u) = t.ts)
                    order by t.ts desc limit 1));
                end if;
                if before < begins then gap := tstzrange(before, begins); end if;
              end if;
              if begins < ends and f.unread is not null then added := tstzmultirange(tstzrange(begins, ends)); end if;
            end if;
            -- Claims the settled part of the run, and of the unsettled end of the run that it joins.
            claim := added;
            if not isempty(unsettled) and not isempty(added) then
              if is_newest and unsettled @> tstzrange(lower(unsettled), upper(unsettled)) and upper(unsettled) = joined then
                claim := claim + unsettled;
              else
                claim := claim + coalesce((select range_agg(u) from unnest(unsettled) as u
                  where upper(u) >= lower(added) and lower(u) <= upper(added)), nothing);
              end if;
            end if;
            unsettled := unsettled + added;
            claim := claim * tstzmultirange(tstzrange(null, f.requested - settling));
            if not isempty(f.unread) or not isempty(conflicts) then
              unsettled := unsettled - coalesce(f.unread, nothing) - conflicts;
              claim := claim - coalesce(f.unread, nothing) - conflicts;
            end if;
            if not isempty(unsettled) then
              -- Unsettled ends of old runs are dropped, because no page will join them any more.
              unsettled := (unsettled - claim - f.claimed) * tstzmultirange(tstzrange(ends - reach, null));
            end if;
          end if;
          if gap is not null and not f.claimed @> gap then
            gaps := 1;
            -- Claimed parts of the gap are not missing.
            perform recorder.miss_fills(f.category, f.symbol, tstzmultirange(gap) - f.claimed, missed_reason);
          end if;
          if not isempty(conflicts) then
            perform recorder.withdraw_fills(f.category, f.symbol, conflicts);
            perform recorder.miss_fills(f.category, f.symbol, conflicts, conflict_reason);
          end if;
          if not isempty(f.unread) and not isempty(added) then
            perform recorder.miss_fills(f.category, f.symbol, (f.unread * added) - conflicts, unread_reason);
          end if;
          if not f.claimed @> claim then
            -- The page may fill a part of a gap.
            if not is_newest and (select max(lower(r)) from unnest(runs) as r) > lower(claim) or exists (
              select from recorder.known k
              where ${fillsOf('k', 'f.')} and k.verdict in ('missing', 'lost') and k.part >= lower(claim) and k.part < upper(claim))
            then
              perform recorder.close_fill_gaps(f.category, f.symbol, claim, f.received, 'live');
            end if;
            claim_category := claim_category || f.category;
            claim_symbol := claim_symbol || f.symbol;
            claim_ranges := claim_ranges || claim;
            -- A claim that continues the newest range belongs to the part of that range.
            claim_part := claim_part || case
              when lower(claim) >= f.part and (lower(claim) <= upper(f.claimed) or isempty(f.claimed)) then f.part end;
          end if;
          if unsettled <> f.unsettled then
            open_category := open_category || f.category;
            open_symbol := open_symbol || f.symbol;
            open_ranges := open_ranges || unsettled;
          end if;
          return next;
        end loop;
        if cardinality(claim_ranges) > 0 then
          perform recorder.claim_fills(claim_category, claim_symbol, claim_part, claim_ranges);
        end if;
        if cardinality(open_ranges) > 0 then
          insert into recorder.known (stream, category, symbol, type, interval, verdict, ranges)
          select 'fills', o.category, o.symbol, '', '', 'unsettled', o.ranges
          from unnest(open_category, open_symbol, open_ranges) as o (category, symbol, ranges)
          on conflict (stream, category, symbol, type, interval, verdict, part) do update set ranges = excluded.ranges;
        end if;
      end loop;
    end
    $$;
`)
