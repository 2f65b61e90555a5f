import type { Kysely } from 'kysely'
import pg from 'pg'
import { isReached } from '../db/columns.js'
import type { RunQuery } from '../db/database.js'
import { traitsOf } from '../db/databaseError.js'
import type { Database } from '../db/schema.js'
import type { ServiceMs } from '../market/values.js'
import { leaseMs } from './right.js'

/** A recorder that wants the row of an address. */
interface Claimant {
  readonly egress: string
  readonly owner: string
  /** Where the recorder runs, as text for people. That of a command begins with `commandPlace`. */
  readonly place: string
  /** True to leave a row that a recorder gave back to recorders, and to take it only in the state that was seen. */
  readonly yieldsToRecorders: boolean
}

/** Begin of a command's place. It stays in the row that a command gave back. No host name has a space. */
export const commandPlace = 'command on'

/** The lease of a recorder that shares the work, as the others read it. */
export interface FleetLease {
  readonly egress: string
  /** Requests a minute that the service allows the recorder's address. */
  readonly weight: number
  readonly place: string
  /** Changes with each renewal. */
  readonly stamp: Stamp
  /** Time since the recorder's last renewal by the database's clock, which may have been set since. */
  readonly ageMs: number
}

/** Part of a recorder in shared work, as its lease needs it. */
export interface Sharing {
  /** Digest of the configured streams. Recorders of one database with equal digests share the work. */
  readonly streamsDigest: string
  /** Requests a minute that the service allows this recorder's address. */
  readonly weight: number
  readonly place: string
  /** Returns true if the other recorders can rely on this one for its part of the work. */
  takesPart(): boolean
  /**
   * Called about once a second with the leases of the fleet.
   *
   * @param connectedMs time since the connection to the database was opened
   */
  onFleetRead(leases: readonly FleetLease[], connectedMs: number): void
}

/** State of a row as text. Each renewal and each owner changes it. `absent`: no row. See `isFree`, too. */
type Stamp = string

/** Begin of the state of a row that was given back. */
const free = 'given back'

export function isFree(stamp: Stamp): boolean {
  return stamp.startsWith(`${free} `)
}

const isCommand = (place: string) => `${place} like '${commandPlace} %'`
const end = `now() + interval '${leaseMs} milliseconds'`
/** A time far ahead is older, because the database's clock was set back since. */
const isWaitedFor = (row: string) =>
  `coalesce(${row}.waited_until > now() and ${row}.waited_until < now() + interval '${2 * leaseMs} milliseconds', false)`

/**
 * Takes a row that was given back, or that is still in the state `seen`. A claimant that yields to recorders takes a row
 * that was given back only from a command, and while no recorder waits. A missing row can be taken if it is the first of
 * this database. A row that a command takes forgets who waited: recorders note it anew, commands do not. Resolves to the
 * row's epoch and to whether another recorder waits for it. Resolves to null if the row cannot be taken.
 */
export async function takeRow(
  run: RunQuery,
  { egress, owner, place, yieldsToRecorders }: Claimant,
  seen: Stamp | null,
): Promise<{ readonly epoch: string; readonly isWaitedFor: boolean } | null> {
  // The commit must be durable before anybody sends. After a server crash, the row must not belong to its former owner.
  const { rows } = await run(
    `insert into recorder.lease as known (egress, owner, epoch, until, place)
     select $1, $2, nextval('recorder.lease_epoch'), ${end}, $3
     where $4 = 'absent' or not (select is_called from recorder.lease_epoch)
       or exists (select from recorder.lease where egress = $1)
     on conflict (egress) do update
       set owner = excluded.owner, epoch = excluded.epoch, until = excluded.until, place = excluded.place, fleet = null,
         service_time = null,
         waited_until = case when ${isCommand('excluded.place')} then null else known.waited_until end
       where ${stampOf('known')} = $4 or (known.owner is null and (not $5::boolean
         or (${isCommand('known.place')} and not ${isWaitedFor('known')})))
     returning epoch::text, ${isWaitedFor('known')} as waited, set_config('synchronous_commit', 'on', true)`,
    [egress, owner, place, seen ?? '', yieldsToRecorders],
  )
  const [row] = rows as readonly { readonly epoch: string; readonly waited: boolean }[]
  return row === undefined ? null : { epoch: row.epoch, isWaitedFor: row.waited }
}

