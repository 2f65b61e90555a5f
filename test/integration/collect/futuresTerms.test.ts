import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { type Recorder, startRecorder } from '../../../src/app.js'
import { loadConfig } from '../../../src/config/resolve.js'
import { createLogger } from '../../../src/runtime/logger.js'
import type { Fault } from '../../../src/simulator/faults.js'
import { type Simulator, startSimulator } from '../../../src/simulator/server.js'
import type { Quirks } from '../../../src/simulator/world/quirks.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { servedVersions, storedVersions, type VersionedName, versionedTables } from '../../support/servedVersions.js'
import { storeSpooled } from '../../support/storeSpooled.js'
import { temporaryFolder } from '../../support/temporaryFolder.js'

const tables = Object.keys(versionedTables) as VersionedName[]
const dataDir = temporaryFolder('futuresTerms')
let simulator: Simulator
let database: TestDatabase

beforeEach(async () => {
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
  config.streams.futuresTerms.enabled = true
  return startRecorder(config, createLogger('silent'))
}

async function simulate(quirks: Partial<Quirks>, faults: readonly Fault[] = []): Promise<void> {
  simulator = await startSimulator({ scale: 'tiny', journal: true, quirks, faults })
}

it('versions are those that were served, after faults and restarts', async () => {
  const faults = (['errorCode', 'reset', 'tornBody'] as const).map((kind) =>
    kind === 'errorCode' ? { kind, code: '25000', probability: 0.1 } : { kind, probability: 0.1 },
  )
  // Each run sees each list once: between two runs about half of them change.
  await simulate({ termsChangeMs: 8_000 }, faults)
  for (const run of ['first', 'second', 'third']) {
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
  const query = async (text: string) => (await database.database.pool.query<Record<string, unknown>>(text)).rows
  for (const table of tables) {
    const served = servedVersions(simulator.control.journal(), table)
    expect(await storedVersions(query, table)).toEqual(served)
    // Some hold still, and some have ended.
    expect(served.filter((line) => line.endsWith(' -')).length, table).toBeGreaterThan(0)
    expect(served.filter((line) => !line.endsWith(' -')).length, table).toBeGreaterThan(0)
  }
})

it('a service without them has idle streams, and no incident', async () => {
  await simulate({ lackingOperations: ['index-components', 'position-tier', 'oi-limit'] })
  const recorder = await start()
  const { collector } = recorder
  for (const table of tables)
    await expect.poll(() => collector.stats[table].lastIdleAt, { timeout: 60_000 }).not.toBeNull()
  expect(collector.incidents.recent()).toEqual([])
  await recorder.stop()
})
