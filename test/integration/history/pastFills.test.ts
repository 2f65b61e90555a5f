import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { OperationStates } from '../../../src/history/reach.js'
import { fillReachMs, fillRefusals } from '../../../src/history/pastFills.js'
import { FillRepair, type FillRepairOptions } from '../../../src/history/repairs.js'
import { systemClock } from '../../../src/runtime/clock.js'
import { addCoverage } from '../../../src/ledger/verdicts.js'
import { listGaps, recordGap } from '../../../src/ledger/gaps.js'
import { storePastFills } from '../../../src/ledger/storePastFills.js'
import type { TradedCategory } from '../../../src/market/category.js'
import { normalized, type TimeRange } from '../../../src/market/timeRange.js'
import { candleStream } from '../../../src/db/series.js'
import { dayMs, hourMs, minuteMs } from '../../../src/market/values.js'
import { Incidents } from '../../../src/runtime/incidents.js'
import { createLogger } from '../../../src/runtime/logger.js'
import { type Simulator, startSimulator } from '../../../src/simulator/server.js'
import type { Quirks } from '../../../src/simulator/world/quirks.js'
import { clientOf, startWorker } from '../../support/backfill.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { insertFills } from '../../support/insertFills.js'
import { aFill, closedCandle } from '../../support/marketRows.js'
import { storeCandles } from '../../../src/ledger/storeCandles.js'

const now = Date.UTC(2026, 10, 20)
const category = 'USDT-FUTURES'
const symbol = 'BTCUSDT'

let test: TestDatabase
let simulator: Simulator | undefined
beforeAll(async () => {
  test = await createTestDatabase()
})
afterAll(() => test.drop())
beforeEach(() =>
  test.database.pool.query('truncate market.fills, market.candles, recorder.ledger, recorder.want, recorder.slice'),
)
afterEach(async () => {
  await simulator?.close()
})

async function startService(quirks: Partial<Quirks> = {}): Promise<Simulator> {
  simulator = await startSimulator({ scale: 'tiny', now: () => now, limits: { enforce: false }, quirks })
  return simulator
}

/** Records the fills of two hours, but for those of a gap of this length in the middle. */
async function recordAround({ world }: Simulator, gapMs: number, category: TradedCategory = 'USDT-FUTURES') {
  const { db } = test.database
  const [from, to] = [now - 12 * hourMs, now - 10 * hourMs]
  const truth = world.fills(category, symbol, from, to)
  const stored = truth.filter(({ ts }) => Number(ts) < from + hourMs || Number(ts) >= from + hourMs + gapMs)
  const fills = stored.map(({ execId, execLinkId = null, price, size, side, ts }) => {
    const key = { category, symbol, execId, execLinkId, price, size, side, ts: Number(ts) }
    return { ...key, isRpi: null, receivedAt: Number(ts), extra: {} }
  })
  await insertFills(db, fills)
  const times = fills.map(({ ts }) => ts)
  const last = Math.max(...times.filter((ts) => ts < from + hourMs))
  const next = Math.min(...times.filter((ts) => ts >= from + hourMs + gapMs))
  const series = { stream: 'fills', category, symbol, type: '', interval: '' } as const
  const gap = { from: last, to: next + 1 }
  await addCoverage(db, series, [{ from: (times[0] ?? 0) + 1, to: gap.from }])
  await addCoverage(db, series, [{ from: gap.to, to: Math.max(...times) }])
  await recordGap(db, { ...series, range: gap, reason: 'away', detectedAt: now - hourMs })
  return { truth, gap, series }
}

async function recordCandles({ world }: Simulator, { from, to }: TimeRange): Promise<void> {
  const series = { category: 'USDT-FUTURES', symbol, type: 'market', interval: '1m' } as const
  const rows = world.candles(series, from, to, now)
  await storeCandles(
    test.database.db,
    rows.map((row) => closedCandle(series, row)),
  )
  await addCoverage(test.database.db, candleStream(series), [{ from, to }])
}

