import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { openDatabase } from '../../src/db/database.js'
import { migrateToLatest } from '../../src/db/migrate.js'
import { embeddedPaths } from '../../src/server/embedded/process.js'
import { startEmbeddedPostgres } from '../../src/server/embedded/embedded.js'
import { databaseUrl } from '../support/databaseServer.js'
import { RealClient, type RealServer, searchPath } from './realClient.js'

/** The database server that all worlds of a run share, each with a database of its own. */
export interface WorldServer {
  readonly login: RealServer
  createDatabase(name: string): Promise<WorldDatabase>
  stop(): Promise<void>
}

export interface WorldDatabase {
  readonly name: string
  readonly admin: RealClient
  /** Reads what is stored, while time stands still. */
  readonly pool: pg.Pool
  drop(): Promise<void>
}

const template = 'simulated_template'

export async function startWorldServer(): Promise<WorldServer> {
  const dataDir = await mkdtemp(join(tmpdir(), 'market-recorder-worlds-'))
  // Nothing in it has to survive, and nothing may happen by itself.
  const settings = {
    fsync: 'off',
    synchronous_commit: 'off',
    full_page_writes: 'off',
    autovacuum: 'off',
    jit: 'off',
    // The harness finds deadlocks itself, at a moment that does not depend on the machine.
    deadlock_timeout: '1h',
    plan_cache_mode: 'force_generic_plan',
    max_parallel_workers_per_gather: '0',
    max_wal_size: '4GB',
    shared_buffers: '256MB',
    track_counts: 'off',
    wal_level: 'minimal',
    max_wal_senders: '0',
    checkpoint_timeout: '1d',
    wal_writer_delay: '10s',
    bgwriter_lru_maxpages: '0',
    // In the data directory. A statement is there and back in a half of the time that it takes by way of TCP.
    unix_socket_directories: '.',
  }
  const server = await startEmbeddedPostgres({ dataDir, settings })
  const stop = async () => {
    await server.stop()
    await rm(dataDir, { recursive: true, force: true })
  }
  try {
    await shortenLogin(server.url)
    await createTemplate(server.url)
  } catch (error) {
    await stop()
    throw error
  }
  const login = { ...loginOf(server.url), host: embeddedPaths(dataDir).cluster }
  return {
    login,
    stop,
    async createDatabase(name) {
      await asOwner(server.url, `create database ${name} template ${template}`)
      const admin = new RealClient({ ...login, database: name })
      await admin.connect()
      const pool = new pg.Pool({ ...login, database: name, max: 1, Client: RealClient })
      // An idle session that the server ends is replaced by the next that is needed.
      pool.on('error', () => undefined)
      return {
        name,
        admin,
        pool,
        async drop() {
          await pool.end()
          await admin.end()
          await asOwner(server.url, `drop database if exists ${name} with (force)`)
        },
      }
    },
  }
}

/** To check a password takes milliseconds, on purpose; recorders that are started again and again log in thousands of times. */
async function shortenLogin(serverUrl: string): Promise<void> {
  const { user, password } = loginOf(serverUrl)
  await asOwner(serverUrl, `set scram_iterations = 1; alter role ${user} password '${password}'`)
}

async function createTemplate(serverUrl: string): Promise<void> {
  await asOwner(serverUrl, `create database ${template}`)
  const url = new URL(databaseUrl(serverUrl, template))
  const client = new RealClient({ connectionString: url.href })
  await client.connect()
  await client.query(`create schema simulated;
    create function simulated.now() returns timestamptz language sql stable
      as $$ select coalesce(pg_catalog.to_timestamp(current_setting('simulated.ms', true)::float8 / 1000), pg_catalog.now()) $$`)
  await client.end()
  url.searchParams.set('options', searchPath)
  const database = openDatabase({ url: url.href, poolSize: 1 })
  try {
    await migrateToLatest(database)
    // Functions that name their own search path would take the server's time.
    await database.pool.query(`do $$ declare f regprocedure; begin
      for f in select oid from pg_proc where array_to_string(proconfig, ',') = 'search_path=pg_catalog, pg_temp' loop
        execute format('alter function %s set search_path = simulated, pg_catalog, pg_temp', f);
      end loop; end $$`)
  } finally {
    await database.close()
  }
}

/** Runs a statement that cannot be in a transaction. */
async function asOwner(connectionString: string, statement: string): Promise<void> {
  const client = new RealClient({ connectionString })
  await client.connect()
  try {
    await client.query(statement)
  } finally {
    await client.end()
  }
}

function loginOf(url: string): RealServer {
  const { hostname: host, port, username, password } = new URL(url)
  return { host, port: Number(port), user: decodeURIComponent(username), password: decodeURIComponent(password) }
}
