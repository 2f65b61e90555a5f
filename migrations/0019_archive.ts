import { type Kysely, sql } from 'kysely'
import { commentOn } from './comments.js'

/** Which days are in the archive, so that what did not change since is not looked at again. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table recorder.archived_day (
      table_name text not null check (table_name <> ''),
      day date not null,
      version integer not null check (version > 0),
      rows bigint not null,
      digest text not null,
      proof_digest text not null,
      archived_at timestamptz not null default now(),
      removed_at timestamptz,
      primary key (table_name, day)
    );
    -- Revisions of a day, whatever the instrument.
    create index candle_revision_open_time on recorder.candle_revision (open_time);
    insert into recorder.lock (name) values ('archive') on conflict do nothing`.execute(db)
  await commentOn(db, {
    'recorder.archived_day': {
      kind: 'table',
      comment:
        'A day of a table that is in the archive, read back and found equal. The archive itself has the whole proof.',
      columns: {
        table_name: 'Table of schema market.',
        day: 'The day, UTC.',
        version: 'Version of the day in the archive, from 1.',
        rows: 'Rows that it has.',
        digest: 'SHA-256 of the digests of its rows by category.',
        proof_digest: 'SHA-256 of the coverage, gaps, ranges without a trade and revisions that were archived with it.',
        archived_at: 'When this version was written.',
        removed_at: 'When its rows were removed from the database for their age; NULL while they are here.',
      },
    },
  })
}
