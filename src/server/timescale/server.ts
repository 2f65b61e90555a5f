import { type Kysely, sql } from 'kysely'
import type { Database } from '../../db/schema.js'
import type { ServiceMs } from '../../market/values.js'
import { counted } from '../../runtime/text.js'

interface ServerInfo {
  readonly kind: ServerKind
  /** Version of PostgreSQL, such as `17.6`. */
  readonly serverVersion: string
  /** Version of the extension in this database. */
  readonly timescaleVersion?: string
}

export type ServerKind = 'timescale-community' | 'timescale-apache' | 'postgresql'

/** Detects the kind of server. It is TimescaleDB if the extension exists in this database. */
export async function detectServer(db: Kysely<Database>): Promise<ServerInfo> {
  const { rows } = await sql<{ server: string; timescale: string | null; license: string | null }>`
    select split_part(current_setting('server_version'), ' ', 1) as server,
      (select extversion from pg_extension where extname = 'timescaledb') as timescale,
      current_setting('timescaledb.license', true) as license`.execute(db)
  const { server = '', timescale = null, license = null } = rows[0] ?? {}
  if (timescale === null) return { kind: 'postgresql', serverVersion: server }
  return { kind: kindOf(license), serverVersion: server, timescaleVersion: timescale }
}

/** Returns true if tables that grow with time are in chunks. With a new extension they are plain until the next start. */
export async function hasHypertables(db: Kysely<Database>): Promise<boolean> {
  if ((await detectServer(db)).kind === 'postgresql') return false
  const { rows } = await sql`
    select from timescaledb_information.hypertables where hypertable_schema = 'market' limit 1`.execute(db)
  return rows.length > 0
}

/** Reads when the chunks of a market table end that lie wholly before a time, from the oldest. */
export async function readChunkEnds(db: Kysely<Database>, table: string, before: ServiceMs): Promise<ServiceMs[]> {
  const { rows } = await sql<{ end: ServiceMs }>`
    select distinct range_end as "end" from timescaledb_information.chunks
    where hypertable_schema = 'market' and hypertable_name = ${table}
      and range_end <= ${new Date(before)}::timestamptz
    order by 1`.execute(db)
  return rows.map(({ end }) => end)
}

/** Returns true if the extension is installed, its library is loaded, and the current role may create it. */
export async function canCreateExtension(db: Kysely<Database>): Promise<boolean> {
  const { rows } = await sql<{ isPossible: boolean }>`
    select
      -- The setting exists only if the server has loaded the library. Otherwise creating the extension would fail.
      current_setting('timescaledb.disable_load', true) is not null
      and exists (
        select from pg_available_extension_versions
        where name = 'timescaledb' and (
          (select rolsuper from pg_roles where rolname = current_user)
          or (trusted and has_database_privilege(current_database(), 'create'))
        )
      ) as "isPossible"`.execute(db)
  return rows[0]?.isPossible === true
}

function kindOf(license: string | null): ServerKind {
  return license === 'apache' ? 'timescale-apache' : 'timescale-community'
}

/** Oldest version with the columnstore's present names, refreshes without a beginning, and their options. */
const oldestCommunity = [2, 21] as const

/** Returns the kind of a server. Throws if a Community edition is too old for the recorder's features. */
export function supportedKind({ kind, timescaleVersion = '' }: ServerInfo): ServerKind {
  const [major = 0, minor = 0] = timescaleVersion.split('.').map(Number)
  const [oldestMajor, oldestMinor] = oldestCommunity
  const isOld = major < oldestMajor || (major === oldestMajor && minor < oldestMinor)
  if (kind !== 'timescale-community' || !isOld) return kind
  throw new Error(
    `TimescaleDB ${timescaleVersion} is too old; install ${oldestCommunity.join('.')} or newer and run "alter extension timescaledb update"`,
  )
}

/** Room for locks, and the largest need of a statement. */
interface LockRoom {
  /** Number of locks that the server has room for. */
  readonly room: number
  /** Number of locks for reading the largest market table: one per table and index of each chunk. */
  readonly largest: number
}

/** A chunk in the columnstore has a second table, with an index of its own. */
const locksOfColumnstore = 2

