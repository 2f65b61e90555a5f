import { afterAll, beforeAll, expect, it } from 'vitest'
import { verify } from '../../../src/ledger/verify.js'
import type { Interval } from '../../../src/market/candle.js'
import { type Simulator, startSimulator } from '../../../src/simulator/server.js'
import { claims, runBackfill, storedCandles, trueCandles } from '../../support/backfill.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'

const dayMs = 86_400_000
const now = Date.UTC(2026, 5, 15, 12, 34, 56)
const launch = now - 200 * dayMs

let test: TestDatabase
let simulator: Simulator
beforeAll(async () => {
  test = await createTestDatabase()
  simulator = await startSimulator({
    now: () => now,
    limits: { enforce: false },
    customInstruments: [{ category: 'SPOT', symbol: 'BTCUSDT', launchTime: launch, fillsPerHour: 10 }],
  })
})
afterAll(async () => {
  await simulator.close()
  await test.drop()
})

const further: Interval[] = ['3D', '1W', '6Hutc', '12Hutc', '1Dutc', '3Dutc', '1Wutc']

it.each(further)('candles of %s are fetched, claimed and checked like all others', async (interval) => {
  const series = { category: 'SPOT', symbol: 'BTCUSDT', type: 'market', interval } as const
  const request = {
    stream: 'candles' as const,
    categories: ['SPOT'] as const,
    symbols: ['BTCUSDT'],
    types: ['market'] as const,
    intervals: [interval],
    from: 'launch' as const,
    to: now,
  }
  await runBackfill(test, simulator, request, { serviceNow: now })
  const truth = trueCandles(simulator, series, { from: launch - 8 * dayMs, to: now }, now)
  expect(truth.length).toBeGreaterThan(20)
  expect(await storedCandles(test, series)).toEqual(truth)
  const { allowed, claimed } = await claims(test, series)
  expect(claimed).toEqual(allowed)
  const again = await runBackfill(test, simulator, request, { serviceNow: now })
  expect(again.requests).toBe(0)
  for await (const { disagreements } of verify(test.database.db, () => true)) expect(disagreements).toEqual([])
  const { rows } = await test.database.pool.query<{ steps: number }>(
    `select count(*) as steps from market.candles_without_gaps('SPOT', 'BTCUSDT', $1, $2, $3) where is_recorded`,
    [interval, new Date(launch), new Date(now)],
  )
  expect(rows[0]?.steps).toBeGreaterThanOrEqual(truth.length - 1)
})