/** Has gaps wanted and fetched, as the recorder does. */
async function repair(
  service: Simulator,
  more: Partial<FillRepairOptions> = {},
  incidents = new Incidents(createLogger('silent'), systemClock),
): Promise<void> {
  const { db, pool } = test.database
  const client = clientOf(service.url, 100)
  const states = new OperationStates(systemClock)
  const clock = { ...systemClock, now: () => now }
  const options = { db, isOwn: () => true, states, clock, ...more }
  const worker = startWorker(test, client, { states: options.states, incidents, settleMs: 0 })
  const repairing = new FillRepair(options)
  try {
    await repairing.look()
    for (;;) {
      const { rows } = await pool.query('select from recorder.want where ended_at is null')
      if (rows.length === 0) break
      await systemClock.sleep(20)
    }
    await repairing.look()
  } finally {
    await worker.stop()
    client.close()
  }
}

async function storedIds(): Promise<string[]> {
  const { rows } = await test.database.pool.query<{ id: string }>(
    'select exec_id as id from market.fills order by ts, exec_id',
  )
  return rows.map(({ id }) => id)
}

/** The minutes that a range touches. */
function minutesOf({ from, to }: TimeRange): TimeRange {
  return { from: Math.floor(from / minuteMs) * minuteMs, to: Math.ceil(to / minuteMs) * minuteMs }
}

const gaps = () => listGaps(test.database.db, { streams: ['fills'] })

