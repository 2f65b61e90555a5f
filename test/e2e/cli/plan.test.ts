import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Plan } from '../../../src/collect/plan/plan.js'
import { type Simulator, startSimulator } from '../../../src/simulator/server.js'
import { insertFills } from '../../support/insertFills.js'
import { recordInstruments } from '../../../src/ledger/instruments.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { aFill, anInstrument } from '../../support/marketRows.js'
import { runProgram } from '../../support/program.js'

let testDatabase: TestDatabase
let simulator: Simulator
beforeAll(async () => {
  testDatabase = await createTestDatabase()
  simulator = await startSimulator({ scale: 'tiny' })
})
afterAll(async () => {
  await simulator.close()
  await testDatabase.drop()
})

test('the plan goes by rates of fills that the database has, and says so; without a database by turnover', async () => {
  const { db } = testDatabase.database
  const now = Date.now()
  const fills = Array.from({ length: 100 }, (_, i) => aFill({ execId: String(i), ts: now - i * 1000, receivedAt: now }))
  await recordInstruments(db, 'SPOT', [anInstrument({ symbol: 'BTCUSDT' })], now - 86_400_000)
  await insertFills(db, fills)
  const planWith = async (env: Readonly<Record<string, string>>) => {
    const { exitCode, stdout } = await runProgram(['plan', '--json'], { EXCHANGE_BASE_URL: simulator.url, ...env })
    expect(exitCode).toBe(0)
    return (JSON.parse(stdout) as Plan).notes.join('\n')
  }
  expect(await planWith({ DATABASE_URL: testDatabase.url })).toContain(
    'For 1 instruments the rate is what was recorded',
  )
  expect(await planWith({})).not.toContain('recorded lately')
  expect(await planWith({ DATABASE_URL: 'postgres://nobody@127.0.0.1:9/none' })).not.toContain('recorded lately')
})
