import { type Kysely, sql } from 'kysely'

/**
 * Two group roles to grant to people and programs, each with what it needs and no more: market_reader sees all that was
 * recorded, recorder_writer records, and neither changes the schema. Where we may not create roles (many managed services) this is
 * skipped with a notice: everything else works without them.
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
        grant usage on schema market to market_reader;
        grant select on all tables in schema market to market_reader;
        alter default privileges in schema market grant select on tables to market_reader;
      end if;

      if exists (select from pg_roles where rolname = 'recorder_writer') then
        grant usage on schema market, recorder to recorder_writer;
        grant select on all tables in schema market, recorder to recorder_writer;
        grant insert on all tables in schema market to recorder_writer;
        -- What is recorded of a moment never changes; only these follow the world.
        grant update on market.instruments, market.instrument_history, market.rpi_symbols, market.candles
          to recorder_writer;
        -- For rows that are older than the configuration keeps.
        grant delete on market.tickers, market.order_books, market.rpi_order_books, market.fills, market.candles
          to recorder_writer;
        grant insert, update, delete on recorder.coverage, recorder.gap to recorder_writer;
        grant insert, update on recorder.rejected_row to recorder_writer;
        grant insert on recorder.candle_revision to recorder_writer;
        grant usage on all sequences in schema recorder to recorder_writer;
        alter default privileges in schema market, recorder grant select on tables to recorder_writer;
        alter default privileges in schema recorder grant insert, update, delete on tables to recorder_writer;
        alter default privileges in schema recorder grant usage on sequences to recorder_writer;
      end if;
    end
    $$`.execute(db)
}
