import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { BackfillRequest } from '../../../src/history/request.js'
import type { CandleSeries, Interval } from '../../../src/market/candle.js'
import type { Quirks } from '../../../src/simulator/world/quirks.js'
import { type Simulator, startSimulator } from '../../../src/simulator/server.js'
import { listGaps } from '../../../src/ledger/gaps.js'
import { claims, runBackfill, storedCandles, trueCandles } from '../../support/backfill.js'
import { reviewOnce } from '../../../src/history/review.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'

const minuteMs = 60_000
const hourMs = 60 * minuteMs
const dayMs = 24 * hourMs
const now = Date.UTC(2026, 5, 15, 12, 34, 56)
const launch = now - 100 * dayMs

let test: TestDatabase
let simulator: Simulator | undefined
beforeAll(async () => {
  test = await createTestDatabase()
})
afterAll(() => test.drop())
beforeEach(async () => {
  await test.database.pool.query(
    'truncate market.candles, recorder.ledger, recorder.candle_revision, recorder.rejected_row',
  )
})
afterEach(async () => {
  await simulator?.close()
  simulator = undefined
})

async function startService(quirks: Partial<Quirks> = {}, clock = { now }): Promise<Simulator> {
  simulator = await startSimulator({
    now: () => clock.now,
    limits: { enforce: false },
    quirks: { zeroByteCandlesAfterListingMs: 0, candleDepthDays: { '1m': 1 }, ...quirks },
    customInstruments: [{ category: 'SPOT', symbol: 'BTCUSDT', launchTime: launch, fillsPerHour: 60 }],
  })
  return simulator
}

function series(interval: Interval = '1m'): CandleSeries {
  return { category: 'SPOT', symbol: 'BTCUSDT', type: 'market', interval }
}

function request(from: number | 'launch', to = now, interval: Interval = '1m'): BackfillRequest {
  const what = { categories: ['SPOT'], symbols: ['BTC*'], types: ['market'], intervals: [interval] } as const
  return { stream: 'candles', ...what, from, to }
}

/** Everything that is asked for is stored, as it truly is; the coverage is what the stored candles fill. */
async function expectTruth(service: Simulator, from: number, to = now, interval: Interval = '1m', at = now) {
  const stored = (await storedCandles(test, series(interval))).filter(
    ([openTime]) => Number(openTime) >= from && Number(openTime) < to,
  )
  expect(stored).toEqual(trueCandles(service, series(interval), { from, to }, at))
  const { allowed, claimed } = await claims(test, series(interval))
  expect(claimed).toEqual(allowed)
}

/** Two pages of `candles` and eight of `history-candles`. */
const requestedMs = 1.5 * dayMs
const begin = now - requestedMs

