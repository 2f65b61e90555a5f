import { type Kysely, sql } from 'kysely'
import type { Database } from './schema.js'

export interface ServerInfo {
  readonly kind: 'timescale-community' | 'timescale-apache' | 'postgresql'
  /** As `17.6`. */
  readonly serverVersion: string
  /** Version of the extension in this database. */
  readonly timescaleVersion?: string
}

/** What of the configuration concerns the time-series features of a table. */
export interface TableSettings {
  /** Time span of one chunk, hours. */
  readonly chunkHours: number
}
export interface TimescaleSettings {
  readonly tickers: TableSettings
  readonly orderBooks: TableSettings
  readonly rpiOrderBooks: TableSettings
  readonly fills: TableSettings
  readonly candles: TableSettings
}

export interface ReconcileOptions {
  /** Only say what would change. */
  readonly dryRun?: boolean
  readonly settings: TimescaleSettings
}

interface TimeTable {
  readonly setting: keyof TimescaleSettings
  readonly name: string
  readonly timeColumn: string
}

const timeTables: readonly TimeTable[] = [
  { setting: 'tickers', name: 'tickers', timeColumn: 'ts' },
  { setting: 'orderBooks', name: 'order_books', timeColumn: 'ts' },
  { setting: 'rpiOrderBooks', name: 'rpi_order_books', timeColumn: 'ts' },
  { setting: 'fills', name: 'fills', timeColumn: 'ts' },
  { setting: 'candles', name: 'candles', timeColumn: 'open_time' },
]

/** Which of the servers this is. TimescaleDB counts when its extension exists in this database. */
export async function detectServer(db: Kysely<Database>): Promise<ServerInfo> {
  const { rows } = await sql<{ server: string; timescale: string | null; license: string | null }>`
    select split_part(current_setting('server_version'), ' ', 1) as server,
      (select extversion from pg_extension where extname = 'timescaledb') as timescale,
      current_setting('timescaledb.license', true) as license`.execute(db)
  const { server = '', timescale = null, license = null } = rows[0] ?? {}
  if (timescale === null) return { kind: 'postgresql', serverVersion: server }
  const kind = license === 'apache' ? 'timescale-apache' : 'timescale-community'
  return { kind, serverVersion: server, timescaleVersion: timescale }
}

/**
 * Brings the time-series features of a migrated database in line with the configuration. Returns what it changed (or would
 * change), one line each; empty when nothing is to do. On PostgreSQL without TimescaleDB there is nothing to do.
 */
export async function reconcile(db: Kysely<Database>, options: ReconcileOptions): Promise<string[]> {
  const isDryRun = options.dryRun === true
  const changes: string[] = []
  if ((await detectServer(db)).kind === 'postgresql') {
    if (!(await canCreateExtension(db))) return []
    changes.push('create extension timescaledb')
    if (isDryRun) return [...changes, ...timeTables.map(({ name }) => becomesHypertable(name))]
    await sql`create extension if not exists timescaledb`.execute(db)
  }
  for (const table of timeTables) {
    const change = await reconcileTable(db, table, options.settings[table.setting], isDryRun)
    if (change !== undefined) changes.push(change)
  }
  return changes
}

function becomesHypertable(name: string): string {
  return `make market.${name} a hypertable`
}

async function reconcileTable(
  db: Kysely<Database>,
  { name, timeColumn }: TimeTable,
  { chunkHours }: TableSettings,
  isDryRun: boolean,
): Promise<string | undefined> {
  const relation = sql`${`market.${name}`}::regclass`
  const chunk = sql`make_interval(hours => ${chunkHours}::int)`
  const { rows } = await sql<{ hours: number }>`
    select (extract(epoch from time_interval) / 3600)::float8 as hours from timescaledb_information.dimensions
    where hypertable_schema = 'market' and hypertable_name = ${name} and dimension_number = 1`.execute(db)
  const current = rows[0]?.hours
  if (current === chunkHours) return undefined
  if (current === undefined) {
    // No default index: the primary key serves every query of one instrument, and there are no others worth an index.
    if (!isDryRun) {
      await sql`
        select public.create_hypertable(${relation}, public.by_range(${timeColumn}, ${chunk}),
          migrate_data => true, create_default_indexes => false, if_not_exists => true)`.execute(db)
    }
    return becomesHypertable(name)
  }
  if (!isDryRun) await sql`select public.set_chunk_time_interval(${relation}, ${chunk})`.execute(db)
  return `change the chunks of market.${name} from ${current} to ${chunkHours} hours`
}

/** Whether TimescaleDB is installed and loaded on the server, and we may create it here. */
async function canCreateExtension(db: Kysely<Database>): Promise<boolean> {
  const { rows } = await sql<{ possible: boolean }>`
    select
      -- Set only where the server was started with the library; without it creating the extension fails.
      current_setting('timescaledb.license', true) is not null
      and exists (
        select from pg_available_extension_versions
        where name = 'timescaledb' and (
          (select rolsuper from pg_roles where rolname = current_user)
          or (trusted and has_database_privilege(current_database(), 'create'))
        )
      ) as possible`.execute(db)
  return rows[0]?.possible === true
}
