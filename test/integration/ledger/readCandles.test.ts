import fc from 'fast-check'
import { sql } from 'kysely'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { type Candle, type Interval, intervalMs } from '../../../src/market/candle.js'
import { groupBy } from '../../../src/runtime/groupBy.js'
import { upsertCandles } from '../../../src/ledger/storeCandles.js'
import { readCandles } from '../../../src/ledger/read/candles.js'
import { addCoverage } from '../../support/coverage.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { aCandle } from '../../support/marketRows.js'

type PageCandles = Awaited<ReturnType<typeof readCandles>>['candles']

const minute = intervalMs['1m']
const hour = intervalMs['1H']
const day = intervalMs['1D']
const midnight = Date.UTC(2026, 0, 15)
const series = { category: 'SPOT', symbol: 'BTCUSDT', type: 'market' } as const

let test: TestDatabase
beforeAll(async () => {
  test = await createTestDatabase()
})
afterAll(() => test?.drop())
beforeEach(async () => {
  await sql`truncate market.candles, recorder.candle_revision, recorder.ledger`.execute(test.database.db)
})

async function store(candles: readonly Candle[]): Promise<void> {
  for (const own of groupBy(candles, ({ interval }) => interval).values()) await upsertCandles(test.database.db, own)
}
const read = (interval: Interval, before = midnight + 9 * day, limit = 500) =>
  readCandles(test.database.db, { ...series, interval }, { before, limit })

/** A candle whose values tell it from the others. */
function minuteAt(openTime: number, changes: Partial<Candle> = {}): Candle {
  const n = Math.abs(Math.round((openTime - midnight) / minute))
  const price = 100 + ((n * 7919) % 101)
  return aCandle({
    openTime,
    open: `${price}.5`,
    high: `${price + 3}`,
    low: `${price - 3}`,
    close: `${price}.25`,
    ...changes,
  })
}

const run = (from: number, count: number, lengthMs: number, changes: Partial<Candle> = {}) =>
  Array.from({ length: count }, (_, i) => minuteAt(from + i * lengthMs, changes))

/** What a person would do with the minutes on paper. */
function onPaper(minutes: readonly Candle[], lengthMs: number): PageCandles {
  const groups = new Map<number, Candle[]>()
  for (const candle of minutes.toSorted((a, b) => a.openTime - b.openTime)) {
    const opens = Math.floor(candle.openTime / lengthMs) * lengthMs
    groups.set(opens, [...(groups.get(opens) ?? []), candle])
  }
  const sum = (values: readonly (string | null)[]) => values.reduce((total, value) => total + Number(value), 0)
  return [...groups].map(([openTime, of]) => ({
    openTime,
    open: of[0]?.open ?? '',
    high: `${Math.max(...of.map(({ high }) => Number(high)))}`,
    low: `${Math.min(...of.map(({ low }) => Number(low)))}`,
    close: of.at(-1)?.close ?? '',
    baseVolume: sum(of.map(({ baseVolume }) => baseVolume)).toFixed(1),
    quoteTurnover: sum(of.map(({ quoteTurnover }) => quoteTurnover)).toFixed(2),
    isClosed: of.every(({ isClosed }) => isClosed) && of.at(-1)?.openTime === openTime + lengthMs - minute,
    isComplete: of.filter(({ isClosed }) => isClosed).length === lengthMs / minute,
  }))
}

/** All pages of a series, put together. */
async function allPages(interval: Interval, limit: number): Promise<PageCandles> {
  let before = midnight + 100 * day
  const candles: PageCandles[number][] = []
  for (;;) {
    const page = await read(interval, before, limit)
    candles.unshift(...page.candles)
    if (!page.hasOlder) return candles
    before = page.candles[0]?.openTime ?? Number.NaN
  }
}

