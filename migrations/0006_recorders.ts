import { type Kysely, sql } from 'kysely'
import { createTables, key } from './relations.js'

const tables = {
  'recorder.service': `
    -- The service whose data is in this database: one row, from the first start on.
    is_only boolean primary key default true check (is_only) -- Always true: there is one row.
    base_url text not null check (base_url <> '')
      -- Its address, as configured. Recording from another host is refused unless that is accepted.
    noted_at timestamptz not null default now() -- When the address was noted.`,
  'recorder.final_rollups': `
    -- The time before which rollups outlive their candles. There is no row until candles are dropped for their age.
    is_only boolean primary key default true check (is_only) -- Always true: there is at most one row.
    before timestamptz not null -- No refresh reads candles from before this time.`,
  'recorder.lock': `
    -- Locks of the recorder. One that a session holds names that session and counts for as long as the session is
    -- there; of the others the row itself is locked by a transaction.
    name text primary key check (name <> '') -- What is locked.
    pid integer -- Server process of the session that holds it, as in pg_stat_activity; NULL for a lock of transactions.
    login oid -- Login of that session, as pg_stat_activity.usesysid.
    session text -- Name of that session, as pg_stat_activity.application_name.
    holder text -- Host and process that the session belongs to.
    taken_at timestamptz -- When it was taken.`,
  'recorder.lease': `
    -- The right to send requests from an address: one recorder at a time has it, and renews it twice a second.
    -- Recorders see by it who else is there.
    egress text primary key check (egress <> '') -- Name of the IP address that requests leave from (collector.egress).
    owner text -- The recorder that has it, by its host, process and a random number; NULL when it was given back.
    epoch bigint not null -- A new number for each owner.
    until timestamptz not null -- When it ends unless it is renewed: 3.5 s after the last renewal.
    waited_until timestamptz -- Until then another recorder waits for it; NULL when none ever did.
    service_time timestamptz -- The service's clock at the last renewal; NULL when the owner has not heard it yet.
    place text not null -- Where the owner runs: host, process and address that it sends from.
    fleet text
      -- Digest of the configuration of the streams: recorders with the same one share the work. NULL for one that takes
      -- no part.
    weight integer check (weight > 0) -- Requests a minute that the service allows the address.
    spool text -- Host and folder in which the last owner keeps what waits for the database.`,
  'recorder.want': `
    -- Rows of the past that somebody asked for. A range is open until it is recorded, known to be empty, or requested
    -- in vain. With again, recorded ranges are requested too. A want is kept for a week after it has ended.
    id bigint generated always as identity primary key -- Number of the want.
    stream text not null check (stream <> '') -- What is wanted, named as the table that holds it.
    ${key}
    type text not null default '' check (type = '' or type::market.candle_type is not null)
      -- Candles: market, mark, index or premium; empty otherwise.
    interval text not null default '' check (interval = '' or interval::market.candle_interval is not null)
      -- Candles: length as the service names it; empty otherwise.
    kind text not null check (kind in ('repair', 'backfill', 'review'))
      -- repair: a gap of the recording. backfill: history that was asked for. review: a second look at what is known.
    ranges tstzmultirange not null check (not isempty(ranges))
      -- Times that are wanted, half-open; of candles, their opening times.
    done tstzmultirange not null default '{}' -- The part of ranges that was requested since, with any result.
    refused tstzmultirange not null default '{}' -- The part of done that the service refused.
    floor timestamptz not null -- Begin of everything that was asked for. Earlier rows are not needed.
    again boolean not null default false -- True if proven ranges are read once more.
    is_urgent boolean not null default false -- True if the instrument is about to be delisted.
    has_open_beginning boolean not null default false
      -- True if floor is where the search ends, and not the launch of the instrument.
    next_to timestamptz -- Review: end of the stretch that comes next; NULL for one out of turn.
    requested_at timestamptz not null default now() -- When it was asked for.
    retry_at timestamptz not null default '-infinity' -- Not worked on before this time.
    ended_at timestamptz
      -- When nothing was missing any more, or everything missing had been asked for; NULL while there is work.
    problem text -- Why the last attempt was interrupted, which is then repeated; NULL otherwise.
    failure text -- Why the service refuses some of it for good; NULL when it does not.
    requests bigint not null default 0 -- Requests made for it.
    received bigint not null default 0 -- Rows received; of candles, closed ones.
    inserted bigint not null default 0 -- New ones among the received rows.
    updated bigint not null default 0 -- Received rows that were stored with other values before.`,
  'recorder.slice': `
    -- What workers fetch at this moment. A slice is leased to its worker, which extends the lease; when that ends, the
    -- slice is missing again.
    id bigint generated always as identity primary key -- Number of the slice.
    want_id bigint not null references recorder.want on delete cascade -- The want that it is a part of.
    ranges tstzmultirange not null check (not isempty(ranges)) -- Times that are being fetched, half-open.
    leased_by text not null -- Host, process and name of the worker that fetches it.
    leased_until timestamptz not null -- When it is missing again, unless the worker extends the lease.
    taken_at timestamptz not null default now() -- When it was taken.`,
}

/** The recorders of this database: their service, the owner of each address, and the wants for the past. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await createTables(db, tables)
  await sql`
    -- Transactions lock these rows. The row of a session's lock lasts as long as the lock.
    insert into recorder.lock (name) values ('wants'), ('archive');

    create sequence recorder.lease_epoch;
    -- Rows are renewed twice a second, in place.
    alter table recorder.lease set (fillfactor = 50);

    create index want_open on recorder.want (stream, category, symbol, type, interval) where ended_at is null;
    create index want_ended on recorder.want (ended_at);
    create index slice_want on recorder.slice (want_id);
  `.execute(db)
}
