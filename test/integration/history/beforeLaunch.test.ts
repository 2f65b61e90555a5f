import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { BackfillRequest } from '../../../src/history/request.js'
import { recordInstruments } from '../../../src/ledger/instruments.js'
import type { Interval } from '../../../src/market/candle.js'
import { type Simulator, startSimulator } from '../../../src/simulator/server.js'
import { runBackfill, storedCandles, trueCandles } from '../../support/backfill.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { anInstrument } from '../../support/marketRows.js'

const dayMs = 86_400_000
const now = Date.UTC(2026, 5, 15, 12, 34, 56)
const launch = now - 100 * dayMs

let test: TestDatabase
let simulator: Simulator | undefined
beforeAll(async () => {
  test = await createTestDatabase()
})
afterAll(() => test.drop())
beforeEach(() => test.database.pool.query('truncate market.candles, recorder.ledger'))
afterEach(() => simulator?.close())

async function startService(): Promise<Simulator> {
  simulator = await startSimulator({
    now: () => now,
    limits: { enforce: false },
    quirks: { zeroByteCandlesAfterListingMs: 0, candleDepthDays: { '1m': 1 } },
    customInstruments: [{ category: 'SPOT', symbol: 'BTCUSDT', launchTime: launch, fillsPerHour: 60 }],
  })
  return simulator
}

function request(from: number | 'launch', to: number, interval: Interval): BackfillRequest {
  const what = { categories: ['SPOT'], symbols: ['BTC*'], types: ['market'], intervals: [interval] } as const
  return { stream: 'candles', ...what, from, to }
}

describe('a backfill from before the listed launch', () => {
  const list = async (launchTime: number) => {
    await test.database.pool.query('truncate market.instruments, market.instrument_history')
    await recordInstruments(test.database.db, 'SPOT', [anInstrument({ symbol: 'BTCUSDT', launchTime })], now)
  }

  it.each(['1m', '1H', '1D'] as const)('gets the older candles of %s, which the service has', async (interval) => {
    const service = await startService()
    // As after a split, when the instrument is listed anew before the first recording.
    const launchTime = now - dayMs
    await list(launchTime)
    const from = now - (interval === '1m' ? 2 : 50) * dayMs
    const { summary } = await runBackfill(test, service, request(from, now, interval), { serviceNow: now, launchTime })
    expect(summary).toMatchObject({ left: 0, empty: [], failed: [] })
    const series = { category: 'SPOT', symbol: 'BTCUSDT', type: 'market', interval } as const
    const stored = await storedCandles(test, series)
    const within = stored.filter(([openTime]) => Number(openTime) >= from && Number(openTime) < now)
    expect(within).toEqual(trueCandles(service, series, { from, to: now }, now))
  })

  it.each(['1m', '1H', '1D'] as const)('takes few requests for %s where nothing is older', async (interval) => {
    const service = await startService()
    await list(launch)
    const options = { serviceNow: now, launchTime: launch }
    const to = launch + dayMs
    const least = await runBackfill(test, service, request('launch', to, interval), options)
    await test.database.pool.query('truncate market.candles, recorder.ledger')
    const first = await runBackfill(test, service, request(now - 5 * 365 * dayMs, to, interval), options)
    expect(first.summary).toMatchObject({ left: 0, unanswered: [], failed: [] })
    expect(first.summary.empty).toHaveLength(1)
    // Some slices may look before the first one has settled it; the reach of candles is learned by one request more.
    expect(first.requests).toBeLessThanOrEqual(least.requests + 10)
    const second = await runBackfill(test, service, request(now - 5 * 365 * dayMs, to, interval), options)
    expect(second).toMatchObject({ summary: { left: 0 }, requests: 0 })
  })
})
