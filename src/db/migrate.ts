import { type Kysely, type Migration, sql } from 'kysely'
import * as instruments from '../../migrations/0001_instruments.js'
import * as marketData from '../../migrations/0002_market_data.js'
import * as corrections from '../../migrations/0003_corrections.js'
import * as ledger from '../../migrations/0004_ledger.js'
import * as futures from '../../migrations/0005_futures.js'
import * as recorders from '../../migrations/0006_recorders.js'
import * as archive from '../../migrations/0007_archive.js'
import * as analysis from '../../migrations/0008_analysis.js'
import * as roles from '../../migrations/0009_roles.js'
import * as identity from '../../migrations/0010_identity.js'
import * as earlier from '../../migrations/0011_earlier.js'
import { callFunction, type RecorderDatabase } from './database.js'
import { traitsOf } from './databaseError.js'
import type { Database } from './schema.js'
import { systemClock } from '../runtime/clock.js'
import { messageOf } from '../runtime/text.js'
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { packageFile, packageVersion } from '../runtime/process.js'

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
  '0010_identity': identity,
  '0011_earlier': earlier,
}

/** Oldest supported major version of PostgreSQL: the oldest that the PostgreSQL project still mends. */
const oldestServer = 15

/** Longest wait for a table lock. While it waits behind a reader's transaction, recording waits behind it. */
const tableLockTimeout = '10s'

/**
 * Applies the missing migrations, all of them or none. Several processes may call it at once: one of them migrates, and
 * the others wait and find nothing to do. Throws if the database is newer than the program, or the server too old.
 */
export async function migrateToLatest(database: RecorderDatabase): Promise<{ applied: string[]; isNew: boolean }> {
  if ((await pendingMigrations(database)).length === 0) return { applied: [], isNew: false }
  await createMigrationTable(database.db)
  const applied = await database.db.transaction().execute(async (trx) => {
    // Readers still pass. Another process may have migrated already, and may be newer.
    await sql`lock table recorder.migration in exclusive mode`.execute(trx)
    await sql`select set_config('lock_timeout', ${tableLockTimeout}, true)`.execute(trx)
    const missing = await missingMigrations(trx)
    for (const name of missing) await applyMigration(trx, name)
    return missing
  })
  return { applied, isNew: applied[0] === Object.keys(migrations)[0] }
}

async function applyMigration(trx: Kysely<Database>, name: string): Promise<void> {
  try {
    await (migrations[name]?.up ?? replaceFunctions)(trx)
  } catch (error) {
    // The migration is not the cause if the database was away or busy. The caller may try again.
    if (traitsOf(error).isPassing) throw error
    throw new Error(`migration failed (${name}), nothing was changed: ${messageOf(error)}`, { cause: error })
  }
  if (areFunctions(name)) await trx.deleteFrom('recorder.migration').where('name', 'like', 'functions %').execute()
  const timestamp = new Date(systemClock.now()).toISOString()
  await trx.insertInto('recorder.migration').values({ name, timestamp }).execute()
}

/** Creates the list of applied migrations. Several processes may call it at once. */
async function createMigrationTable(db: Kysely<Database>): Promise<void> {
  if (await isThere(db, 'recorder.migration')) return
  const { schema } = db
  const text = 'varchar(255)'
  const statements = [
    schema.createSchema('recorder').ifNotExists(),
    schema
      .createTable('recorder.migration')
      .ifNotExists()
      .addColumn('name', text, (column) => column.primaryKey())
      .addColumn('timestamp', text, (column) => column.notNull()),
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

/**
 * Returns the names of missing migrations, in order. The last one stands for the functions if they differ. Changes
 * nothing. Throws as `migrateToLatest` does.
 */
export async function pendingMigrations(database: RecorderDatabase): Promise<string[]> {
  await requireServer(database.db)
  return missingMigrations(database.db)
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

async function missingMigrations(db: Kysely<Database>): Promise<string[]> {
  const executed = await executedMigrations(db)
  requireKnown(executed)
  return [...Object.keys(migrations), ownFunctions()].filter((name) => !executed.includes(name))
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
  if (executed.includes(firstOfOldKind)) throw earlier.tooEarly()
  const unknown = executed.filter((name) => (areFunctions(name) ? areNewer(name) : !(name in migrations)))
  if (unknown.length === 0) return
  throw new Error(
    `the database was migrated by a newer market-recorder (it has ${unknown.join(', ')}); upgrade this one, or use another database`,
  )
}

/**
 * The functions of the database are files in SQL, `migrations/functions/*.sql`. They are no migrations: they are made
 * anew as a whole whenever one of them differs from what the database has. The list of migrations has one row for them,
 * with the version of the program and a digest of the files.
 */
const folder = 'migrations/functions/'
const label = 'functions'

interface FunctionFile {
  readonly name: string
  readonly text: string
}

/** Returns the row of the list of migrations that stands for the functions of this program. */
function ownFunctions(): string {
  const hash = createHash('sha256')
  for (const { name, text } of functionFiles()) hash.update(`${name}\0${text}\0`)
  return `${label} ${packageVersion()} ${hash.digest('hex').slice(0, 16)}`
}

/** Returns true for a row of the list of migrations that stands for functions. */
function areFunctions(migration: string): boolean {
  return migration.startsWith(`${label} `)
}

/** Returns true if a program with a higher version made these functions. */
function areNewer(functions: string): boolean {
  const numbersOf = (version = '') => version.split(/[.-]/).map(Number)
  const [own, other] = [numbersOf(packageVersion()), numbersOf(functions.split(' ')[1])]
  const place = own.findIndex((number, index) => number !== other[index])
  return place >= 0 && (other[place] ?? 0) > (own[place] ?? 0)
}

/**
 * Drops the functions of schema `recorder`, because another version of one may have other parameters. A trigger stays.
 * Functions of schema `market` are only replaced, because views of users may depend on them.
 */
const dropOwnFunctions = sql`
  do $$
  declare
    old regprocedure;
  begin
    for old in
      select oid from pg_proc where pronamespace = 'recorder'::regnamespace and prorettype <> 'trigger'::regtype
    loop
      execute format('drop function %s', old);
    end loop;
  end
  $$`

/** Makes all functions, in place of other versions of them. Their files may name one another in any order. */
async function replaceFunctions(trx: Kysely<Database>): Promise<void> {
  await sql`set local check_function_bodies = off`.execute(trx)
  await dropOwnFunctions.execute(trx)
  for (const { text } of functionFiles()) await sql.raw(text).execute(trx)
}

function functionFiles(): FunctionFile[] {
  const names = readdirSync(packageFile(folder)).filter((name) => name.endsWith('.sql'))
  return names.toSorted().map((name) => ({ name, text: readFileSync(packageFile(`${folder}${name}`), 'utf8') }))
}
