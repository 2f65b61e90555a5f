import { type Kysely, type Migration, type MigrationProvider, Migrator, sql } from 'kysely'
import * as vocabulary from '../../migrations/0001_vocabulary.js'
import * as instruments from '../../migrations/0002_instruments.js'
import * as marketData from '../../migrations/0003_market_data.js'
import * as bookkeeping from '../../migrations/0004_bookkeeping.js'
import * as views from '../../migrations/0005_views.js'
import * as roles from '../../migrations/0006_roles.js'
import * as analystFunctions from '../../migrations/0007_analyst_functions.js'
import * as backfill from '../../migrations/0010_backfill.js'
import * as egress from '../../migrations/0030_egress.js'
import * as instrumentKinds from '../../migrations/0040_instrument_kinds.js'
import * as silence from '../../migrations/0050_silence.js'
import type { RecorderDatabase } from './database.js'
import type { Database } from './schema.js'

/** In order. One that has been released never changes; a new one goes to the end. */
const migrations: Readonly<Record<string, Migration>> = {
  '0001_vocabulary': vocabulary,
  '0002_instruments': instruments,
  '0003_market_data': marketData,
  '0004_bookkeeping': bookkeeping,
  '0005_views': views,
  '0006_roles': roles,
  '0007_analyst_functions': analystFunctions,
  '0010_backfill': backfill,
  '0030_egress': egress,
  '0040_instrument_kinds': instrumentKinds,
  '0050_silence': silence,
}

const provider: MigrationProvider = { getMigrations: () => Promise.resolve({ ...migrations }) }

/** Multiranges and date_bin came with 14. */
const oldestServer = 14

/** Any number, but the same in every version of the program: held while migrating. */
const lockKey = 5_627_110_482

export interface MigrateOptions {
  readonly logger?: { info(message: string): void }
}

/**
 * Applies the migrations that are missing, all of them or none. Several processes may call it at once: one works, the others
 * wait and find nothing to do. Throws when the database is newer than the program, or the server too old.
 */
export async function migrateToLatest(
  database: RecorderDatabase,
  options: MigrateOptions = {},
): Promise<{ applied: string[] }> {
  return database.db.connection().execute(async (connection) => {
    await requireServer(connection)
    // The migrator has a lock too, but takes it later: a newer program could migrate between our check and its lock.
    await sql`select pg_advisory_lock(${lockKey})`.execute(connection)
    try {
      const executed = await executedMigrations(connection)
      requireKnown(executed)
      const migrator = new Migrator({
        db: connection,
        provider,
        migrationTableSchema: 'recorder',
        migrationTableName: 'migration',
        migrationLockTableName: 'migration_lock',
      })
      const { error, results = [] } = await migrator.migrateToLatest()
      if (error !== undefined) {
        const failed = results.find(({ status }) => status === 'Error')?.migrationName ?? 'before the first'
        throw new Error(`migration failed (${failed}), nothing was changed: ${messageOf(error)}`, { cause: error })
      }
      const applied = results.map(({ migrationName }) => migrationName)
      for (const name of applied) options.logger?.info(`applied migration ${name}`)
      return { applied }
    } finally {
      await sql`select pg_advisory_unlock(${lockKey})`.execute(connection)
    }
  })
}

/** Names of the migrations that are missing, in order. Changes nothing. Throws as `migrateToLatest` does. */
export async function pendingMigrations(database: RecorderDatabase): Promise<string[]> {
  await requireServer(database.db)
  const executed = await executedMigrations(database.db)
  requireKnown(executed)
  return Object.keys(migrations).filter((name) => !executed.includes(name))
}

async function requireServer(db: Kysely<Database>): Promise<void> {
  const { rows } = await sql<{ version: string }>`select current_setting('server_version_num') as version`.execute(db)
  const major = Math.floor(Number(rows[0]?.version) / 10_000)
  if (major < oldestServer) {
    throw new Error(`the server is PostgreSQL ${major}; market-recorder needs ${oldestServer} or newer`)
  }
}

async function executedMigrations(db: Kysely<Database>): Promise<string[]> {
  const { rows: found } = await sql<{ exists: boolean }>`
    select to_regclass('recorder.migration') is not null as exists`.execute(db)
  if (found[0]?.exists !== true) return []
  const { rows } = await sql<{ name: string }>`select name from recorder.migration order by name`.execute(db)
  return rows.map(({ name }) => name)
}

function requireKnown(executed: readonly string[]): void {
  const unknown = executed.filter((name) => !(name in migrations))
  if (unknown.length === 0) return
  throw new Error(
    `the database was migrated by a newer market-recorder (it has ${unknown.join(', ')}); upgrade this one, or use another database`,
  )
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