describe('a gap in fills', () => {
  it.each([10 * minuteMs, hourMs / 2])(
    'of %i ms is filled from the history, and what was recorded joins',
    async (gapMs) => {
      const service = await startService()
      const { truth } = await recordAround(service, gapMs)
      expect((await storedIds()).length).toBeLessThan(truth.length)
      await repair(service)
      expect(await storedIds()).toEqual(truth.map(({ execId }) => execId))
      expect(await gaps()).toMatchObject([{ state: 'repaired' }])
      const { rows: viewed } = await test.database.pool.query('select filled_from from market.gaps')
      expect(viewed).toEqual([{ filled_from: 'history' }])
      const { rows: sources } = await test.database.pool.query(
        'select source, count(*) > 0 as is_there from market.fills group by source order by source',
      )
      expect(sources).toEqual([
        { source: 'live', is_there: true },
        { source: 'history', is_there: true },
      ])
      const { rows } = await test.database.pool.query(`select from market.coverage where stream = 'fills'`)
      expect(rows.length).toBe(1)
    },
  )

  it('stays open when its history has rows that cannot be understood, which are kept as rejected ones', async () => {
    const service = await startService({ brokenRows: { operations: ['futures-fills-history'], kind: 'nonsense' } })
    await recordAround(service, 10 * minuteMs)
    await repair(service)
    expect(await gaps()).toMatchObject([{ state: 'open', reason: 'its history holds rows that cannot be understood' }])
    const { rows } = await test.database.pool.query('select distinct operation from recorder.rejected_row')
    expect(rows).toEqual([{ operation: 'futures-fills-history' }])
  })

  it.each([
    ['names fills by other ids', { fillsHistoryIds: 'other' }, 'USDT-FUTURES', fillRefusals['other ids'], 'open'],
    ['gives times in whole seconds', { spotHistoryInSeconds: true }, 'SPOT', fillRefusals['other values'], 'open'],
    ['does not exist', { noFillsHistory: 'html' }, 'USDT-FUTURES', 'away', 'lost'],
    [
      'lacks fills that are stored',
      { hiddenFills: [{ from: now - 11 * hourMs + minuteMs, to: now }] },
      'SPOT',
      fillRefusals.incomplete,
      'open',
    ],
  ] as const)('stays as it is when the history %s', async (_, quirks, category, reason, state) => {
    const service = await startService(quirks as Partial<Quirks>)
    const { gap } = await recordAround(service, minuteMs, category)
    const before = await storedIds()
    await repair(service)
    expect(await storedIds()).toEqual(before)
    expect(await gaps()).toMatchObject([{ state, range: gap, reason }])
  })

  it('stays open for the minutes of which the candles count more than the history has', async () => {
    const middle = now - 11 * hourMs + 5 * minuteMs
    const hidden = { from: middle, to: middle + minuteMs }
    const service = await startService({ hiddenFills: [{ ...hidden, in: 'history' }] })
    const { truth } = await recordAround(service, 10 * minuteMs)
    await recordCandles(service, { from: now - 12 * hourMs, to: now - 10 * hourMs })
    await repair(service)
    const isHidden = (ts: number) => ts >= hidden.from && ts < hidden.to
    expect(await storedIds()).toEqual(truth.filter(({ ts }) => !isHidden(Number(ts))).map(({ execId }) => execId))
    expect(await gaps()).toMatchObject([{ state: 'open', range: hidden, reason: fillRefusals.lacking }])
    service.control.setQuirks({ hiddenFills: [] })
    await test.database.pool.query('truncate recorder.want cascade')
    await repair(service)
    expect(await storedIds()).toEqual(truth.map(({ execId }) => execId))
    expect(await gaps()).toMatchObject([{ state: 'repaired' }])
  })

  it('stays open in a minute of which something else is not recorded, if the history lacks fills', async () => {
    const minute = now - 11 * hourMs
    const hidden = { from: minute + 2_000, to: minute + 8_000 }
    const service = await startService({ hiddenFills: [{ ...hidden, in: 'history' }] })
    await recordAround(service, 10_000)
    await recordCandles(service, { from: now - 12 * hourMs, to: now - 10 * hourMs })
    await test.database.pool.query(
      `update recorder.ledger set ranges = ranges - tstzmultirange(tstzrange(to_timestamp($1), to_timestamp($2)))
       where stream = 'fills' and verdict = 'recorded'`,
      [minute / 1_000 + 30, minute / 1_000 + 40],
    )
    await repair(service)
    const open = (await gaps()).filter(({ state }) => state === 'open')
    expect(open.some(({ range }) => range.from < hidden.to && range.to > hidden.from)).toBe(true)
    expect(open.map(({ reason }) => reason)).toContain(fillRefusals.lacking)
  })

  it('stays open until the candles of its minutes are there', async () => {
    const service = await startService()
    const { truth } = await recordAround(service, 10 * minuteMs)
    await recordCandles(service, { from: now - 12 * hourMs, to: now - 11 * hourMs + 5 * minuteMs })
    await repair(service)
    expect(await storedIds()).toEqual(truth.map(({ execId }) => execId))
    expect(await gaps()).toContainEqual(expect.objectContaining({ state: 'open', reason: fillRefusals.lacking }))
    await recordCandles(service, { from: now - 12 * hourMs, to: now - 10 * hourMs })
    await test.database.pool.query('truncate recorder.want cascade')
    await repair(service)
    expect((await gaps()).map(({ state }) => state)).not.toContain('open')
  })

  it('of the last hour waits for the first candles of an instrument whose candles are recorded, and no longer', async () => {
    const service = await startService()
    const { truth, gap } = await recordAround(service, 10 * minuteMs)
    const fills = truth
      .filter(({ ts }) => Number(ts) >= gap.from && Number(ts) < gap.to)
      .map(({ execId, price, size, side, ts }) =>
        aFill({ category, symbol, execId, price, size, side, ts: Number(ts) }),
      )
    const shown = { covered: gap, shown: minutesOf(gap), wanted: [gap] }
    const store = (at: number, hasCandles: boolean) =>
      storePastFills(test.database.db, { category, symbol }, { ...shown, fills, at, hasCandles })
    const waiting = await store(gap.to + minuteMs, true)
    expect(waiting.refusal).toBeNull()
    expect(normalized(waiting.lacking)).toHaveLength(1)
    expect(waiting.lacking.length).toBeGreaterThanOrEqual(10)
    expect((await gaps()).map(({ state }) => state)).toContain('open')
    expect(await store(gap.to + 2 * hourMs, true)).toMatchObject({ lacking: [] })
    expect((await gaps()).map(({ state }) => state)).not.toContain('open')
  })

  it('of the last hour does not wait for candles that nobody records', async () => {
    const service = await startService()
    const { gap } = await recordAround(service, 10 * minuteMs)
    const page = { fills: [], covered: gap, shown: gap, wanted: [gap], at: gap.to + minuteMs, hasCandles: false }
    // At both ends of the gap are fills that are stored.
    expect(await storePastFills(test.database.db, { category, symbol }, page)).toMatchObject({ refusal: 'incomplete' })
    const inner = { from: gap.from + 1, to: gap.to - 1 }
    expect(
      await storePastFills(
        test.database.db,
        { category, symbol },
        { ...page, covered: inner, shown: inner, wanted: [inner] },
      ),
    ).toMatchObject({ refusal: null, lacking: [] })
  })

  it('is an incident while its history is unusable, which ends when gaps are filled again', async () => {
    let monotonicMs = 0
    const incidents = new Incidents(createLogger('silent'), { ...systemClock, monotonicMs: () => monotonicMs })
    const service = await startService({ fillsHistoryIds: 'other' })
    await recordAround(service, minuteMs)
    await repair(service, {}, incidents)
    const incident = { what: 'futures-fills-history', message: fillRefusals['other ids'] }
    expect(incidents.recent()).toMatchObject([{ ...incident, until: null }])
    service.control.setQuirks({ fillsHistoryIds: 'same' })
    await test.database.pool.query('truncate recorder.want cascade')
    monotonicMs += dayMs
    await repair(service, {}, incidents)
    expect(await gaps()).toMatchObject([{ state: 'repaired' }])
    expect(incidents.recent()).toMatchObject([{ ...incident, until: expect.any(Number) as number }])
  })

  it('counts as lost while the service has no history, and is filled when it has one', async () => {
    const service = await startService({ noFillsHistory: 'html' })
    const { truth } = await recordAround(service, minuteMs)
    await repair(service)
    expect(await gaps()).toMatchObject([{ state: 'lost' }])
    service.control.setQuirks({ noFillsHistory: null })
    await test.database.pool.query('truncate recorder.want cascade')
    await repair(service)
    await repair(service)
    expect(await gaps()).toMatchObject([{ state: 'repaired' }])
    expect(await storedIds()).toEqual(truth.map(({ execId }) => execId))
  })

  it('is open again each time that the service has a history after it had none', async () => {
    const service = await startService()
    await recordAround(service, minuteMs)
    let monotonicMs = 0
    const states = new OperationStates({ monotonicMs: () => monotonicMs })
    const clock = { ...systemClock, now: () => now }
    const repairing = new FillRepair({ db: test.database.db, isOwn: () => true, states, clock })
    for (let time = 0; time < 2; time++) {
      states.note('futures-fills-history', 'present')
      await repairing.look()
      expect(await gaps()).toMatchObject([{ state: 'open' }])
      states.note('futures-fills-history', 'absent')
      await repairing.look()
      expect(await gaps()).toMatchObject([{ state: 'lost' }])
      monotonicMs += dayMs
    }
  })

  it('that is lost is wanted to learn of the history, and the next one while that does not tell', async () => {
    const service = await startService()
    const { series } = await recordAround(service, minuteMs)
    const range = { from: now - 20 * hourMs, to: now - 19 * hourMs }
    await recordGap(test.database.db, { ...series, symbol: 'ETHUSDT', range, reason: 'away', detectedAt: now - dayMs })
    const states = new OperationStates(systemClock)
    states.note('futures-fills-history', 'absent')
    const of = { db: test.database.db, isOwn: () => true, clock: { ...systemClock, now: () => now } }
    await new FillRepair({ ...of, states }).look()
    const repairing = new FillRepair({ ...of, states: new OperationStates(systemClock) })
    const wanted = async () => {
      await repairing.look()
      const { rows } = await test.database.pool.query('select symbol from recorder.want order by id')
      return rows.map(({ symbol }) => String(symbol))
    }
    expect(await wanted()).toEqual(['BTCUSDT'])
    await test.database.pool.query('update recorder.want set ended_at = now()')
    expect(await wanted()).toEqual(['BTCUSDT', 'ETHUSDT'])
    expect(await wanted()).toEqual(['BTCUSDT', 'ETHUSDT'])
  })

  it('is lost once the history does not reach its end any more, and not before', async () => {
    const service = await startService()
    const { gap } = await recordAround(service, minuteMs)
    const before = await storedIds()
    const at = (time: number) => ({ clock: { ...systemClock, now: () => time } })
    await repair(service, at(gap.to + fillReachMs))
    expect(await gaps()).toMatchObject([{ state: 'lost' }])
    expect(await storedIds()).toEqual(before)
    await repair(service, at(gap.to + fillReachMs - 1))
    expect(await gaps()).toMatchObject([{ state: 'repaired' }])
  })

  it('is left to the recorder that requests the instrument', async () => {
    const service = await startService()
    const { gap } = await recordAround(service, minuteMs)
    await repair(service, { isOwn: () => false })
    expect(await gaps()).toMatchObject([{ state: 'open', range: gap }])
  })
})
