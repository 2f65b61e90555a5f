#!/bin/sh
# Runs once, when the database is created: the users. Everything else is the recorder's migrations.
set -eu
recorder=$(cat /secrets/database_recorder)
reader=$(cat /secrets/database_reader)
page=$(cat /secrets/database_page)
# The passwords go through variables of psql, which quotes them.
psql --no-psqlrc --quiet --set ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" \
  --set recorder="$recorder" --set reader="$reader" --set page="$page" <<'SQL'
create role market_reader nologin;
create role recorder_writer nologin;
-- Owns the database: it migrates it, and sets up what TimescaleDB does by itself.
create role recorder login password :'recorder';
alter database market owner to recorder;
grant all on schema public to recorder;
-- Ends sessions of others that keep it waiting.
grant pg_signal_backend to recorder;
create role grafana login connection limit 20 password :'reader' in role market_reader;
alter role grafana set default_transaction_read_only = on;
alter role grafana set statement_timeout = '60s';
-- The recorder's page and its commands query and export: what people ask runs as a login that can only read.
create role page login connection limit 20 password :'page' in role market_reader;
-- Nobody but the superuser can take these back, and a reader has no use for them: large objects, messages in the write-ahead log,
-- temporary tables, and the server's other databases.
revoke execute on function lo_creat(integer), lo_create(oid), lo_from_bytea(oid, bytea) from public;
do $$
declare
  name text;
begin
  for name in
    select oid::regprocedure::text from pg_proc
    where pronamespace = 'pg_catalog'::regnamespace and proname = 'pg_logical_emit_message'
  loop
    execute format('revoke execute on function %s from public', name);
  end loop;
  for name in select datname from pg_database where datname <> 'template0' loop
    execute format('revoke temporary on database %I from public', name);
  end loop;
end
$$;
revoke connect on database postgres, template1 from public;
grant connect on database postgres, template1 to recorder;
SQL