describe('a backfill from a service that', () => {
  it('behaves as it was observed to, with few requests; a second one makes none', async () => {
    const service = await startService()
    const first = await runBackfill(test, service, request(begin), { serviceNow: now })
    await expectTruth(service, begin)
    const least = Math.ceil(1440 / 1000) + Math.ceil(720 / 100)
    expect(first.requests).toBeLessThanOrEqual(least + 10)
    const second = await runBackfill(test, service, request(begin), { serviceNow: now })
    expect(second).toMatchObject({ summary: { requests: 0, left: 0 }, requests: 0 })
  })

  const boundaries: Partial<Quirks>[] = [
    { historyEndInclusive: true },
    { historyIgnoresStart: false, historyRoundsUp: false },
    { candlesStartInclusive: true, candlesEndExclusive: true },
    { candlesEndExclusive: true, historyEndInclusive: true, historyIgnoresStart: false },
  ]
  it.each(boundaries)('understands boundaries in another way: %j', async (quirks) => {
    const service = await startService(quirks)
    await runBackfill(test, service, request(begin), { serviceNow: now })
    await expectTruth(service, begin)
  })

  it.each(['400172', '40017', '40020', '45110'])('refuses an old start with code %s', async (candlesRefuseOldStart) => {
    const service = await startService({ candlesRefuseOldStart })
    await runBackfill(test, service, request(begin), { serviceNow: now })
    await expectTruth(service, begin)
  })

  it.each([true, false])('opens days at 16:00 UTC: %s', async (dailyOpenAt16Utc) => {
    const service = await startService({ dailyOpenAt16Utc, candleDepthDays: { '1D': 20 } })
    await runBackfill(test, service, request('launch', now, '1D'), { serviceNow: now })
    await expectTruth(service, launch - dayMs, now, '1D')
    const again = await runBackfill(test, service, request('launch', now, '1D'), { serviceNow: now })
    expect(again.requests).toBe(0)
  })

  it('has nothing long before an instrument began to trade: each late look puts off the next one', async () => {
    const service = await startService({ hiddenCandles: [{ from: launch, to: now }] })
    const ask = (from: number, to: number) => runBackfill(test, service, request(from, to), { serviceNow: now })
    for (const times of [1, 2]) {
      await ask(now - 13 * hourMs, now - 3 * hourMs)
      // Trading has begun by the second look.
      service.control.setQuirks({ hiddenCandles: [{ from: launch, to: now - 2 * hourMs }] })
      if (times === 1) await ask(now - 2 * hourMs, now)
      const { rows } = await test.database.pool.query<{ times: number }>(
        "select times from recorder.ledger where verdict = 'unanswered'",
      )
      expect(rows).toEqual([{ times }])
      await test.database.pool.query(
        `update recorder.ledger set noted_at = noted_at - interval '1 hour 1 second' where verdict = 'unanswered'`,
      )
    }
  })

  it('lies that there is nothing: no emptiness is final before a look an hour later finds it again', async () => {
    const lie = { from: launch, to: Math.floor((now - 2 * hourMs) / minuteMs) * minuteMs }
    const service = await startService({ hiddenCandles: [lie] })
    const from = now - 4 * hourMs
    const asked = () => runBackfill(test, service, request(from), { serviceNow: now })
    const hourPasses = () =>
      test.database.pool.query(
        `update recorder.ledger set noted_at = noted_at - interval '1 hour 1 second' where verdict = 'unanswered'`,
      )
    const left = Math.floor((lie.to - from) / minuteMs)
    expect((await asked()).summary).toMatchObject({ empty: [], unanswered: [{ to: lie.to }], left })
    // Who asks again at once is told again what is missing. A second look so soon proves no more.
    const again = await asked()
    expect(again.summary).toMatchObject({ empty: [], unanswered: [{ to: lie.to }], left })
    expect(again.requests).toBeGreaterThan(0)
    service.control.setQuirks({ hiddenCandles: [] })
    await hourPasses()
    const [id = 0] = await reviewOnce(test.database.db, now)
    expect(id).toBeGreaterThan(0)
    await asked()
    await expectTruth(service, from)
    expect(await listGaps(test.database.db, { verdicts: ['missing', 'lost'] })).toEqual([])
    expect((await test.database.pool.query("select from recorder.ledger where verdict = 'unanswered'")).rows).toEqual(
      [],
    )

    await test.database.pool.query(
      "truncate market.candles, recorder.want cascade; delete from recorder.ledger where verdict <> 'before the beginning'",
    )
    service.control.setQuirks({ hiddenCandles: [lie] })
    await asked()
    await hourPasses()
    expect((await asked()).summary).toMatchObject({ empty: [{ to: lie.to }], unanswered: [], failed: [] })
  })

  it('sends empty bodies for the past: no emptiness is confirmed, and the candles come later', async () => {
    const hidden = {
      from: launch,
      to: Math.floor((now - 2 * hourMs) / minuteMs) * minuteMs,
      operation: 'candles' as const,
    }
    const service = await startService({ hiddenCandles: [hidden] })
    service.control.setFaults([{ kind: 'emptyBody', operations: ['history-candles'] }])
    const asked = () => runBackfill(test, service, request(now - 4 * hourMs), { serviceNow: now })
    for (let look = 0; look < 3; look++) {
      const { summary } = await asked()
      const reason = expect.stringContaining('or not so that they can be understood') as string
      expect(summary).toMatchObject({ empty: [], unanswered: [], failed: [{ to: hidden.to, reason }] })
      await test.database.pool.query("update recorder.ledger set noted_at = noted_at - interval '2 hours'")
    }
    service.control.setFaults([])
    await asked()
    await expectTruth(service, now - 4 * hourMs)
    expect(await listGaps(test.database.db, { verdicts: ['missing', 'lost'] })).toEqual([])
  })

  it.each([true, false])(
    'refuses, then shows a later beginning: the gap stays open until it is confirmed: %s',
    async (isTrue) => {
      const hidden = { from: launch, to: Math.floor((now - 2 * hourMs) / minuteMs) * minuteMs }
      const from = Math.floor((now - 4 * hourMs) / minuteMs) * minuteMs
      const service = await startService({ hiddenCandles: [hidden] })
      const asked = () => runBackfill(test, service, request(from), { serviceNow: now })
      service.control.setFaults([{ kind: 'errorCode', code: '48001', operations: ['candles', 'history-candles'] }])
      await asked()
      service.control.setFaults([])
      const gaps = async () =>
        (await listGaps(test.database.db)).map(({ state, range }) => [state, range.from, range.to])
      for (let look = 0; look < 2; look++) {
        const { summary } = await asked()
        expect(summary).toMatchObject({ empty: [], unanswered: [{ to: hidden.to }] })
        expect(await gaps()).toContainEqual(['open', from, hidden.to])
        expect((await gaps()).filter(([state]) => state === 'open')).toHaveLength(1)
      }
      if (!isTrue) service.control.setQuirks({ hiddenCandles: [] })
      await test.database.pool.query(
        `update recorder.ledger set noted_at = noted_at - interval '1 hour 1 second' where verdict = 'unanswered'`,
      )
      const { summary } = await asked()
      expect(summary.empty).toMatchObject(isTrue ? [{ to: hidden.to }] : [])
      expect((await gaps()).filter(([state]) => state === 'open')).toEqual([])
      if (!isTrue) await expectTruth(service, from)
    },
  )

  it('responds with empty pages at first', async () => {
    const service = await startService({
      emptyAtFirst: { operations: ['candles', 'history-candles'], responses: 2 },
    })
    const { summary } = await runBackfill(test, service, request(begin), { serviceNow: now })
    expect(summary).toMatchObject({ failed: [], left: 0 })
    await expectTruth(service, begin)
  })

  it('hides rows: they are not claimed, named as a gap, and asked for again by the next run', async () => {
    const hidden = { from: now - 1.25 * dayMs, to: now - 1.25 * dayMs + 3 * hourMs }
    const from = Math.floor(hidden.from / minuteMs) * minuteMs + minuteMs
    const to = Math.floor(hidden.to / minuteMs) * minuteMs + minuteMs
    const service = await startService({ hiddenCandles: [hidden] })
    const { summary } = await runBackfill(test, service, request(begin), { serviceNow: now })
    expect(summary.failed).toMatchObject([{ from, to, reason: 'the service does not give these candles' }])
    expect(await listGaps(test.database.db, { verdicts: ['missing'] })).toMatchObject([
      { stream: 'candles', range: { from, to } },
    ])
    const truth = trueCandles(service, series(), { from: begin, to: now }, now)
    const shown = truth.filter(([openTime]) => Number(openTime) < hidden.from || Number(openTime) >= hidden.to)
    const stored = await storedCandles(test, series())
    expect(stored.filter(([openTime]) => Number(openTime) >= begin)).toEqual(shown)
    const { allowed, claimed } = await claims(test, series())
    expect(claimed).toEqual(allowed)

    service.control.setQuirks({ hiddenCandles: [] })
    const { requests } = await runBackfill(test, service, request(begin), { serviceNow: now })
    // Two pages of history-candles hold it. From two empty ones of candles the new worker learns how far these reach.
    expect(requests).toBe(4)
    await expectTruth(service, begin)
    expect(await listGaps(test.database.db, { verdicts: ['missing'] })).toEqual([])
  })

  it('hides rows that are not made of trades from one of its operations only', async () => {
    const hidden = { from: now - 0.8 * dayMs, to: now - 0.7 * dayMs, operation: 'candles' as const }
    const service = await startService({ hiddenCandles: [hidden] })
    const marks = { ...request(begin), types: ['mark'] as const }
    await runBackfill(test, service, marks, { serviceNow: now })
    const mark = { ...series(), type: 'mark' as const }
    const stored = (await storedCandles(test, mark)).filter(([openTime]) => Number(openTime) >= begin)
    expect(stored).toEqual(trueCandles(service, mark, { from: begin, to: now }, now))
  })

  it('goes down for a while', async () => {
    const clock = { now }
    const service = await startService({}, clock)
    service.control.setFaults([{ kind: 'down', fromMs: now + 1, toMs: now + 10 }])
    const running = runBackfill(test, service, request(now - 10 * dayMs), { serviceNow: now, factor: 5 })
    await new Promise((resolve) => setTimeout(resolve, 600))
    clock.now = now + 5
    await new Promise((resolve) => setTimeout(resolve, 1_500))
    clock.now = now + 20
    const { summary } = await running
    expect(summary).toMatchObject({ failed: [], left: 0 })
    await expectTruth(service, now - 10 * dayMs)
  })

  it('fails in every way that passes', async () => {
    const service = await startService()
    service.control.setFaults([
      { kind: 'http', status: 503, probability: 0.1 },
      { kind: 'tornBody', probability: 0.1 },
      { kind: 'html', probability: 0.1 },
      { kind: 'emptyBody', probability: 0.05 },
      { kind: 'errorCode', code: '45001', probability: 0.05 },
      { kind: 'reset', probability: 0.05 },
    ])
    const { summary } = await runBackfill(test, service, request(begin), { serviceNow: now })
    expect(summary).toMatchObject({ failed: [], left: 0 })
    await expectTruth(service, begin)
  })

  it('changes closed candles later: read again, they are corrected and the change is logged', async () => {
    const clock = { now }
    const revised = { from: now - dayMs, to: now - dayMs + hourMs, after: now + 1 }
    const service = await startService({ revisedCandles: [revised] }, clock)
    await runBackfill(test, service, request(begin), { serviceNow: now })
    clock.now = now + 10
    const { summary } = await runBackfill(test, service, request(begin), { serviceNow: now, again: true })
    expect(summary).toMatchObject({ updated: 60, inserted: 0 })
    const { rows } = await test.database.pool.query<{ count: number; grown: number }>(
      'select count(*), count(*) filter (where new_high > old_high) as grown from recorder.candle_revision',
    )
    expect(rows).toEqual([{ count: 60, grown: 60 }])
  })

  it('has rows that cannot be understood: the others are stored, and they are named', async () => {
    const service = await startService({ brokenRows: { operations: ['candles'], kind: 'nonsense' } })
    const { summary } = await runBackfill(test, service, request(now - dayMs), { serviceNow: now })
    const truth = trueCandles(service, series(), { from: now - dayMs, to: now }, now)
    const stored = await storedCandles(test, series())
    // What candles breaks, history-candles gives.
    expect(summary.failed).toEqual([])
    expect(stored).toEqual(truth)
  })

  it('has removed a symbol: what it refuses is a gap with its reason, and failed on every run', async () => {
    const service = await startService()
    service.world.amend('SPOT', 'BTCUSDT', { removeTime: now - hourMs })
    for (let run = 0; run < 2; run++) {
      const { summary } = await runBackfill(test, service, request(begin), { serviceNow: now })
      expect(summary.left).toBe(requestedMs / minuteMs - 1)
      // A busy machine may fetch it in several slices, and each has a reason of its own.
      const refused = { reason: expect.stringContaining('40309') as string }
      expect(summary.failed.length).toBeGreaterThan(0)
      for (const failed of summary.failed) expect(failed).toMatchObject(refused)
      const gaps = await listGaps(test.database.db)
      for (const gap of gaps) expect(gap).toMatchObject({ state: 'open', ...refused })
      expect(gaps.reduce((sum, { range }) => sum + range.to - range.from, 0)).toBe(requestedMs - minuteMs)
    }
    // It is back, and what it gives now repairs the gap.
    service.world.amend('SPOT', 'BTCUSDT', { removeTime: null })
    await runBackfill(test, service, request(begin), { serviceNow: now })
    await expectTruth(service, begin)
    expect(await listGaps(test.database.db, { verdicts: ['missing', 'lost'] })).toEqual([])
  })

  it('has nothing before an instrument began to trade', async () => {
    const service = await startService({ candleDepthDays: { '1m': 200 } })
    service.world.amend('SPOT', 'BTCUSDT', { launchTime: now - 2 * dayMs })
    // The list of instruments says it was launched earlier than it was.
    const first = Math.floor((now - 2 * dayMs) / minuteMs) * minuteMs
    const listed = { ...request(now - 40 * dayMs), symbols: ['BTCUSDT'] }
    const launchedEarlier = {
      ...service,
      world: { ...service.world, listings: () => service.world.listings().map((l) => ({ ...l, launchTime: launch })) },
    }
    const { summary } = await runBackfill(test, launchedEarlier, listed, { serviceNow: now })
    expect(summary.unanswered).toContainEqual(expect.objectContaining({ to: first }))
    expect(summary.empty).toEqual([])
    await expectTruth(service, first)
    expect(summary.left).toBeGreaterThan(0)
  })
})
