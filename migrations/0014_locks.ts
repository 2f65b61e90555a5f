import { type Kysely, sql } from 'kysely'
import { commentOn } from './comments.js'

/** Locks that need the right to write here: anybody who may connect can take an advisory lock. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table recorder.lock (
      name text not null check (name <> ''),
      place text not null default '',
      pid integer,
      login oid,
      session text,
      holder text,
      taken_at timestamptz,
      primary key (name, place)
    );
    insert into recorder.lock (name) values ('rpi-symbols'), ('queue');

    do $$
    begin
      if exists (select from pg_roles where rolname = 'recorder_writer') then
        grant select, insert, update, delete on recorder.lock, recorder.egress to recorder_writer;
      end if;
    end
    $$`.execute(db)
  await commentOn(db, {
    'recorder.lock': {
      kind: 'table',
      comment:
        'Locks of the recorder. One that a session holds names that session and counts for as long as the session is there; ' +
        'of the others the row itself is locked by a transaction.',
      columns: {
        name: 'What is locked.',
        place: 'Empty for a lock that one holds alone; each holder its own in one that many may hold.',
        pid: 'Server process of the session that holds it, as in pg_stat_activity; NULL for a lock of transactions.',
        login: 'Login of that session, as pg_stat_activity.usesysid.',
        session: 'Name of that session, as pg_stat_activity.application_name.',
        holder: 'Host and process that the session belongs to.',
        taken_at: 'When it was taken.',
      },
    },
    'recorder.egress': {
      kind: 'table',
      comment: 'Which recorder owns the request budget of an egress IP, or owned it last. recorder.lock decides.',
      columns: {},
    },
  })
}
