import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { openDatabase, type RecorderDatabase } from '../../src/db/database.js'
import { migrateToLatest } from '../../src/db/migrate.js'
import { startEmbeddedPostgres } from '../../src/server/embedded/embedded.js'
import { reconcile } from '../../src/server/timescale/reconcile.js'
import { detectServer } from '../../src/server/timescale/server.js'
import { asAdmin, databaseUrl, testStorage } from '../../test/support/databaseServer.js'
import { withFolder } from './recorder.js'

export interface BenchDatabase {
  readonly url: string
  readonly database: RecorderDatabase
  /** For files of the measurement. Removed with the database. */
  readonly folder: string
  /** Stops the server and starts it again on the same port. */
  restart(): Promise<void>
}

interface ServerOptions {
  readonly poolSize?: number
  /** Settings of the server, such as `autovacuum`. */
  readonly settings?: Readonly<Record<string, string>>
}

/** Calls `measure` with an empty, migrated database on a server of its own, and removes both afterwards. */
export async function withDatabase<Result>(
  measure: (bench: BenchDatabase) => Promise<Result>,
  { poolSize, settings = {} }: ServerOptions = {},
): Promise<Result> {
  return withFolder('database', async (folder) => {
    const start = { dataDir: join(folder, 'postgres'), settings }
    let server = await startEmbeddedPostgres(start)
    const database = openDatabase({ url: server.url, ...(poolSize !== undefined && { poolSize }) })
    const restart = async () => {
      await server.stop()
      server = await startEmbeddedPostgres(start)
    }
    try {
      await migrateToLatest(database)
      return await measure({ url: server.url, database, folder, restart })
    } finally {
      await database.close()
      await server.stop()
    }
  })
}

/** Calls `use` with a migrated database of its own on a server, and removes it afterwards. */
export async function withDatabaseOn<Result>(
  serverUrl: string,
  name: string,
  use: (made: Pick<BenchDatabase, 'url' | 'database'>) => Promise<Result>,
  storage = testStorage,
): Promise<Result> {
  const own = `recorder_${name}_${randomBytes(4).toString('hex')}`
  await asAdmin(serverUrl, `create database ${own}`)
  const url = databaseUrl(serverUrl, own)
  const database = openDatabase({ url })
  try {
    await migrateToLatest(database)
    await reconcile(database.db, storage)
    return await use({ url, database })
  } finally {
    await database.close()
    await asAdmin(serverUrl, `drop database ${own} with (force)`)
  }
}

/** The server of a benchmark that needs TimescaleDB Community. */
export function communityUrl(given: string | undefined): string {
  const url = given ?? process.env['TEST_DATABASE_URL'] ?? ''
  if (url === '')
    throw new Error('give --url (or TEST_DATABASE_URL): a TimescaleDB Community server that can create databases')
  return url
}

/** Throws unless a database is on a server of TimescaleDB Community. */
export async function requireCommunity({ db }: RecorderDatabase): Promise<void> {
  const { kind } = await detectServer(db)
  if (kind !== 'timescale-community') throw new Error(`this server is ${kind}, not TimescaleDB Community`)
}

/** Moves chunks that end before a moment to the columnstore, of all tables or of one. */
export async function convertBefore(pool: RecorderDatabase['pool'], before: number, table = '%'): Promise<void> {
  const { rows } = await pool.query<{ chunk: string }>(
    `select format('%I.%I', chunk_schema, chunk_name) as chunk from timescaledb_information.chunks
      where hypertable_schema = 'market' and hypertable_name like $1 and range_end <= $2 and not is_compressed`,
    [table, new Date(before)],
  )
  for (const { chunk } of rows) await pool.query('call convert_to_columnstore($1::regclass)', [chunk])
}
