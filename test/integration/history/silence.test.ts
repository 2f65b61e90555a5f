import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { BackfillRequest } from '../../../src/history/request.js'
import { verify } from '../../../src/ledger/verify.js'
import type { CandleSeries } from '../../../src/market/candle.js'
import type { TimeRange } from '../../../src/market/timeRange.js'
import type { Quirks } from '../../../src/simulator/world/quirks.js'
import { type Simulator, startSimulator } from '../../../src/simulator/server.js'
import { listGaps } from '../../../src/ledger/gaps.js'
import { noTradeRanges } from '../../support/noTradeRanges.js'
import { claims, runBackfill, storedCandles, trueCandles } from '../../support/backfill.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'

const minuteMs = 60_000
const hourMs = 60 * minuteMs
const dayMs = 24 * hourMs
const now = Date.UTC(2026, 5, 15, 12, 34, 56)
const series: CandleSeries = { category: 'SPOT', symbol: 'QUIET', type: 'market', interval: '1m' }
const request: BackfillRequest = {
  stream: 'candles',
  categories: ['SPOT'],
  symbols: ['QUIET'],
  types: ['market'],
  intervals: ['1m'],
  from: now - 3 * dayMs,
  to: now,
}

let test: TestDatabase
let simulator: Simulator | undefined
beforeAll(async () => {
  test = await createTestDatabase()
})
afterAll(() => test.drop())
beforeEach(async () => {
  await test.database.pool.query('truncate market.candles, recorder.ledger, recorder.candle_revision')
})
afterEach(async () => {
  await simulator?.close()
  simulator = undefined
})

async function startService(quirks: Partial<Quirks> = {}): Promise<Simulator> {
  simulator = await startSimulator({
    now: () => now,
    limits: { enforce: false },
    quirks: { zeroByteCandlesAfterListingMs: 0, candleDepthDays: { '1m': 2 }, ...quirks },
    customInstruments: [{ category: 'SPOT', symbol: 'QUIET', launchTime: now - 100 * dayMs, fillsPerHour: 60 }],
  })
  return simulator
}

/** Minutes without a trade: two of three in each hour, and half an hour before the present. */
function quietMinutes(): TimeRange[] {
  const ranges: TimeRange[] = []
  for (let time = now - 5 * dayMs; time < now - hourMs; time += hourMs) {
    const hour = Math.floor(time / hourMs) * hourMs
    ranges.push(
      { from: hour + 5 * minuteMs, to: hour + 25 * minuteMs },
      { from: hour + 30 * minuteMs, to: hour + 50 * minuteMs },
    )
  }
  return [...ranges, { from: now - 30 * minuteMs, to: now }]
}

async function rows<Row extends object>(text: string): Promise<Row[]> {
  return (await test.database.pool.query<Row>(text)).rows
}

describe('a series that is silent where nothing was traded', () => {
  it('is known in full, has no gap, and a second backfill asks for its newest edge alone', async () => {
    const quiet = quietMinutes()
    const service = await startService({ hiddenCandles: quiet })
    const first = await runBackfill(test, service, request, { serviceNow: now })
    expect(first.summary.failed).toEqual([])
    expect(first.requests).toBeLessThan(45)
    const isShown = (time: number) => !quiet.some(({ from, to }) => time >= from && time < to)
    const truth = trueCandles(service, series, { from: now - 3 * dayMs, to: now }, now)
    const stored = (await storedCandles(test, series)).filter(([time]) => Number(time) >= now - 3 * dayMs)
    expect(stored).toEqual(truth.filter(([time]) => isShown(Number(time))))
    const { allowed, claimed } = await claims(test, series)
    expect(claimed).toEqual(allowed)
    // From its first candle to its last in one piece; what comes after that is not claimed.
    expect(claimed).toHaveLength(1)
    expect(claimed[0]?.to).toBe(Math.ceil((now - 30 * minuteMs) / minuteMs) * minuteMs)
    expect(await listGaps(test.database.db)).toEqual([])

    const second = await runBackfill(test, service, request, { serviceNow: now })
    expect(second.requests).toBeLessThanOrEqual(3)
    for await (const { check, disagreements } of verify(test.database.db, () => true)) {
      expect({ check, disagreements }).toEqual({ check, disagreements: [] })
    }
  })

  it('is told apart from what was not recorded', async () => {
    const hour = Math.floor((now - 10 * hourMs) / hourMs) * hourMs
    const service = await startService({ hiddenCandles: quietMinutes() })
    await runBackfill(test, service, { ...request, from: hour, to: hour + hourMs }, { serviceNow: now })
    await runBackfill(
      test,
      service,
      { ...request, from: hour + 2 * hourMs, to: hour + 3 * hourMs },
      { serviceNow: now },
    )
    await test.database.pool.query(`delete from market.candles where open_time >= $1 and open_time < $2`, [
      new Date(hour + hourMs),
      new Date(hour + 2 * hourMs),
    ])
    await test.database.pool.query(
      `update recorder.ledger set ranges = ranges - tstzmultirange(tstzrange($1, $2)) where verdict in ('recorded', 'silent', 'no trade')`,
      [new Date(hour + hourMs), new Date(hour + 2 * hourMs)],
    )
    const found = await test.database.pool.query<{ minutes: number; filled: number; unknown: number }>(
      `select count(*) as minutes, count(*) filter (where is_filled) as filled,
         count(*) filter (where is_filled and not is_recorded) as unknown
       from market.candles_without_gaps('SPOT', 'QUIET', '1m', $1, $2)`,
      [new Date(hour), new Date(hour + 3 * hourMs)],
    )
    expect(found.rows).toEqual([{ minutes: 180, filled: 140, unknown: 60 }])
    const silent = await rows<{ count: number }>(
      `select count(*) as count from market.no_trade where symbol = 'QUIET' and not is_confirmed
         and from_time >= '${new Date(hour).toISOString()}' and to_time <= '${new Date(hour + hourMs).toISOString()}'`,
    )
    expect(silent).toEqual([{ count: 2 }])
  })

  it('is taken back when candles come after all, which is noted as a gap that is repaired', async () => {
    const hidden = { from: now - 10 * hourMs, to: now - 9 * hourMs }
    const service = await startService({ hiddenCandles: [...quietMinutes(), hidden] })
    await runBackfill(test, service, request, { serviceNow: now })
    service.control.setQuirks({ hiddenCandles: quietMinutes() })
    await runBackfill(test, service, request, { serviceNow: now, again: true })
    const [counted] = await rows<{ turned_up: number }>(
      "select (sum(extract(epoch from to_time - from_time)) / 60)::bigint as turned_up from market.gaps where state = 'repaired'",
    )
    const shown = trueCandles(service, series, hidden, now).filter(
      ([time]) => !quietMinutes().some(({ from, to }) => Number(time) >= from && Number(time) < to),
    )
    expect(counted).toEqual({ turned_up: shown.length })
    expect((await listGaps(test.database.db)).every(({ state }) => state === 'repaired')).toBe(true)
    expect(await listGaps(test.database.db)).not.toEqual([])
    const silent = await noTradeRanges(test.database.db, series)
    const stored = (await storedCandles(test, series)).map(([time]) => Number(time))
    expect(silent.some(({ from, to }) => stored.some((time) => time >= from && time < to))).toBe(false)
    const { allowed, claimed } = await claims(test, series)
    expect(claimed).toEqual(allowed)
  })
})
