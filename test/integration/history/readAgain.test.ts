import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest'
import type { BackfillRequest } from '../../../src/history/request.js'
import { listGaps } from '../../../src/ledger/gaps.js'
import { type Simulator, startSimulator } from '../../../src/simulator/server.js'
import { runBackfill } from '../../support/backfill.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'

const dayMs = 86_400_000
const now = Date.UTC(2026, 5, 15, 12)
const begin = now - 4 * dayMs
const request: BackfillRequest = {
  stream: 'candles',
  categories: ['SPOT'],
  symbols: ['PAIR'],
  types: ['market'],
  intervals: ['1m'],
  from: begin,
  to: now - 3 * dayMs,
}

let test: TestDatabase
let service: Simulator
beforeAll(async () => {
  test = await createTestDatabase()
})
afterAll(() => test.drop())
beforeEach(async () => {
  service = await startSimulator({
    now: () => now,
    limits: { enforce: false },
    customInstruments: [{ category: 'SPOT', symbol: 'PAIR', launchTime: now - 100 * dayMs }],
  })
  await test.database.pool.query('truncate market.candles, recorder.ledger, recorder.want, recorder.slice')
  const { summary } = await runBackfill(test, service, request, { serviceNow: now })
  expect(summary).toMatchObject({ failed: [], left: 0 })
})
afterEach(() => service.close())

const readAgain = async (to = request.to) =>
  (await runBackfill(test, service, { ...request, to }, { serviceNow: now, again: true })).summary

it('counts as left and names what the service refuses to give again, and makes no gap of what is stored', async () => {
  service.control.setFaults([{ kind: 'errorCode', code: '40309', operations: ['candles', 'history-candles'] }])
  const summary = await readAgain()
  expect(summary).toMatchObject({ rows: 0, left: 1_440, failed: [{ from: begin, to: request.to }] })
  expect(summary.failed[0]?.reason).toContain('40309')
  expect(await listGaps(test.database.db)).toEqual([])
  service.control.setFaults([])
  expect(await readAgain()).toMatchObject({ left: 0, failed: [] })
})

it('counts as left what comes so that it cannot be understood', async () => {
  service.control.setQuirks({ brokenRows: { operations: ['candles', 'history-candles'], kind: 'nonsense' } })
  const { left, failed } = await readAgain(begin + 3_600_000)
  expect(left).toBeGreaterThan(0)
  expect(left).toBeLessThan(60)
  expect(failed).not.toEqual([])
})
