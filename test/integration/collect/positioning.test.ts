import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { type Recorder, startRecorder } from '../../../src/app.js'
import { loadConfig } from '../../../src/config/resolve.js'
import { createLogger } from '../../../src/runtime/logger.js'
import { type Simulator, startSimulator } from '../../../src/simulator/server.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { servedTruth } from '../../support/servedTruth.js'
import { differences, storedRows } from '../../support/storedRows.js'
import { storeSpooled } from '../../support/storeSpooled.js'
import { temporaryFolder } from '../../support/temporaryFolder.js'

const tables = ['taker_flow', 'long_short_ratios', 'long_short_accounts', 'long_short_positions'] as const
const dataDir = temporaryFolder('positioning')
let simulator: Simulator
let database: TestDatabase

beforeEach(async () => {
  const faults = (['errorCode', 'reset', 'tornBody'] as const).map((kind) =>
    kind === 'errorCode' ? { kind, code: '25000', probability: 0.1 } : { kind, probability: 0.1 },
  )
  simulator = await startSimulator({ scale: 'tiny', journal: true, faults })
  database = await createTestDatabase()
})
afterEach(async () => {
  await simulator.close()
  await database.drop()
})

async function start(): Promise<Recorder> {
  const config = loadConfig({ env: { DATABASE_URL: database.url, EXCHANGE_BASE_URL: simulator.url } })
  config.database.dataDir = dataDir
  config.serve.enabled = false
  for (const stream of Object.values(config.streams)) stream.enabled = false
  config.streams.instruments.enabled = true
  config.streams.positioning.enabled = true
  return startRecorder(config, createLogger('silent'))
}

it('periods are stored as they were served, after faults and a restart', async () => {
  for (const run of ['first', 'second']) {
    const recorder = await start()
    const { stats } = recorder.collector
    const enough = () => {
      for (const table of tables) {
        expect(stats[table].targets, run).toBeGreaterThan(0)
        expect(stats[table].responses, run).toBeGreaterThanOrEqual(stats[table].targets)
      }
    }
    await vi.waitFor(enough, { timeout: 60_000, interval: 200 })
    await recorder.stop()
    await storeSpooled(dataDir, database.database)
  }
  const truth = servedTruth(simulator.control.journal(), 0)
  for (const table of tables) {
    const stored = await storedRows(database.database.pool, table)
    expect(stored.size).toBeGreaterThanOrEqual(30)
    expect(differences(table, stored, truth[table], 'any served')).toEqual([])
  }
})
