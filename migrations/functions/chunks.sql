-- Only the owner may drop chunks. The function lends recorder_writer this right for tables of schema market.
create or replace function recorder.drop_chunks(table_name text, before timestamptz) returns bigint
language plpgsql security definer set search_path = '' as $$
declare
  dropped bigint;
begin
  execute 'select count(*) from public.drop_chunks($1, older_than => $2)' into dropped
    using format('market.%I', table_name)::regclass, before;
  return dropped;
end
$$;
comment on function recorder.drop_chunks is
  'Drops the chunks of a table of schema market that end before a time. Returns their number. Needs TimescaleDB.';
revoke execute on function recorder.drop_chunks from public;

do $$
begin
  if exists (select from pg_roles where rolname = 'recorder_writer') then
    grant execute on function recorder.drop_chunks to recorder_writer;
  end if;
end
$$;
