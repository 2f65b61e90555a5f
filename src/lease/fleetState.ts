import { lockNames } from '../db/locks/names.js'
import { holds, type RunQuery } from '../db/locks/sessionLock.js'

/** What a recorder says of itself to those that it shares the work with. */
export interface FleetEntry {
  /** Whom it shares with: a name that all of them have. */
  readonly fleet: string
  /** Requests a minute that the service allows its address. */
  readonly budget: number
  /** Where it runs, for a person. */
  readonly place: string
}

/** A recorder as the others see it. */
export interface SeenRecorder {
  readonly egress: string
  readonly budget: number
  readonly place: string
  /** How long ago it last said that it is there, by the database's clock. */
  readonly silentMs: number
  /**
   * Whether the session is there that holds its address: the server ends that of a process that dies at once. True for one that
   * spoke a moment ago, without a look.
   */
  readonly hasSession: boolean
}

/** A recorder that shares the work, by the address that it sends from. */
export interface FleetMember {
  /** Name of the address: collector.egress. */
  readonly egress: string
  /** What it can do: requests a minute that the service allows its address. Above 0. */
  readonly weight: number
}

/** What is known of a fleet at one moment. */
export interface FleetSight {
  /** Of the stored assignment; 0 while there is none. */
  readonly version: number
  readonly members: readonly FleetMember[]
  /** Those that record, and those that ended without a word within a day. */
  readonly recorders: readonly SeenRecorder[]
}

/** Instruments that are not where their hash puts them: by stream, the address of each "CATEGORY SYMBOL". */
export type StoredPlacements = Readonly<Record<string, Readonly<Record<string, string>>>>

export interface StoredAssignment {
  readonly version: number
  readonly members: readonly FleetMember[]
  readonly placements: StoredPlacements
}

/** Told on this channel whenever somebody ends or the assignment changes. */
export const fleetChannel = 'market_recorder_fleet'

/** Looks who is there. */
export async function lookAround(run: RunQuery, fleet: string): Promise<FleetSight> {
  return sightOf(await run(sightSql, [fleet]))
}

/** Says that this recorder is there, and looks who else is. One statement: a recorder without others does it all day long. */
export async function sayAndLook(run: RunQuery, egress: string, owner: string, fleet: string): Promise<FleetSight> {
  const said = 'with said as (update recorder.egress set heartbeat_at = now() where egress = $2 and owner = $3)'
  return sightOf(await run(`${said} ${sightSql}`, [fleet, egress, owner]))
}

/** Sessions of those alone are looked for that might be gone: the list of all sessions is long where there are many recorders. */
const sightSql = `
     select coalesce(f.version, 0)::float8 as version, coalesce(f.members, '[]') as members, (
       select coalesce(json_agg(json_build_object('egress', e.egress, 'budget', e.budget, 'place', e.place,
         'silentMs', round(extract(epoch from now() - e.heartbeat_at) * 1000),
         'hasSession', case when e.heartbeat_at > now() - interval '1.5 s' then true
           when e.heartbeat_at < now() - interval '30 s' then false
           else exists (select from recorder.lock l where l.name = '${lockNames.egress('')}' || e.egress and l.place = '' and ${holds('l')})
         end) order by e.egress), '[]')
       from recorder.egress e where e.fleet = $1 and e.heartbeat_at > now() - interval '1 day'
     ) as recorders
     from (values (1)) as always left join recorder.fleet f on f.fleet = $1`

function sightOf({ rows }: { readonly rows: readonly unknown[] }): FleetSight {
  const [sight] = rows as readonly FleetSight[]
  if (sight === undefined) throw new Error('the database returned no row about the fleet')
  return sight
}

/** The stored assignment; null while there is none. */
export async function readAssignment(run: RunQuery, fleet: string): Promise<StoredAssignment | null> {
  const { rows } = await run(
    'select version::float8 as version, members, placements from recorder.fleet where fleet = $1',
    [fleet],
  )
  return (rows as readonly StoredAssignment[])[0] ?? null
}

/** Stores an assignment unless somebody else was faster, and tells all. @param before the version that it follows on; 0 for none */
export async function storeAssignment(
  run: RunQuery,
  fleet: string,
  before: number,
  { members, placements }: Omit<StoredAssignment, 'version'>,
): Promise<boolean> {
  const { rows } = await run(
    `with changed as (
       insert into recorder.fleet as known (fleet, version, members, placements, changed_at)
       values ($1, $2::bigint + 1, $3, $4, now())
       on conflict (fleet) do update
         set version = excluded.version, members = excluded.members, placements = excluded.placements, changed_at = now()
         where known.version = $2::bigint
       returning version
     )
     select pg_notify('${fleetChannel}', $1) from changed`,
    [fleet, before, JSON.stringify(members), JSON.stringify(placements)],
  )
  return rows.length > 0
}

/** Says that this recorder asks for nothing any more, so that the others need not wait for its silence. */
export async function sayGoodbye(run: RunQuery, egress: string, owner: string): Promise<void> {
  await run(
    `with gone as (
       update recorder.egress set heartbeat_at = null where egress = $1 and owner = $2 and heartbeat_at is not null
       returning coalesce(fleet, '') as fleet
     )
     select pg_notify('${fleetChannel}', fleet) from gone`,
    [egress, owner],
  )
}

/**
 * Ends the session of an owner that has been silent for too long while the server is there: a process that was stopped keeps
 * its connection, and with it an address that it does not use. One that has just taken over keeps still before it begins, and the
 * last sign of its predecessor is old: its lock has to be as old. Returns whether there was one.
 */
export async function endSilentOwner(run: RunQuery, egress: string, lock: string, silentMs: number): Promise<boolean> {
  const { rows } = await run(
    `select pg_terminate_backend(s.pid) as ended
     from recorder.egress e
     join recorder.lock l on l.name = $2 and l.place = ''
     join pg_stat_activity s on s.pid = l.pid and s.usesysid = l.login and s.application_name = l.session
     where e.egress = $1 and e.heartbeat_at > e.held_since
       and greatest(e.heartbeat_at, l.taken_at) < now() - make_interval(secs => $3::float8 / 1000)`,
    [egress, lock, silentMs],
  )
  return rows.length > 0
}
