import { type Kysely, sql } from 'kysely'
import { commentOn } from './comments.js'

/** The recorders of this database: which service they record, who sends from which address, and who requests what. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table recorder.service (
      is_only boolean primary key default true check (is_only),
      base_url text not null check (base_url <> ''),
      noted_at timestamptz not null default now(),
      rollups_final_before timestamptz
    );

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
    -- Rows that transactions lock; a lock of a session comes and goes with its row.
    insert into recorder.lock (name) values ('rpi-symbols'), ('candle wants'), ('archive');

    create table recorder.egress (
      egress text primary key check (egress <> ''),
      owner text not null check (owner <> ''),
      held_since timestamptz not null,
      released_at timestamptz,
      fleet text,
      budget integer check (budget > 0),
      place text,
      heartbeat_at timestamptz
    );

    create table recorder.fleet (
      fleet text primary key check (fleet <> ''),
      version bigint not null,
      members jsonb not null,
      placements jsonb not null,
      changed_at timestamptz not null
    );
  `.execute(db)
  await commentOn(db, {
    'recorder.service': {
      kind: 'table',
      comment: 'The service whose data is in this database: one row, from the first start on.',
      columns: {
        is_only: 'Always true: there is one row.',
        base_url: 'Its address, as configured. Recording from another host is refused unless that is accepted.',
        noted_at: 'When the address was noted.',
        rollups_final_before:
          'Candles from before this time were removed for their age; their rollups stay as they are. Null: none were.',
      },
    },
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
      comment:
        'Which recorder owns the request budget of an egress IP, or owned it last (recorder.lock decides), and whether it takes ' +
        'part in the recording.',
      columns: {
        egress: 'Name of the IP address that requests leave from (collector.egress).',
        owner: 'The recorder, by its host, process and a random number.',
        held_since: 'When it took the budget.',
        released_at: 'When it gave the budget up; NULL while it has it, and when it ended without doing so.',
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
