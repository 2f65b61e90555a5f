import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { connectTimeoutMs } from '../../../src/db/pool.js'
import { startEmbeddedPostgres } from '../../../src/server/embedded/embedded.js'
import { readServerState } from '../../../src/server/embedded/process.js'
import { serverUrl } from '../../../src/server/embedded/server.js'

const program = fileURLToPath(new URL('../../support/embeddedOwner.mjs', import.meta.url))
let folder: string
let dataDir: string
const loops: Promise<void>[] = []
const readers = new Set<pg.Client>()
let ending: AbortController
const owners: ChildProcess[] = []

beforeEach(async () => {
  ending = new AbortController()
  folder = await mkdtemp(join(tmpdir(), 'market-recorder-readers-'))
  dataDir = join(folder, 'pg')
  await (await startEmbeddedPostgres({ dataDir })).stop()
})
afterEach(async () => {
  ending.abort()
  for (const reader of readers) void reader.end().catch(() => undefined)
  for (const owner of owners) owner.kill('SIGKILL')
  await Promise.all(loops.splice(0))
  await expect.poll(() => readServerState(dataDir)).toBeUndefined()
  await rm(folder, { recursive: true, force: true })
})

/** Runs a statement of a reader again as soon as its session ends, and keeps the session meanwhile. */
async function repeat(url: string, statement: string): Promise<void> {
  while (!ending.signal.aborted) {
    const client = new pg.Client(url)
    client.on('error', () => undefined)
    readers.add(client)
    const ended = new Promise((resolve) => client.once('end', resolve))
    try {
      await client.connect()
      await client.query(statement)
      await ended
    } catch {
      await sleep(5)
    }
    readers.delete(client)
    void client.end().catch(() => undefined)
  }
}

/** Connects as the recorder's pools do, several times: each time, readers may have come between. */
async function connectAgainAndAgain(url: string): Promise<void> {
  for (let attempt = 0; attempt < 3; attempt++) {
    const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: connectTimeoutMs })
    client.on('error', () => undefined)
    await client.connect()
    await client.end()
  }
}

it('readers who queue for the lock of the database keep nobody from starting, joining or restarting the server', async (context) => {
  if (process.platform !== 'linux') context.skip('sessions are looked for in /proc')
  const [port, password] = await Promise.all(
    ['port', 'reader-password'].map(async (file) => (await readFile(join(dataDir, file), 'utf8')).trim()),
  )
  const readUrl = serverUrl(Number(port), 'reader', password ?? '')
  for (let reader = 0; reader < 4; reader++) {
    loops.push(repeat(readUrl, `begin; select pg_get_object_address('database', '{recorder}', '{}')`))
    loops.push(repeat(readUrl, 'alter database recorder rename to other'))
  }
  for (let start = 0; start < 2; start++) {
    const server = await startEmbeddedPostgres({ dataDir })
    expect(server.readUrl).toBe(readUrl)
    await connectAgainAndAgain(server.url)
    process.kill((await readServerState(dataDir))?.pid ?? 0, 'SIGKILL')
    await expect.poll(() => connectAgainAndAgain(server.url).then(() => 'connected', String)).toBe('connected')
    await server.stop()
  }

  // One whose process holds the server, and does not watch over it.
  const owner = spawn(process.execPath, [program, dataDir], { stdio: 'pipe', cwd: '/' })
  owners.push(owner)
  await once(owner.stdout, 'data')
  owner.kill('SIGSTOP')
  await sleep(1_000)
  const joined = await startEmbeddedPostgres({ dataDir })
  await connectAgainAndAgain(joined.url)
  await joined.stop()
}, 180_000)

it('the log of the server has no password, though one cannot be restored at once', async () => {
  const [port, owner, reader] = await Promise.all(
    ['port', 'password', 'reader-password'].map(async (file) => (await readFile(join(dataDir, file), 'utf8')).trim()),
  )
  // A start does not end sessions of this login.
  loops.push(repeat(serverUrl(Number(port), 'recorder', owner ?? ''), `begin; alter role reader set work_mem = '8MB'`))
  let log = ''
  while (!log.includes('due to lock timeout')) {
    await (await startEmbeddedPostgres({ dataDir })).stop()
    log = await readFile(join(dataDir, 'server.log'), 'utf8')
  }
  expect(log).toContain('alter role reader')
  expect(log).not.toContain(reader)
}, 180_000)