/** Reads the server's room for locks, and the number of locks that the largest market table needs. */
export async function readLockRoom(db: Kysely<Database>): Promise<LockRoom> {
  const { rows } = await sql<{ name: string; locks: number }>`
    select p.relname as name, sum(1 + (select count(*) from pg_index where indrelid = inhrelid))::int as locks
    from pg_inherits
    join pg_class p on p.oid = inhparent
    join pg_namespace n on n.oid = p.relnamespace
    where nspname = 'market'
    group by 1`.execute(db)
  const converted = await readConvertedChunks(db)
  const { rows: settings } = await sql<{ room: number }>`
    select current_setting('max_locks_per_transaction')::int
      * (current_setting('max_connections')::int + current_setting('max_prepared_transactions')::int) as room`.execute(
    db,
  )
  const needs = rows.map(({ name, locks }) => locks + locksOfColumnstore * (converted.get(name) ?? 0))
  return { room: settings[0]?.room ?? 0, largest: Math.max(0, ...needs) }
}

/** Counts the chunks of each market table that are in the columnstore. */
async function readConvertedChunks(db: Kysely<Database>): Promise<ReadonlyMap<string, number>> {
  if ((await detectServer(db)).kind !== 'timescale-community') return new Map()
  const { rows } = await sql<{ name: string; count: number }>`
    select hypertable_name as name, count(*)::int as count from timescaledb_information.chunks
    where hypertable_schema = 'market' and is_compressed group by 1`.execute(db)
  return new Map(rows.map(({ name, count }) => [name, count]))
}

/** How the server's own jobs fare, which convert chunks and refresh rollups. */
export interface Jobs {
  readonly count: number
  /** Number of jobs whose last run failed or broke off. */
  readonly failed: number
  /** Number of jobs that have been due for half an hour and do not run. */
  readonly late: number
  /** Number of background workers that the server can run at once, for everything. */
  readonly workers: number
  /** True if these versions of PostgreSQL and TimescaleDB are known to fail every job. */
  readonly isFailingPair: boolean
}

/** With these, TimescaleDB's jobs do their work and then fail at their end. Seen in November 2026. */
const failingPair = { serverVersion: '17.12', timescaleVersion: '2.29.2' } as const

/**
 * Reads how the jobs of the recorder's tables fare; null where the server has no such jobs. Any login may read it. Only
 * the owner of a job sees its state in `job_stats`, so running jobs are found by the name of their session.
 */
export async function readJobs(db: Kysely<Database>): Promise<Jobs | null> {
  const { kind, serverVersion, timescaleVersion } = await detectServer(db)
  if (kind !== 'timescale-community') return null
  const { rows } = await sql<Omit<Jobs, 'isFailingPair'>>`
    select count(*)::int as count,
      (count(*) filter (where s.last_run_status = 'Failed' or s.last_run_status is null
        and isfinite(s.last_run_started_at) and s.last_run_started_at < now() - interval '1 minute' and session.pid is null))::int as failed,
      (count(*) filter (where session.pid is null and isfinite(coalesce(j.next_start, j.initial_start))
        and coalesce(j.next_start, j.initial_start) < now() - interval '30 minutes'))::int as late,
      current_setting('max_worker_processes')::int as workers
    from timescaledb_information.jobs j
    left join timescaledb_information.job_stats s on s.job_id = j.job_id
    left join lateral (
      select a.pid from pg_stat_activity a
      where a.datname = current_database() and a.application_name = j.application_name limit 1
    ) as session on true
    where j.hypertable_schema in ('market', 'recorder')`.execute(db)
  const [jobs] = rows
  if (jobs === undefined || jobs.count === 0) return null
  const isFailingPair = serverVersion === failingPair.serverVersion && timescaleVersion === failingPair.timescaleVersion
  return { ...jobs, isFailingPair }
}

/** Says in a sentence which jobs do not work, what that harms and what to do; null if all work. */
export function jobsProblem({ count, failed, late, isFailingPair }: Jobs): string | null {
  const all = counted(count, 'job')
  const found = [
    ...(failed > 0 ? [`${failed} of ${all} of TimescaleDB failed at their last run`] : []),
    ...(late > 0 ? [`${late} of ${all} of TimescaleDB have been due for half an hour and do not run`] : []),
  ]
  const { serverVersion, timescaleVersion } = failingPair
  const pair = `PostgreSQL ${serverVersion} with TimescaleDB ${timescaleVersion}`
  if (isFailingPair) found.push(`${pair} fails each job at its end; use another minor version of either`)
  if (found.length === 0) return null
  const todo = [
    ...(failed > 0 && !isFailingPair ? ['timescaledb_information.job_errors says why'] : []),
    ...(late > 0 ? ['raise max_worker_processes, or see whether the background workers were stopped'] : []),
  ]
  return [`${found.join('; ')}: chunks may stay unconverted, and rollups old`, ...todo].join('; ')
}
