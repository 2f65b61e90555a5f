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

    create sequence recorder.lease_epoch;
    -- Renewed twice a second in place.
    create table recorder.lease (
      egress text primary key check (egress <> ''),
      owner text,
      epoch bigint not null,
      until timestamptz not null,
      waited_until timestamptz,
      place text not null,
      fleet text,
      weight integer check (weight > 0)
    ) with (fillfactor = 50);
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
    'recorder.lease': {
      kind: 'table',
      comment:
        'The right to send requests from an address: one recorder at a time has it, and renews it twice a second. Recorders see by ' +
        'it who else is there.',
      columns: {
        egress: 'Name of the IP address that requests leave from (collector.egress).',
        owner: 'The recorder that has it, by its host, process and a random number; NULL when it was given back.',
        epoch: 'A new number for each owner.',
        until: 'When it ends unless it is renewed: 3.5 s after the last renewal.',
        waited_until: 'Until then another recorder waits for it; NULL when none ever did.',
        place: 'Where the owner runs: host, process and address that it sends from.',
        fleet:
          'Digest of the configuration of the streams: recorders with the same one share the work. NULL for one that takes no part.',
        weight: 'Requests a minute that the service allows the address.',
      },
    },
  })
}
