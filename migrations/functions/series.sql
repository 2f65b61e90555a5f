-- Returns true for a row of a series. The function has no settings, so that the planner inlines it.
create or replace function recorder.is_of(
  k recorder.ledger, of_stream text, of_category market.category, of_symbol text, of_type text, of_interval text
)
returns boolean language sql immutable as $$
  select (k.stream, k.category, k.symbol, k.type, k.interval) = (of_stream, of_category, of_symbol, of_type, of_interval)
$$;

-- Returns the rows of a series that touch ranges, of each of some verdicts. Ranges of a verdict do not overlap, so none
-- that touches them is in a row before the newest one that begins before them. Gaps and evidence may overlap.
create or replace function recorder.rows_within(
  of_stream text, of_category market.category, of_symbol text, of_type text, of_interval text,
  verdicts text[], within tstzmultirange
)
returns setof recorder.ledger language plpgsql stable rows 2
set search_path = pg_catalog, pg_temp set enable_seqscan = off set enable_bitmapscan = off as $$
declare
  of_verdict text;
begin
  foreach of_verdict in array verdicts loop
    return query
    select * from recorder.ledger k
    where recorder.is_of(k, of_stream, of_category, of_symbol, of_type, of_interval)
      and k.verdict = of_verdict and k.part <= upper(within) and k.ranges && within
      and k.part >= coalesce((
        select b.part from recorder.ledger b
        where recorder.is_of(b, of_stream, of_category, of_symbol, of_type, of_interval)
          and b.verdict = of_verdict and b.part <= lower(within) and lower(b.ranges) <= lower(within)
        order by b.part desc limit 1), '-infinity');
  end loop;
end
$$;
