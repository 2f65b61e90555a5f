-- Returns true for a row of a series. The function has no settings, so that the planner inlines it.
create or replace function recorder.is_of(
  k recorder.ledger, of_stream text, of_category market.category, of_symbol text, of_type text, of_interval text
)
returns boolean language sql immutable as $$
  select (k.stream, k.category, k.symbol, k.type, k.interval) = (of_stream, of_category, of_symbol, of_type, of_interval)
$$;
