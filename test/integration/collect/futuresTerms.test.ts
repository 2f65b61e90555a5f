import { afterEach, beforeEach, expect, it } from 'vitest'
import type { Fault } from '../../../src/simulator/faults.js'
import { type Simulator, startSimulator } from '../../../src/simulator/server.js'
import type { Quirks } from '../../../src/simulator/world/quirks.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { everyTenth, recordOnce, recordOnly } from '../../support/recordFew.js'
import { servedVersions, storedVersions, type VersionedName, versionedTables } from '../../support/servedVersions.js'
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

async function simulate(quirks: Partial<Quirks>, faults: readonly Fault[] = []): Promise<void> {
  simulator = await startSimulator({ scale: 'tiny', journal: true, quirks, faults })
}

it('versions are those that were served, after faults and restarts', async () => {
  // Each run sees each list once: between two runs about half of them change.
  await simulate({ termsChangeMs: 8_000 }, everyTenth)
  for (let run = 1; run <= 3; run++) await recordOnce('futuresTerms', tables, { database, simulator, dataDir })
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
  await simulate({ lackingOperations: ['index-components'] })
  const recorder = await recordOnly('futuresTerms', { database, simulator, dataDir })
  const { collector } = recorder
  for (const table of tables) await expect.poll(() => collector.stats[table].lastIdleAt).not.toBeNull()
  // A slow machine has incidents of its own: a write that takes long.
  expect(collector.incidents.recent().filter(({ what }) => what !== 'storing')).toEqual([])
  await recorder.stop()
})
