import { type Kysely, sql } from 'kysely'
import { commentOn, keyComments } from './comments.js'

/** The recorders of this database: their service, the owner of each address, and the wants for the past. */
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
    -- Transactions lock these rows. The row of a session's lock lasts as long as the lock.
    insert into recorder.lock (name) values ('wants'), ('archive');

    create sequence recorder.lease_epoch;
    -- Rows are renewed twice a second, in place.
    create table recorder.lease (
      egress text primary key check (egress <> ''),
      owner text,
      epoch bigint not null,
      until timestamptz not null,
      waited_until timestamptz,
      place text not null,
      fleet text,
      weight integer check (weight > 0),
      spool text
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
        place: 'Always empty.',
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
        spool: 'Host and folder in which the last owner keeps what waits for the database.',
      },
    },
  })

  await sql`
    create table recorder.want (
      id bigint generated always as identity primary key,
      stream text not null check (stream <> ''),
      category market.category not null,
      symbol text not null check (symbol <> ''),
      -- Type and interval are empty for streams without them, as in recorder.known.
      type text not null default '' check (type = '' or type::market.candle_type is not null),
      interval text not null default '' check (interval = '' or interval::market.candle_interval is not null),
      kind text not null check (kind in ('repair', 'backfill', 'review')),
      ranges tstzmultirange not null check (not isempty(ranges)),
      done tstzmultirange not null default '{}',
      floor timestamptz not null,
      again boolean not null default false,
      is_urgent boolean not null default false,
      has_open_beginning boolean not null default false,
      next_to timestamptz,
      requested_at timestamptz not null default now(),
      retry_at timestamptz not null default '-infinity',
      ended_at timestamptz,
      problem text,
      failure text,
      requests bigint not null default 0,
      received bigint not null default 0,
      inserted bigint not null default 0,
      updated bigint not null default 0
    );
    create index want_open on recorder.want (stream, category, symbol, type, interval) where ended_at is null;
    create index want_ended on recorder.want (ended_at);

    create table recorder.slice (
      id bigint generated always as identity primary key,
      want_id bigint not null references recorder.want on delete cascade,
      ranges tstzmultirange not null check (not isempty(ranges)),
      leased_by text not null,
      leased_until timestamptz not null,
      taken_at timestamptz not null default now()
    );
    create index slice_want on recorder.slice (want_id);

    create table recorder.candle_reach (
      category market.category not null,
      type market.candle_type not null,
      interval market.candle_interval not null,
      age interval not null,
      learned_at timestamptz not null default now(),
      primary key (category, type, interval)
    );
  `.execute(db)

  await commentOn(db, {
    'recorder.want': {
      kind: 'table',
      comment:
        'Rows of the past that somebody asked for. Missing of them is: ranges - done - coverage - empty ranges; with again, ' +
        'ranges - done. Kept for a week after they end.',
      columns: {
        id: 'Number of the want.',
        stream: 'What is wanted, named as the table that holds it.',
        ...keyComments,
        type: 'Candles: market, mark, index or premium; empty otherwise.',
        interval: 'Candles: length as the service names it; empty otherwise.',
        kind: 'repair: a gap of the recording. backfill: history that was asked for. review: a second look at what is known.',
        ranges: 'Times that are wanted, half-open; of candles, their opening times.',
        done: 'Of these, what has been asked for since, whatever came of it.',
        floor: 'Begin of everything that was asked for: older rows are of no interest.',
        again: 'Whether what is covered is read once more.',
        is_urgent: 'Whether the instrument is about to be delisted.',
        has_open_beginning: 'Whether floor is where we stop looking and not where the instrument was launched.',
        next_to: 'Review: end of the stretch that comes next; NULL for one out of turn.',
        requested_at: 'When it was asked for.',
        retry_at: 'Not worked on before this time.',
        ended_at:
          'When nothing was missing any more, or everything missing had been asked for; NULL while there is work.',
        problem: 'Why the last attempt was broken off, to be repeated; NULL after one that was not.',
        failure: 'Why the service refuses some of it for good; NULL when it does not.',
        requests: 'Requests made for it.',
        received: 'Rows received; of candles, closed ones.',
        inserted: 'Of these, new ones.',
        updated: 'Of these, ones that were stored with other values before.',
      },
    },
    'recorder.slice': {
      kind: 'table',
      comment:
        'What workers fetch at this moment. A slice is leased to its worker, which extends the lease; when that ends, the slice is ' +
        'missing again.',
      columns: {
        id: 'Number of the slice.',
        want_id: 'The want that it is a part of.',
        ranges: 'Times that are being fetched, half-open.',
        leased_by: 'Host, process and name of the worker that fetches it.',
        leased_until: 'When it is missing again, unless the worker extends the lease.',
        taken_at: 'When it was taken.',
      },
    },
    'recorder.candle_reach': {
      kind: 'table',
      comment: 'How far back the operation candles was seen to respond; what is older comes from history-candles.',
      columns: {
        category: keyComments.category,
        type: 'What the candles are made of: market, mark, index or premium.',
        interval: 'Length of the candles, as the service names it.',
        age: 'Age of an opening time at which history-candles had a candle and it had none.',
        learned_at: 'When this was last learned. It is learned anew after an hour.',
      },
    },
  })
}
