import { type Kysely, sql } from 'kysely'
import { commentOn } from './comments.js'

const seriesComments = {
  stream: 'Stream that the series belongs to.',
  category: 'Product line of the service.',
  symbol: 'Instrument name; * for all instruments of the category.',
  type: 'Type of candles; empty for other streams.',
  interval: 'Interval of candles; empty for other streams.',
}

/**
 * What the page reads of the books, so that it needs no more than market_reader; and what PostgreSQL lets everybody do that a
 * reader has no use for: temporary tables, large objects, messages in the log. Where the right to take something back is
 * missing, as on most managed services, it is left and noticed (`doctor` tells, too).
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create schema recorder_page;
    comment on schema recorder_page is 'What the page reads of the books: views that market_reader may see.';
    create view recorder_page.coverage as
      select stream, category, symbol, type, interval, ranges from recorder.coverage;
    create view recorder_page.gap as
      select stream, category, symbol, type, interval, range, reason, state, detected_at from recorder.gap;

    -- Default privileges belong to who creates tables, and that may be another login by now.
    do $$
    begin
      if exists (select from pg_roles where rolname = 'market_reader') then
        grant usage on schema recorder_page to market_reader;
        grant select on all tables in schema recorder_page to market_reader;
        alter default privileges in schema market grant select on tables to market_reader;
      end if;
      if exists (select from pg_roles where rolname = 'recorder_writer') then
        grant usage on schema recorder_page to recorder_writer;
        grant select on all tables in schema recorder_page to recorder_writer;
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
        where pronamespace = 'pg_catalog'::regnamespace
          and proname in ('lo_creat', 'lo_create', 'lo_from_bytea', 'pg_logical_emit_message')
      loop
        begin
          execute statement;
        exception when insufficient_privilege then
          raise notice 'left as it is, for lack of permission: %', statement;
        end;
      end loop;
    end
    $$`.execute(db)
  await commentOn(db, {
    'recorder_page.coverage': {
      kind: 'view',
      comment: 'recorder.coverage for the page: the proven ranges of a series.',
      columns: { ...seriesComments, ranges: 'Proven ranges.' },
    },
    'recorder_page.gap': {
      kind: 'view',
      comment: 'recorder.gap for the page: known gaps.',
      columns: {
        ...seriesComments,
        range: 'The time that is missing.',
        reason: 'Why.',
        state: 'open, repaired or lost.',
        detected_at: 'When it was found.',
      },
    },
  })
}
