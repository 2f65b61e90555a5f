import { afterEach, beforeEach, expect, it } from 'vitest'
import { type Simulator, startSimulator } from '../../../src/simulator/server.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { everyTenth, recordOnce } from '../../support/recordFew.js'
import { servedTruth } from '../../support/servedTruth.js'
import { differences, storedRows } from '../../support/storedRows.js'
import { temporaryFolder } from '../../support/temporaryFolder.js'

const tables = ['taker_flow', 'long_short_ratios', 'long_short_accounts', 'long_short_positions'] as const
const dataDir = temporaryFolder('positioning')
let simulator: Simulator
let database: TestDatabase

beforeEach(async () => {
  simulator = await startSimulator({ scale: 'tiny', journal: true, faults: everyTenth })
  database = await createTestDatabase()
})
afterEach(async () => {
  await simulator.close()
  await database.drop()
})

it('periods are stored as they were served, after faults and a restart', async () => {
  for (let run = 1; run <= 2; run++) await recordOnce('positioning', tables, { database, simulator, dataDir })
  const truth = servedTruth(simulator.control.journal(), 0)
  for (const table of tables) {
    const stored = await storedRows(database.database.pool, table)
    expect(stored.size).toBeGreaterThanOrEqual(30)
    expect(differences(table, stored, truth[table], 'any served')).toEqual([])
  }
})
