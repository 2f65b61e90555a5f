-- Adds what responses prove of an instrument. Writers of a series wait for each other at its row with verdict
-- recorded. The time between the recorded ranges that no gap holds yet is then noted as gaps, for a reason, or for what a
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
  claim := claim - final - (select e.ranges from recorder.evidence_against(of_stream, of_category, of_symbol, '', '', claim) e);
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
    where (k.stream, k.category, k.symbol, k.type, k.interval) = (of_stream, of_category, of_symbol, '', '')
      and k.verdict in ('missing', 'lost')), '{}');
  perform recorder.note_gaps(of_stream, of_category, of_symbol, '', '', 'missing', gaps,
    coalesce(why, recorder.reason_for_missed(of_stream, after_what)));
  return (select count(*) from unnest(gaps));
end
$$;