/**
 * Notes that another recorder waits for the row. Nobody notes that a command waits for the row of a command. Resolves to
 * the state of the row.
 */
export async function lookAtRow(run: RunQuery, { egress, place }: Claimant): Promise<Stamp> {
  const { rows } = await run(
    `update recorder.lease set waited_until =
       case when ${isCommand('$2::text')} and ${isCommand('place')} then waited_until else ${end} end
     where egress = $1
     returning ${stampOf('lease')} as stamp, set_config('synchronous_commit', 'off', true)`,
    [egress, place],
  )
  const [row] = rows as readonly { readonly stamp: Stamp }[]
  return row?.stamp ?? 'absent'
}

/** Values that a recorder sends with a renewal: its part in the work, and the group of recorders to list. */
interface Part {
  /** Fleet that the recorder shares the work with; null while it takes no part. */
  readonly fleet: string | null
  readonly weight: number | null
  /** Fleet whose recorders the renewal lists; null at most renewals, because a list costs more. */
  readonly listedFleet: string | null
  /** The time of the service, which commands beside the owner read; null before its first response. */
  readonly serviceTime: ServiceMs | null
}

interface Renewed {
  readonly isWaitedFor: boolean
  readonly fleet: readonly FleetLease[]
}

/** Renews the owner's row. Resolves to null if the owner no longer holds it. */
export async function renewRow(
  run: RunQuery,
  { egress, owner }: Claimant,
  epoch: string,
  { fleet, weight, listedFleet, serviceTime }: Part,
): Promise<Renewed | null> {
  const { rows } = await run(
    `with mine as (
       update recorder.lease set until = ${end}, fleet = $4, weight = $5, service_time = to_timestamp($7::float8 / 1000)
       where egress = $1 and owner = $2 and epoch = $3
       returning ${isWaitedFor('lease')} as waited, set_config('synchronous_commit', 'off', true))
     select waited, (
       select coalesce(json_agg(json_build_object('egress', egress, 'weight', weight, 'place', place,
         'stamp', ${stampOf('lease')}, 'ageMs', greatest(0, round(extract(epoch from now() - until) * 1000) + ${leaseMs})) order by egress), '[]')
       from recorder.lease where fleet = $6 and until > now() - interval '1 day') as leases
     from mine`,
    [egress, owner, epoch, fleet, weight, listedFleet, serviceTime],
  )
  const [row] = rows as readonly { readonly waited: boolean; readonly leases: readonly FleetLease[] }[]
  return row === undefined ? null : { isWaitedFor: row.waited, fleet: row.leases }
}

/** Gives the row back, so that the next recorder need not wait. */
export async function releaseRow(run: RunQuery, { egress, owner }: Claimant): Promise<void> {
  await run('update recorder.lease set owner = null, until = now(), fleet = null where egress = $1 and owner = $2', [
    egress,
    owner,
  ])
}

/** Returns SQL for a `Stamp`. */
function stampOf(row: string): string {
  return `coalesce(${row}.owner || ' ' || ${row}.epoch || ' ' || extract(epoch from ${row}.until), '${free} ' || ${row}.epoch)`
}

/** Returns what holds the address at this moment; null if nothing does. */
export async function leaseHolder(db: Kysely<Database>, egress: string): Promise<'recorder' | 'command' | null> {
  const held = await db
    .selectFrom('recorder.lease')
    .select('place')
    .where('egress', '=', egress)
    .where('owner', 'is not', null)
    .where(({ not }) => not(isReached('until', leaseMs)))
    .executeTakeFirst()
  if (held === undefined) return null
  return held.place.startsWith(`${commandPlace} `) ? 'command' : 'recorder'
}

/** Reads the time of the service as the owner of the address last heard it; null if it has heard none. */
export async function serviceTimeOfOwner(db: Kysely<Database>, egress: string): Promise<ServiceMs | null> {
  const lease = await db
    .selectFrom('recorder.lease')
    .select('service_time as time')
    .where('egress', '=', egress)
    .executeTakeFirst()
  return lease?.time ?? null
}

/** Returns true if the server sent the error and the connection can still be used. */
export function isReply(error: unknown): boolean {
  return error instanceof pg.DatabaseError && error.severity !== 'FATAL' && !traitsOf(error).isAway
}
