-- Only the owner may drop chunks and change schedules. These functions lend recorder_writer both rights for tables of
-- schema market. A schedule that reached back to dropped candles would remove their rollups too.
create or replace function recorder.drop_chunks(table_name text, before timestamptz) returns bigint
language plpgsql security definer set search_path = '' as $$
declare
  dropped bigint;
begin
  execute 'select count(*) from public.drop_chunks($1, older_than => $2)' into dropped
    using format('market.%I', table_name)::regclass, before;
  if table_name = 'candles' and dropped > 0 and to_regclass('recorder.ohlcv_5m') is not null then
    insert into recorder.final_rollups as known (before) values (drop_chunks.before)
      on conflict (is_only) do update set before = excluded.before where known.before < excluded.before;
  end if;
  return dropped;
end
$$;
comment on function recorder.drop_chunks is
  'Drops the chunks of a table of schema market that end before a time. Returns their number. Rollups of dropped candles '
  'are final. Needs TimescaleDB.';
revoke execute on function recorder.drop_chunks from public;

create or replace function recorder.bound_rollups(dropping_before timestamptz default null) returns boolean
language plpgsql security definer set search_path = '' as $$
declare
  final_before timestamptz := greatest(dropping_before, (select f.before from recorder.final_rollups f));
  -- The schedule counts from the server's own clock. Whole hours begin at the bound or after it.
  allowed interval := make_interval(hours => floor(extract(epoch from now() - final_before) / 3600)::int);
  job record;
  is_refreshing boolean := false;
begin
  if to_regclass('timescaledb_information.job_stats') is null
    or current_setting('timescaledb.license', true) is not distinct from 'apache' then
    return false;
  end if;
  for job in execute
    'select j.job_id, j.config, (j.config ->> ''start_offset'')::interval as reach,
      coalesce(s.job_status = ''Running'' or s.last_run_status is null
        and s.last_run_started_at > now() - interval ''1 minute'', false) as is_running
    from timescaledb_information.jobs j
    left join timescaledb_information.job_stats s on s.job_id = j.job_id
    where j.proc_name = ''policy_refresh_continuous_aggregate''
      and j.hypertable_schema = ''recorder'' and j.hypertable_name = ''ohlcv_5m'''
  loop
    is_refreshing := is_refreshing or job.is_running;
    continue when job.reach is not distinct from allowed;
    execute 'select public.alter_job($1, config => $2)'
      using job.job_id, job.config || jsonb_build_object('start_offset', allowed::text);
  end loop;
  return is_refreshing;
end
$$;
comment on function recorder.bound_rollups is
  'Lets the schedule of rollups look back to where candles were dropped, or are about to be, and no further. Returns '
  'whether a refresh is running that may have begun before. The caller holds the lock of rollups.';
revoke execute on function recorder.bound_rollups from public;

do $$
begin
  if exists (select from pg_roles where rolname = 'recorder_writer') then
    grant execute on function recorder.drop_chunks, recorder.bound_rollups to recorder_writer;
    -- Of the versions of a row that begin in a day, those beyond a bound go.
    grant delete on market.instrument_history, market.rpi_symbols, market.index_components to recorder_writer;
  end if;
end
$$;
