import { type Kysely, sql } from 'kysely'
import { commentOn } from './comments.js'

/** Recorders that share the work: who is there, and who asks for what. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    alter table recorder.egress
      add column fleet text,
      add column budget integer check (budget > 0),
      add column place text,
      add column heartbeat_at timestamptz;

    create table recorder.fleet (
      fleet text primary key check (fleet <> ''),
      version bigint not null,
      members jsonb not null,
      placements jsonb not null,
      changed_at timestamptz not null
    );

    do $$
    begin
      if exists (select from pg_roles where rolname = 'recorder_writer') then
        grant select, insert, update, delete on recorder.fleet to recorder_writer;
      end if;
    end
    $$`.execute(db)
  await commentOn(db, {
    'recorder.egress': {
      kind: 'table',
      comment:
        'Which recorder owns the request budget of an egress IP, or owned it last (recorder.lock decides), and whether it takes ' +
        'part in the recording.',
      columns: {
        fleet: 'Whom it shares the work with: all whose streams are configured alike. NULL for a command.',
        budget: 'Requests a minute that the service allows its address.',
        place: 'Where it runs: host, process and address that it sends from.',
        heartbeat_at:
          'When it last said that it is there, about once a second; after 5 s of silence others take over what it asked for. ' +
          'NULL for one that does not record, or said that it ends.',
      },
    },
    'recorder.fleet': {
      kind: 'table',
      comment:
        'Who asks for what, for recorders that share the work. An instrument belongs to the member that wins it by weighted ' +
        'rendezvous hashing, unless it is placed otherwise.',
      columns: {
        fleet: 'Digest of the configuration of the streams: recorders with the same one share.',
        version: 'Counts the changes.',
        members: 'The recorders that share: [{"egress": name, "weight": requests a minute}].',
        placements: 'Instruments that are not where their hash puts them: {stream: {"CATEGORY SYMBOL": egress}}.',
        changed_at: 'When it last changed.',
      },
    },
  })
}
