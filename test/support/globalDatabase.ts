import { randomBytes } from 'node:crypto'
import { mkdtemp, readdir, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestProject } from 'vitest/node'
import { openDatabase } from '../../src/db/database.js'
import { startEmbeddedPostgres } from '../../src/server/embedded/embedded.js'
import { embeddedPaths, hasUsers } from '../../src/server/embedded/process.js'
import { migrateToLatest } from '../../src/db/migrate.js'
import { reconcile } from '../../src/server/timescale/reconcile.js'
import { asAdmin, closeDatabase, databaseUrl, testStorage } from './databaseServer.js'
import { endSchedules } from './schedules.js'

declare module 'vitest' {
  interface ProvidedContext {
    readonly testServer: TestServer
  }
}

export interface TestServer {
  /** Address of a database from which others can be created and dropped. */
  readonly adminUrl: string
  /** A migrated database to clone. */
  readonly template: string
  /** Option with which `create database` clones it fastest; empty for the default. */
  readonly strategy: string
}

interface RunningServer extends TestServer {
  stop(): Promise<void>
}

interface Shared {
  server: Promise<RunningServer>
  users: number
}

/** Each project evaluates this file on its own; the server is one for all of them. */
const shared = globalThis as { marketRecorderTestServer?: Shared }

/** Starts the database server of the run (or uses that of TEST_DATABASE_URL), and stops it after the last project. */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  shared.marketRecorderTestServer ??= { server: start(), users: 0 }
  const { server } = shared.marketRecorderTestServer
  shared.marketRecorderTestServer.users += 1
  const { adminUrl, template, strategy } = await server
  project.provide('testServer', { adminUrl, template, strategy })
  return async () => {
    const current = shared.marketRecorderTestServer
    if (current === undefined || --current.users > 0) return
    delete shared.marketRecorderTestServer
    await (await current.server).stop()
  }
}

const directoryPrefix = 'market-recorder-test-'

async function start(): Promise<RunningServer> {
  const given = process.env.TEST_DATABASE_URL
  if (given !== undefined && given !== '') {
    const template = await createTemplate(given)
    return {
      adminUrl: given,
      template,
      strategy: '',
      stop: () => asAdmin(given, `drop database if exists ${template} with (force)`),
    }
  }
  await removeLeftovers()
  const dataDir = await mkdtemp(join(tmpdir(), directoryPrefix))
  // Thrown away at the end: nothing in it has to survive a power cut.
  const unsafe = { fsync: 'off', synchronous_commit: 'off', full_page_writes: 'off' }
  // Many recorders at once take many connections. All of them share as many locks as a server of the usual size has.
  const settings = { ...unsafe, max_connections: '400', max_locks_per_transaction: '16' }
  const server = await startEmbeddedPostgres({ dataDir, settings })
  const stop = async () => {
    await server.stop()
    await rm(dataDir, { recursive: true, force: true })
  }
  try {
    // Through the log it takes ten times as long; the checkpoint instead costs nothing where nothing is forced to the disk.
    return { adminUrl: server.url, template: await createTemplate(server.url), strategy: 'strategy file_copy', stop }
  } catch (error) {
    await stop()
    throw error
  }
}

async function createTemplate(adminUrl: string): Promise<string> {
  const template = `recorder_template_${randomBytes(4).toString('hex')}`
  await asAdmin(adminUrl, `create database ${template}`)
  const database = openDatabase({ url: databaseUrl(adminUrl, template), poolSize: 1 })
  try {
    await migrateToLatest(database)
    await reconcile(database.db, testStorage)
    // Else the server converts, refreshes and removes what tests are looking at.
    await endSchedules(database)
  } finally {
    await database.close()
  }
  await closeDatabase(adminUrl, template)
  return template
}

/** Data of runs that were killed. Their servers have ended by themselves. */
async function removeLeftovers(): Promise<void> {
  for (const name of await readdir(tmpdir())) {
    const directory = join(tmpdir(), name)
    if (!name.startsWith(directoryPrefix) || !(await isOldAndOurs(directory))) continue
    if (!isInUse(directory)) await rm(directory, { recursive: true, force: true })
  }
}

async function isOldAndOurs(directory: string): Promise<boolean> {
  const found = await stat(directory).catch(() => undefined)
  return found !== undefined && found.uid === process.getuid?.() && Date.now() - found.mtimeMs > 3_600_000
}

function isInUse(directory: string): boolean {
  try {
    return hasUsers(embeddedPaths(directory).users)
  } catch {
    return false
  }
}
