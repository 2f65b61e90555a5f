import { tmpdir } from 'node:os'
import { readdir, rename } from 'node:fs/promises'
import { join } from 'node:path'
import { pino } from 'pino'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Recorder, startRecorder } from '../../../src/app.js'
import { Spool } from '../../../src/collect/queue/spool.js'
import { loadConfig } from '../../../src/config/resolve.js'
import { createLogger } from '../../../src/runtime/logger.js'
import type { Status } from '../../../src/serve/api/contract.js'
import { acquireLease, type Lease } from '../../../src/lease/lease.js'
import { lastingPort } from '../../../src/server/embedded/server.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { fills } from '../../support/queueUnderTest.js'
import { temporaryFolder } from '../../support/temporaryFolder.js'
import { systemClock } from '../../../src/runtime/clock.js'
import { systemDisk } from '../../../src/runtime/disk.js'

const dataDir = temporaryFolder('standby-spool')
const root = join(dataDir, 'spool')
/** What waits for the database. */
const segments = async () => (await readdir(root, { recursive: true })).filter((name) => name.endsWith('.seg'))
const logger = createLogger('silent')
let database: TestDatabase
let owner: Lease

beforeAll(async () => {
  database = await createTestDatabase()
  owner = await acquireLease(database.url, 'shared', { logger, clock: systemClock, folder: tmpdir() })
})
afterAll(async () => {
  await owner.release()
  await database.drop()
})

/** As a recorder leaves them that dies while the database is away. */
async function leaveOnDisk(...indexes: readonly number[]): Promise<void> {
  const nothing = () => undefined
  const reports = { onDamage: nothing, onDropped: nothing, onSetAside: nothing }
  const folder = join(root, 'loopback~unknown~1-of-before-00000000')
  const spool = await Spool.open({
    root: folder,
    maxBytes: 1_000_000,
    clock: systemClock,
    serviceNow: () => null,
    disk: systemDisk,
    ...reports,
  })
  for (const index of indexes) await spool.append(fills(index))
  await spool.close()
}

async function storedFills(): Promise<number> {
  const { rows } = await database.database.pool.query<{ count: number }>(
    'select count(*)::int as count from market.fills',
  )
  return rows[0]?.count ?? 0
}

test('what is on the disk is stored while another recorder sends; what is left there meanwhile, at the latest when it ends', async () => {
  await leaveOnDisk(1, 2, 3)
  const port = await lastingPort()
  const config = loadConfig({
    // Nobody listens there.
    env: { DATABASE_URL: database.url, EXCHANGE_BASE_URL: `http://127.0.0.1:${await lastingPort()}` },
  })
  config.database.dataDir = dataDir
  config.collector.egress = 'shared'
  config.collector.drainTimeoutMs = 120_000
  config.serve.port = port
  let recorder: Recorder | undefined
  const starting = startRecorder(config, logger).then((started) => (recorder = started))

  await expect.poll(storedFills).toBe(4)
  const status = async () => (await (await fetch(`http://127.0.0.1:${port}/api/status`)).json()) as Status
  await expect.poll(async () => (await status()).spool).toMatchObject({ bytes: 0, since: null })
  const { phase, maySend, streams } = await status()
  expect({ phase, maySend }).toEqual({ phase: 'waiting', maySend: false })
  expect(streams.find(({ name }) => name === 'fills')).toMatchObject({ rowsWritten: 4, responses: 0 })
  expect(recorder).toBeUndefined()

  await leaveOnDisk(4, 5)
  expect(await storedFills()).toBe(4)
  await owner.release()
  await starting
  await expect.poll(storedFills).toBe(6)
  expect((await recorder?.stop()) ?? false).toBe(true)
  expect(await segments()).toEqual([])
})

test('one that is told to stop while it waits for another one stores what it was about to, and leaves nothing open', async () => {
  owner = await acquireLease(database.url, 'shared', { logger, clock: systemClock, folder: tmpdir() })
  const config = loadConfig({ env: { DATABASE_URL: database.url, EXCHANGE_BASE_URL: 'http://127.0.0.1:9' } })
  config.database.dataDir = dataDir
  config.collector.egress = 'shared'
  config.serve.enabled = false
  await leaveOnDisk(6, 7)
  const { pool } = database.database
  const blocking = await pool.connect()
  await blocking.query('begin; lock table market.fills in exclusive mode')
  const stopping = new AbortController()
  const starting = startRecorder(config, logger, { signal: stopping.signal })
  const sessions = async (condition: string) => {
    const { rows } = await pool.query(
      `select from pg_stat_activity where application_name = 'market-recorder writing'
         and datname = current_database() and ${condition}`,
    )
    return rows.length
  }
  await expect.poll(() => sessions(`wait_event_type = 'Lock'`)).toBeGreaterThan(0)
  stopping.abort(new Error('told to stop'))
  await blocking.query('rollback')
  blocking.release()
  await expect(starting).rejects.toThrow('told to stop')
  expect(await storedFills()).toBe(8)
  expect(await segments()).toEqual([])
  await expect.poll(() => sessions('true')).toBe(0)
})

test('each start says what waits in a former data directory, with what to do, until nothing does', async () => {
  await leaveOnDisk(8)
  const lines: string[] = []
  const told = pino(
    { base: null },
    { write: (line: string) => void lines.push((JSON.parse(line) as { msg: string }).msg) },
  )
  const warnings = () => lines.filter((line) => line.includes('dataDir was another one'))
  const recordIn = async (folder: string, isDone: () => boolean | Promise<boolean>) => {
    const config = loadConfig({ env: { DATABASE_URL: database.url, EXCHANGE_BASE_URL: 'http://127.0.0.1:9' } })
    config.database.dataDir = folder
    config.collector.egress = 'moved'
    config.serve.enabled = false
    const recorder = await startRecorder(config, told)
    await expect.poll(isDone).toBe(true)
    await recorder.stop()
  }
  const isNoted = (folder: string) => async () => {
    const { rows } = await database.database.pool.query<{ spool: string | null }>(
      `select spool from recorder.lease where egress = 'moved'`,
    )
    return rows[0]?.spool?.endsWith(`:${folder}/spool`) === true
  }
  const other = join(dataDir, 'other')
  await recordIn(dataDir, isNoted(dataDir))
  await leaveOnDisk(9)
  await recordIn(other, () => warnings().length === 1)
  await recordIn(other, () => warnings().length === 2)
  for (const name of await readdir(root)) await rename(join(root, name), join(other, 'spool', name))
  await recordIn(other, async () => (await isNoted(other)()) && (await storedFills()) === 10)
  const warning = new RegExp(`responses wait in \\S+:${root}; stop the recorder and move the files .* ${other}/spool$`)
  expect(warnings()).toEqual([expect.stringMatching(warning), expect.stringMatching(warning)])
})