describe('candles rolled up from minutes', () => {
  it('are what a person would make of them, whichever minutes are missing and however they are paged', async () => {
    const offsets = fc.uniqueArray(fc.integer({ min: -3 * 1440, max: 3 * 1440 }), { minLength: 1, maxLength: 200 })
    const runs = fc.array(fc.tuple(fc.integer({ min: -2000, max: 2000 }), fc.integer({ min: 1, max: 400 })), {
      maxLength: 3,
    })
    const interval = fc.constantFrom<Interval>('3m', '15m', '1H', '4H', '12H', '1D')
    await fc.assert(
      fc.asyncProperty(
        offsets,
        runs,
        interval,
        fc.integer({ min: 1, max: 30 }),
        async (single, long, length, limit) => {
          await sql`truncate market.candles`.execute(test.database.db)
          const times = new Set([
            ...single,
            ...long.flatMap(([from, n]) => Array.from({ length: n }, (_, i) => from + i)),
          ])
          const minutes = [...times].map((n) => minuteAt(midnight + n * minute, { isClosed: n % 50 !== 0 }))
          await store(minutes)
          expect(await allPages(length, limit)).toEqual(onPaper(minutes, intervalMs[length]))
        },
      ),
      { numRuns: 60 },
    )
  })

  it('leave out what opens at the moment asked for or later', async () => {
    await store(run(midnight, 120, minute))
    const { candles } = await read('1H', midnight + 90 * minute)
    expect(candles).toEqual(onPaper(run(midnight, 90, minute), hour))
  })

  it('are complete where each minute is stored, or proven to be without trade', async () => {
    // Hours: whole, without their first 20 minutes, without their last 20, and not over.
    await store([...run(midnight, 60, minute), ...run(midnight + hour + 20 * minute, 80, minute)])
    await store(run(midnight + 3 * hour, 10, minute))
    const marks = async (before?: number) =>
      (await read('1H', before)).candles.map(({ isClosed, isComplete }) => [isClosed, isComplete])
    const [whole, over, open] = [
      [true, true],
      [true, false],
      [false, false],
    ]
    expect(await marks()).toEqual([whole, over, open, open])
    await addCoverage(test.database.db, { stream: 'candles', ...series, interval: '1m' }, [
      { from: midnight, to: midnight + 3 * hour + 10 * minute },
    ])
    expect(await marks()).toEqual([whole, whole, whole, open])
    expect(await marks(midnight + hour + 30 * minute), 'cut by the moment asked for').toEqual([whole, open])
  })

  it('come in pages of as many minutes as can be read at once', async () => {
    // A candle in each of 200 days: the pages go by time, not by what is there.
    await store(run(midnight - 199 * day, 200, day))
    const first = await read('1D')
    expect(first).toMatchObject({ source: '1m', hasOlder: true })
    expect(first.candles.map(({ openTime }) => openTime)).toEqual(
      run(midnight - 40 * day, 41, day).map((c) => c.openTime),
    )
    expect(await allPages('1D', 500)).toHaveLength(200)
  })
})

describe('stored candles of an interval', () => {
  it('are read rather than minutes', async () => {
    await store([...run(midnight, 180, minute), ...run(midnight, 3, hour, { interval: '1H', close: '7' })])
    const page = await read('1H')
    expect(page.source).toBe('1H')
    expect(page.candles.map(({ close }) => close)).toEqual(['7', '7', '7'])
    expect(page.hasOlder).toBe(false)
  })

  it('do not hide minutes that go on after them, lie between them or came before', async () => {
    const hours = (from: number, count: number) => run(midnight + from * hour, count, hour, { interval: '1H' })
    // Stored: 10 to 14 and 30 to 34. Minutes: 0 to 40.
    await store([...run(midnight, 40 * 60, minute), ...hours(10, 5), ...hours(30, 5)])
    const sources: [Interval, number, number][] = []
    let [before, hasOlder] = [midnight + 9 * day, true]
    while (hasOlder) {
      const page = await read('1H', before)
      const at = (index: number) => ((page.candles.at(index)?.openTime ?? Number.NaN) - midnight) / hour
      sources.push([page.source, at(0), at(-1)])
      ;({ hasOlder } = page)
      before = page.candles[0]?.openTime ?? Number.NaN
    }
    expect(sources).toEqual([
      ['1m', 35, 39],
      ['1H', 30, 34],
      ['1m', 15, 29],
      ['1H', 10, 14],
      ['1m', 0, 9],
    ])
  })

  it.each([0, 1, 10, 60, 100, 200])('are found behind the minutes, %i days before them', async (days) => {
    const behind = run(midnight - days * day - 3 * hour, 3, hour, { interval: '1H', close: '7' })
    const minutes = run(midnight, 40 * 60, minute)
    await store([...behind, ...minutes])
    for (const limit of [1, 10, 500]) {
      const candles = await allPages('1H', limit)
      expect(candles.slice(0, 3)).toMatchObject(behind.map(({ openTime, close }) => ({ openTime, close })))
      expect(candles.slice(3)).toEqual(onPaper(minutes, hour))
    }
  })

  it('are not cut where there are no minutes to fill a gap with', async () => {
    await store([...run(midnight, 2, day, { interval: '1D' }), ...run(midnight + 5 * day, 2, day, { interval: '1D' })])
    const page = await read('1D')
    expect(page.candles).toHaveLength(4)
    expect(page.hasOlder).toBe(false)
  })
})
