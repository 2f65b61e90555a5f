-- Adds what responses prove of an instrument. Writers of a series wait for each other at its row with verdict recorded.
-- The time between the recorded ranges that no gap holds yet is then noted as gaps, for a reason, or for what a
-- response came after, as in reason_for_missed. Returns the number of new gaps.
create or replace function recorder.claim_events(
  of_stream text, of_category market.category, of_symbol text, claim tstzmultirange,
  why text default null, after_what text default null
)
returns bigint language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  final constant tstzmultirange := recorder.final_from(of_stream, of_category, of_symbol, '', '', lower(claim));
  whole tstzmultirange;
  gaps tstzmultirange;
begin
  claim := claim - final - (
    select e.ranges from recorder.evidence_against(of_stream, of_category, of_symbol, '', '', claim) e);
  insert into recorder.ledger as k (stream, category, symbol, verdict, ranges)
  values (of_stream, of_category, of_symbol, 'recorded', claim)
  on conflict (stream, category, symbol, type, interval, verdict, part) do update
    set ranges = k.ranges + excluded.ranges where not k.ranges @> excluded.ranges
  returning ranges into whole;
  if whole is null then
    return 0;
  end if;
  whole := whole + final;
  perform recorder.close_gaps(of_stream, of_category, of_symbol, '', '', whole);
  gaps := tstzmultirange(range_merge(whole)) - whole - coalesce((
    select range_agg(r) from recorder.ledger k cross join lateral unnest(k.ranges) as r
    where recorder.is_of(k, of_stream, of_category, of_symbol, '', '')
      and k.verdict in ('missing', 'lost')), '{}');
  perform recorder.note_gaps(of_stream, of_category, of_symbol, '', '', 'missing', gaps,
    coalesce(why, recorder.reason_for_missed(of_stream, after_what)));
  return (select count(*) from unnest(gaps));
end
$$;

-- Notes what lies before the rows of a live response that proves nothing: after the newest claim or, without one, from
-- the first row on. A stored row of that time, which the service still has, shows that the response was cut. oldest:
-- the beginning of the time that the response shows, or of what is not settled yet, if that is earlier.
create or replace function recorder.miss_events(
  of_stream text, of_category market.category, of_symbol text,
  oldest timestamptz, reached timestamptz, after_what text
)
returns void language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  claimed_until timestamptz;
  first_row timestamptz;
begin
  insert into recorder.ledger as k (stream, category, symbol, verdict, ranges)
  values (of_stream, of_category, of_symbol, 'recorded', '{}')
  on conflict (stream, category, symbol, type, interval, verdict, part) do update set ranges = k.ranges
  returning upper(ranges) into claimed_until;
  execute format($first$
    select min(ts) from market.%I where category = $1 and symbol = $2 and ts >= $3 and ts < $4
    $first$, of_stream) into first_row using of_category, of_symbol, greatest(claimed_until, reached), oldest;
  if first_row is not null then
    perform recorder.note_unknown(of_stream, of_category, of_symbol, '', '',
      tstzmultirange(tstzrange(coalesce(claimed_until, first_row), oldest)),
      recorder.reason_for_missed(of_stream, after_what));
  end if;
end
$$;
