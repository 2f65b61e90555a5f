import { afterAll, beforeAll, expect, test } from 'vitest'
import { SameDatabase } from '../../../src/db/identity.js'
import { openQueue } from '../../../src/collect/queue/openQueue.js'
import { createStats } from '../../../src/collect/streams/stream.js'
import { loadConfig } from '../../../src/config/resolve.js'
import { systemClock } from '../../../src/runtime/clock.js'
import { systemDisk } from '../../../src/runtime/disk.js'
import { Incidents } from '../../../src/runtime/incidents.js'
import { createLogger } from '../../../src/runtime/logger.js'
import { createMetrics } from '../../../src/runtime/metrics.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { aFill } from '../../support/marketRows.js'
import { batchOf } from '../../support/batches.js'
import { at } from '../../support/queueUnderTest.js'
import { temporaryFolder } from '../../support/temporaryFolder.js'

const dataDir = temporaryFolder('open-queue')
const key = { category: 'SPOT', symbol: 'BTCUSDT' } as const
let database: TestDatabase

beforeAll(async () => {
  database = await createTestDatabase()
})
afterAll(() => database.drop())

/** The newest first, as the service sends them; each is a number, and when it happened. */
const page = (...fills: readonly (readonly [id: number, ms: number])[]) =>
  batchOf(
    'fills',
    key,
    fills.map(([id, ms]) => aFill({ ...key, execId: String(id), ts: at + ms })).toReversed(),
    at + 10_000,
  )

test('a fill that another server has not got comes to it, though nobody asked while the first one went away', async () => {
  const { pool } = database.database
  const config = loadConfig({ env: { EXCHANGE_BASE_URL: 'http://127.0.0.1:9' } })
  config.database.dataDir = dataDir
  const logger = createLogger('silent')
  const opened = await openQueue({
    config,
    url: database.url,
    clock: systemClock,
    serviceNow: () => null,
    disk: systemDisk,
    logger,
    stats: createStats(),
    incidents: new Incidents(logger, systemClock),
    metrics: createMetrics({ version: 'test' }),
    gate: { belonging: null, mayStore: () => Promise.resolve() },
    same: new SameDatabase(),
    takesOthers: false,
  })
  try {
    await opened.queue.write(page([1, 0], [2, 1000]))
    // Of the same millisecond, so that what is proven ends where it did.
    await opened.queue.write(page([1, 0], [2, 1000], [3, 1000]))
    // Another server takes over that has everything but the last commit.
    await pool.query(`delete from market.fills where exec_id = '3'`)
    const { rowCount } = await pool.query(
      `select pg_terminate_backend(pid, 5000) from pg_stat_activity
        where application_name = 'market-recorder writing' and datname = current_database()`,
    )
    expect(rowCount).toBeGreaterThan(0)
    await opened.queue.write(page([1, 0], [2, 1000], [3, 1000], [4, 2000]))
    await opened.queue.write(page([1, 0], [2, 1000], [3, 1000], [4, 2000], [5, 3000]))
    const storedIds = async () => {
      const { rows } = await pool.query<{ id: string }>('select exec_id as id from market.fills order by exec_id')
      return rows.map(({ id }) => id)
    }
    // A slow reconnection makes the pages wait on the disk.
    await expect.poll(storedIds).toEqual(['1', '2', '3', '4', '5'])
  } finally {
    await opened.close(10_000)
  }
})
