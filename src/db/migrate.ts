import { type Kysely, type Migration, type MigrationProvider, Migrator, sql } from 'kysely'
import * as instruments from '../../migrations/0001_instruments.js'
import * as marketData from '../../migrations/0002_market_data.js'
import * as corrections from '../../migrations/0003_corrections.js'
import * as ledger from '../../migrations/0004_ledger.js'
import * as futures from '../../migrations/0005_futures.js'
import * as recorders from '../../migrations/0006_recorders.js'
import * as archive from '../../migrations/0007_archive.js'
import * as analysis from '../../migrations/0008_analysis.js'
import * as roles from '../../migrations/0009_roles.js'
import { callFunction, type RecorderDatabase } from './database.js'
import { traitsOf } from './databaseError.js'
import type { Database } from './schema.js'
import { messageOf } from '../runtime/text.js'

/** The migrations in order. A released one never changes. New ones are added at the end. */
const migrations: Readonly<Record<string, Migration>> = {
  '0001_instruments': instruments,
  '0002_market_data': marketData,
  '0003_corrections': corrections,
  '0004_ledger': ledger,
  '0005_futures': futures,
  '0006_recorders': recorders,
  '0007_archive': archive,
  '0008_analysis': analysis,
  '0009_roles': roles,
}

const provider: MigrationProvider = { getMigrations: () => Promise.resolve({ ...migrations }) }

/** The oldest major version of PostgreSQL that its makers still fix. */
const oldestServer = 15

/** Longest wait for a table lock. While it waits behind a reader's transaction, recording waits behind it. */
const tableLockTimeout = '10s'

/**
 * Applies the missing migrations, all of them or none. Several processes may call it at once: one of them migrates, and
 * the others wait and find nothing to do. Throws if the database is newer than the program, or the server too old.
 */
export async function migrateToLatest(database: RecorderDatabase): Promise<{ applied: string[]; isNew: boolean }> {
  return database.db.connection().execute(async (connection) => {
    await requireServer(connection)
    const executed = await executedMigrations(connection)
    requireKnown(executed)
    if (executed.length === Object.keys(migrations).length) return { applied: [], isNew: false }
    await createMigrationTables(connection)
    await sql`begin`.execute(connection)
    try {
      const applied = await migrateAlone(connection)
      await sql`commit`.execute(connection)
      return { applied, isNew: applied[0] === Object.keys(migrations)[0] }
    } catch (error) {
      await sql`rollback`.execute(connection).catch(() => undefined)
      throw error
    }
  })
}

/** Migrates in the transaction of the connection. Another process may have migrated already, and may be newer. */
async function migrateAlone(connection: Kysely<Database>): Promise<string[]> {
  await sql`lock table recorder.migration_lock in exclusive mode`.execute(connection)
  await sql`select set_config('lock_timeout', ${tableLockTimeout}, true)`.execute(connection)
  requireKnown(await executedMigrations(connection))
  const migrator = new Migrator({
    db: connection,
    provider,
    migrationTableSchema: 'recorder',
    migrationTableName: 'migration',
    migrationLockTableName: 'migration_lock',
    disableTransactions: true,
  })
  const { error, results = [] } = await migrator.migrateToLatest()
  if (error === undefined) return results.map(({ migrationName }) => migrationName)
  // The migration is not the cause if the database was away or busy. The caller may try again.
  if (error instanceof Error && traitsOf(error).isPassing) throw error
  const failed = results.find(({ status }) => status === 'Error')?.migrationName ?? 'before the first'
  throw new Error(`migration failed (${failed}), nothing was changed: ${messageOf(error)}`, { cause: error })
}

/** Creates the migrator's own tables, one of which is the lock. Several processes may call it at once. */
async function createMigrationTables(connection: Kysely<Database>): Promise<void> {
  if (await isThere(connection, 'recorder.migration_lock')) return
  const { schema } = connection
  const text = 'varchar(255)'
  const statements = [
    schema.createSchema('recorder').ifNotExists(),
    schema
      .createTable('recorder.migration')
      .ifNotExists()
      .addColumn('name', text, (column) => column.primaryKey())
      .addColumn('timestamp', text, (column) => column.notNull()),
    schema
      .createTable('recorder.migration_lock')
      .ifNotExists()
      .addColumn('id', text, (column) => column.primaryKey())
      .addColumn('is_locked', 'integer', (column) => column.notNull().defaultTo(0)),
  ]
  for (const statement of statements) {
    await statement.execute().catch((error: unknown) => {
      // "If not exists" looks before it creates. Another process may create the object in between.
      if (!traitsOf(error).isDuplicate) throw error
    })
  }
}

/** Throws an error of one line if a newer program migrated the database. Its tables may refuse rows of this program. */
export async function requireKnownSchema(db: Kysely<Database>): Promise<void> {
  requireKnown(await executedMigrations(db))
}

/** Returns the names of missing migrations, in order. Changes nothing. Throws as `migrateToLatest` does. */
export async function pendingMigrations(database: RecorderDatabase): Promise<string[]> {
  await requireServer(database.db)
  const executed = await executedMigrations(database.db)
  requireKnown(executed)
  return Object.keys(migrations).filter((name) => !executed.includes(name))
}

async function requireServer(db: Kysely<Database>): Promise<void> {
  const encoding = await callFunction<string>(db, 'current_setting', 'server_encoding')
  if (encoding !== 'UTF8') {
    throw new Error(
      `the database has the encoding ${encoding}, which cannot hold every symbol; create one with: createdb --encoding=UTF8 --template=template0`,
    )
  }
  const version = await callFunction<string>(db, 'current_setting', 'server_version_num')
  const major = Math.floor(Number(version) / 10_000)
  if (major < oldestServer) {
    throw new Error(`the server is PostgreSQL ${major}; market-recorder needs ${oldestServer} or newer`)
  }
}

async function executedMigrations(db: Kysely<Database>): Promise<string[]> {
  if (!(await isThere(db, 'recorder.migration'))) return []
  const rows = await db.selectFrom('recorder.migration').select('name').orderBy('name').execute()
  return rows.map(({ name }) => name)
}

async function isThere(db: Kysely<Database>, relation: string): Promise<boolean> {
  return (await callFunction(db, 'to_regclass', relation)) !== null
}

/** The first migration of databases that were made before each topic had one file. */
const firstOfOldKind = '0001_vocabulary'

function requireKnown(executed: readonly string[]): void {
  if (executed.includes(firstOfOldKind)) {
    throw new Error(
      'this database is from before the first release and cannot be upgraded; bring its data along with the program that made it ' +
        '(archive, or export), and restore it into a new database (archive restore)',
    )
  }
  const unknown = executed.filter((name) => !(name in migrations))
  if (unknown.length === 0) return
  throw new Error(
    `the database was migrated by a newer market-recorder (it has ${unknown.join(', ')}); upgrade this one, or use another database`,
  )
}
