#!/bin/sh
# Runs once, when the database is created: the users. Everything else is the recorder's migrations.
set -eu
recorder=$(cat /secrets/database_recorder)
reader=$(cat /secrets/database_reader)
# The passwords go through variables of psql, which quotes them.
psql --no-psqlrc --quiet --set ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" \
  --set recorder="$recorder" --set reader="$reader" <<'SQL'
create role market_reader nologin;
create role recorder_writer nologin;
-- Owns the database: it migrates it, and sets up what TimescaleDB does by itself.
create role recorder login password :'recorder';
alter database market owner to recorder;
grant all on schema public to recorder;
create role grafana login password :'reader' in role market_reader;
alter role grafana set default_transaction_read_only = on;
alter role grafana set statement_timeout = '60s';
SQL
