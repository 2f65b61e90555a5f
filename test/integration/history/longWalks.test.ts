import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest'
import { candleStream, instrumentStream, type Series } from '../../../src/db/series.js'
import type { ExchangeClient } from '../../../src/exchange/client.js'
import { OperationStates } from '../../../src/history/reach.js'
import { repairOf } from '../../../src/history/repairs.js'
import { SliceRunner } from '../../../src/history/runSlice.js'
import { listGaps } from '../../../src/ledger/gaps.js'
import { takeSlice } from '../../../src/ledger/slices.js'
import { insertWants } from '../../../src/ledger/wants.js'
import { bounds } from '../../../src/market/bounds.js'
import type { Candle } from '../../../src/market/candle.js'
import { dayMs, hourMs, minuteMs } from '../../../src/market/values.js'
import { systemClock } from '../../../src/runtime/clock.js'
import { Incidents } from '../../../src/runtime/incidents.js'
import { createLogger } from '../../../src/runtime/logger.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { aCandle, aFill } from '../../support/marketRows.js'

const now = Date.UTC(2026, 10, 20)
const key = { category: 'SPOT', symbol: 'BTCUSDT' } as const

let test: TestDatabase
const { walkRequests, walkPieces } = bounds
beforeAll(async () => {
  test = await createTestDatabase()
  // Walks of the real length would take minutes.
  Object.assign(bounds, { walkRequests: 60, walkPieces: 100 })
})
afterAll(() => {
  Object.assign(bounds, { walkRequests, walkPieces })
  return test.drop()
})
beforeEach(async () => {
  await test.database.pool.query('truncate market.candles, market.fills, recorder.ledger, recorder.want cascade')
})

type Query = { readonly startTime?: number; readonly endTime: number; readonly limit: number }

/** Fetches an hour of a series from a service that shows rows. Resolves to what became of it. */
async function fetchHour(series: Series, shows: (query: Query) => readonly object[]) {
  const { db } = test.database
  let requests = 0
  const show = (query: Query) => {
    if (++requests > 10 * bounds.walkRequests) throw new Error('it does not end')
    return Promise.resolve({ rows: shows(query), rejected: [], unkept: 0, requestTime: now, receivedAt: now })
  }
  const newest = { endTime: now, limit: 100 }
  const client = { candles: show, historyCandles: show, pastFills: show, fills: () => show(newest) }
  const logger = createLogger('silent')
  const runner = new SliceRunner({
    db,
    client: client as unknown as ExchangeClient,
    states: new OperationStates(systemClock),
    clock: systemClock,
    serviceNow: () => now,
    logger,
    incidents: new Incidents(logger, systemClock),
    settleMs: 0,
  })
  const range = { from: now - 2 * hourMs, to: now - hourMs }
  await insertWants(db, [repairOf(series, [range])])
  const slice = await takeSlice(db, 'worker', ({ ranges }) => ranges, [series.stream])
  if (slice === null) throw new Error('nothing to fetch')
  const { failure } = await runner.run(slice, () => undefined, new AbortController().signal)
  const { rows } = await test.database.pool.query('select from recorder.want where ended_at is null')
  return { requests, failure, isOpen: rows.length > 0, gaps: await listGaps(db) }
}

const candles = candleStream({ ...key, type: 'mark', interval: '1m' })
const candleAt = (openTime: number): Candle => aCandle({ ...key, type: 'mark', openTime, isClosed: true })

it('a service that answers with candles of other times is asked a number of times, and its candles are stored', async () => {
  const tooMany = 'its history takes more requests than are sent at once'
  let next = now - 100 * dayMs
  const { requests, ...result } = await fetchHour(candles, () => [candleAt((next += minuteMs))])
  expect(result).toMatchObject({ failure: tooMany, isOpen: false, gaps: [{ reason: tooMany }] })
  expect(requests).toBe(bounds.walkRequests)
  const { rows } = await test.database.pool.query('select from market.candles')
  expect(rows).toHaveLength(requests)
})

it('a history of fills that proves few milliseconds with each page is asked a number of times', async () => {
  const tooMany = 'its history takes more requests than are sent at once'
  const fillAt = (ts: number) => aFill({ ...key, ts, execId: String(ts) })
  const series = instrumentStream('fills', key)
  const { requests, ...result } = await fetchHour(series, ({ endTime }) =>
    [0, 1, 2, 3].map((ms) => fillAt(endTime - ms)),
  )
  expect(result).toMatchObject({ failure: tooMany, isOpen: false })
  // Milliseconds that it was asked for alone may be gaps of their own.
  expect(result.gaps.map(({ reason }) => reason)).toContain(tooMany)
  // The newest fills are no part of the walk.
  expect(requests).toBe(bounds.walkRequests + 1)
})

it('candles that lack every other one are held up to a bound', async () => {
  const tooMany = 'its candles come in more pieces than are held of them'
  const { requests, ...result } = await fetchHour(candles, () =>
    Array.from({ length: 500 }, (_, place) => candleAt(now - 100 * dayMs + place * 2 * minuteMs)),
  )
  expect(result).toMatchObject({ failure: tooMany, isOpen: false, gaps: [{ reason: tooMany }] })
  expect(requests).toBe(1)
})
