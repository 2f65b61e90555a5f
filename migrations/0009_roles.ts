import { type Kysely, sql } from 'kysely'

/**
 * Condition for the functions of the server that everybody may call and a reader does not need: large objects, messages
 * in the log, and advisory locks.
 */
export const isUnneededFunction = `pronamespace = 'pg_catalog'::regnamespace
  and (proname in ('lo_creat', 'lo_create', 'lo_from_bytea', 'pg_logical_emit_message')
    or proname ~ '^pg_(try_)?advisory_(xact_)?lock')`

/**
 * Two group roles to grant to people and programs, each with the rights that it needs: market_reader sees all recorded
 * data, and recorder_writer records. Neither changes the schema. If the login may not create roles, as on many managed
 * services, a notice says so, and everything else works without them. Then rights are revoked that PostgreSQL gives
 * everybody and a reader does not need: temporary tables, large objects, messages in the log, and advisory locks, which
 * fill the server's table of locks. `doctor` tells which of these rights could not be revoked.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  // A role belongs to the whole server, so another database may have created it, even at this very moment.
  await sql`
    do $$
    declare
      wanted text;
    begin
      foreach wanted in array array['recorder_writer', 'market_reader'] loop
        if not exists (select from pg_roles where rolname = wanted) then
          begin
            execute format('create role %I nologin', wanted);
          exception
            when insufficient_privilege then raise notice 'no permission to create the role %: skipped', wanted;
            when duplicate_object or unique_violation then null;
          end;
        end if;
      end loop;

      if exists (select from pg_roles where rolname = 'market_reader') then
        grant usage on schema market, recorder_page, iceberg to market_reader;
        grant select on all tables in schema market, recorder_page, iceberg to market_reader;
        alter default privileges in schema market grant select on tables to market_reader;
      end if;

      if exists (select from pg_roles where rolname = 'recorder_writer') then
        grant usage on schema market, recorder, recorder_page, iceberg to recorder_writer;
        grant select on all tables in schema market, recorder, recorder_page, iceberg to recorder_writer;
        grant insert, update, delete on iceberg.iceberg_tables to recorder_writer;
        -- Rows of lists change. Rows with a received_at never change, and are deleted after their retention.
        for wanted in select format('market.%I', relname) from pg_class where relnamespace = 'market'::regnamespace and relkind = 'r' loop
          execute format('grant insert, %s on %s to recorder_writer', case when exists (
            select from pg_attribute where attrelid = wanted::regclass and attname = 'received_at') then 'delete' else 'update' end, wanted);
        end loop;
        grant delete on market.candles to recorder_writer;
        grant update on market.funding_rates to recorder_writer;
        grant insert, update, delete on all tables in schema recorder to recorder_writer;
        -- Logged revisions must stay, and only the login of migrations may note migrations.
        revoke update, delete on recorder.candle_revision from recorder_writer;
        revoke insert, update, delete on recorder.migration from recorder_writer;
        grant update (is_restatement) on recorder.candle_revision to recorder_writer;
        grant select, usage on all sequences in schema recorder to recorder_writer;
        alter default privileges in schema market, recorder grant select on tables to recorder_writer;
        alter default privileges in schema recorder grant insert, update, delete on tables to recorder_writer;
        alter default privileges in schema recorder grant usage on sequences to recorder_writer;
      end if;
    end
    $$;

    do $$
    declare
      statement text;
    begin
      for statement in
        select format('revoke temporary on database %I from public', current_database())
        union all
        select 'revoke create on schema public from public' where to_regnamespace('public') is not null
        union all
        select format('revoke execute on function %s from public', oid::regprocedure) from pg_proc
        where ${sql.raw(isUnneededFunction)}
      loop
        begin
          execute statement;
        exception when insufficient_privilege then
          raise notice 'left as it is, for lack of permission: %', statement;
        end;
      end loop;
    end
    $$`.execute(db)
}
