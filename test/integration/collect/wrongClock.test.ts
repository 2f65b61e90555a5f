import { join } from 'node:path'
import { expect, test } from 'vitest'
import { startRecorder } from '../../../src/app.js'
import { loadConfig } from '../../../src/config/resolve.js'
import { systemClock } from '../../../src/runtime/clock.js'
import { createLogger } from '../../../src/runtime/logger.js'
import { startSimulator } from '../../../src/simulator/server.js'
import { createTestDatabase } from '../../support/database.js'
import { temporaryFolder } from '../../support/temporaryFolder.js'

const dataDir = temporaryFolder('wrong-clock')
const hourMs = 3_600_000
const streams = ['instruments', 'tickers', 'order_books', 'fills', 'candles'] as const

/** Records for some minutes by a clock that is wrong. Resolves to what is wrong with the recording. */
async function recordWith(aheadHours: number): Promise<unknown> {
  const simulator = await startSimulator({ scale: 'tiny' })
  const { database, drop, url } = await createTestDatabase()
  const config = loadConfig({ env: { DATABASE_URL: url, EXCHANGE_BASE_URL: simulator.url } })
  config.database.dataDir = join(dataDir, String(aheadHours))
  config.serve.enabled = false
  config.collector.egress = `ahead-${aheadHours}`
  for (const name of ['fills', 'candles', 'orderBooks'] as const) config.streams[name].select.minTurnover24h = '1'
  config.streams.candles.types = ['market', 'mark', 'index']
  const now = () => systemClock.now() + aheadHours * hourMs
  const recorder = await startRecorder(config, createLogger('silent'), { clock: { ...systemClock, now } })
  const { stats } = recorder.collector
  try {
    const silent = () => streams.filter((name) => stats[name].rowsWritten === 0)
    await expect.poll(silent, { timeout: 200_000, interval: 500 }).toEqual([])
    const candles = stats.candles.rowsWritten
    await expect.poll(() => stats.candles.rowsWritten, { timeout: 120_000 }).toBeGreaterThan(candles)
    // Instruments are chosen anew, and repairs are looked for, once a minute.
    await systemClock.sleep(75_000)
    const { rows: claims } = await database.pool.query(
      `select verdict, stream, symbol, type, ranges from recorder.ledger
       where verdict = 'lost' or (verdict in ('recorded', 'missing', 'repaired') and not isempty(ranges)
         and upper(ranges) > to_timestamp($1))`,
      [Date.now() / 1000],
    )
    return { silent: silent(), withoutTargets: streams.filter((name) => stats[name].targets === 0), claims }
  } finally {
    await recorder.stop()
    await simulator.close()
    await drop()
  }
}

test('every stream is recorded, and nothing false claimed, whatever the clock of this machine says', async () => {
  const found = await Promise.all([-8, -0.25, 0.25, 8, 23.9].map(recordWith))
  expect(found).toEqual(found.map(() => ({ silent: [], withoutTargets: [], claims: [] })))
})
