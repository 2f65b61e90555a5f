import fc from 'fast-check'
import { sql } from 'kysely'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { TimeRange } from '../../../src/market/timeRange.js'
import { candlesOf, type Series } from '../../../src/db/series.js'
import { addCoverage, coveredRanges, missingRanges } from '../../support/coverage.js'
import { candlesWithGaps, listGaps, newestGaps, recordGap } from '../../../src/ledger/gaps.js'
import { upsertCandles } from '../../../src/ledger/storeCandles.js'
import { replaceGaps, settleGaps } from '../../../src/ledger/missing.js'
import { insertFills } from '../../support/insertFills.js'
import { countRows } from '../../../src/ledger/read/overview.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { aCandle, aFill, someTime } from '../../support/marketRows.js'

let test: TestDatabase
beforeAll(async () => {
  test = await createTestDatabase()
})
afterAll(() => test?.drop())
beforeEach(async () => {
  await sql`truncate recorder.ledger, market.fills, market.candles`.execute(test.database.db)
})

const candles: Series = { stream: 'candles', category: 'SPOT', symbol: 'BTCUSDT', type: 'market', interval: '1m' }
const fills: Series = { stream: 'fills', category: 'SPOT', symbol: 'BTCUSDT', type: '', interval: '' }
const range = (from: number, to: number): TimeRange => ({ from: someTime + from, to: someTime + to })

describe('coverage', () => {
  it('is what was added, joined, and apart for each series', async () => {
    const { db } = test.database
    await addCoverage(db, candles, [range(0, 10), range(20, 30), range(5, 5)])
    await addCoverage(db, candles, [range(10, 15)])
    await addCoverage(db, { ...candles, interval: '5m' }, [range(0, 1_000)])
    await addCoverage(db, fills, [range(0, 1)])
    await addCoverage(db, fills, [])
    expect(await coveredRanges(db, candles)).toEqual([range(0, 15), range(20, 30)])
    expect(await missingRanges(db, candles, range(-5, 40))).toEqual([range(-5, 0), range(15, 20), range(30, 40)])
    expect(await missingRanges(db, candles, range(2, 8))).toEqual([])
    expect(await missingRanges(db, candles, range(8, 2))).toEqual([])
    expect(await missingRanges(db, { ...candles, symbol: 'NEW' }, range(0, 5))).toEqual([range(0, 5)])
    const { rows } = await sql`
      select stream, type, interval, from_time, to_time from market.coverage
      where stream = 'fills' or interval = '1m' order by stream, from_time`.execute(db)
    expect(rows).toEqual([
      { stream: 'candles', type: 'market', interval: '1m', from_time: someTime, to_time: someTime + 15 },
      { stream: 'candles', type: 'market', interval: '1m', from_time: someTime + 20, to_time: someTime + 30 },
      { stream: 'fills', type: null, interval: null, from_time: someTime, to_time: someTime + 1 },
    ])
  })

  it('and what is missing make up the whole, without overlap', async () => {
    const { db } = test.database
    const point = fc.integer({ min: 0, max: 40 })
    const ranges = fc.array(
      fc.tuple(point, point).map(([a, b]) => range(Math.min(a, b), Math.max(a, b))),
      { maxLength: 6 },
    )
    await fc.assert(
      fc.asyncProperty(ranges, ranges, async (first, second) => {
        await sql`truncate recorder.ledger`.execute(db)
        await addCoverage(db, fills, first)
        await addCoverage(db, fills, second)
        const missing = await missingRanges(db, fills, range(0, 40))
        for (let i = 0; i < 40; i += 1) {
          const isIn = ({ from, to }: TimeRange) => from <= someTime + i && someTime + i < to
          expect(missing.some(isIn)).toBe(![...first, ...second].some(isIn))
        }
      }),
      { numRuns: 40 },
    )
  })

  it('is not claimed when the rows of its transaction are not stored', async () => {
    const { db } = test.database
    const failing = db.transaction().execute(async (trx) => {
      await addCoverage(trx, fills, [range(0, 10)])
      await insertFills(trx, [aFill({ price: 'NaN' })])
    })
    await expect(failing).rejects.toThrow()
    expect(await coveredRanges(db, fills)).toEqual([])
  })
})

describe('gaps', () => {
  it('are kept once, open or lost', async () => {
    const { db } = test.database
    const gap = { ...fills, range: range(0, 10), reason: 'pages did not overlap' }
    await recordGap(db, { ...gap, detectedAt: someTime + 50 })
    await recordGap(db, { ...gap, verdict: 'lost' })
    await recordGap(db, { ...candles, range: range(5, 6), reason: 'outage', verdict: 'lost', detectedAt: someTime })
    const [open] = await listGaps(db, { verdicts: ['missing'] })
    expect(open).toMatchObject({ ...gap, state: 'open', detectedAt: someTime + 50, repairedAt: null, lostAt: null })
    expect(await listGaps(db)).toMatchObject([
      { ...gap, state: 'open', repairedAt: null, lostAt: null },
      { ...candles, state: 'lost', lostAt: someTime, repairedAt: null },
    ])
    const { rows } = await sql`select symbol, stream, interval, state, reason from market.gaps order by stream`.execute(
      db,
    )
    expect(rows).toEqual([
      { symbol: 'BTCUSDT', stream: 'candles', interval: '1m', state: 'lost', reason: 'outage' },
      { symbol: 'BTCUSDT', stream: 'fills', interval: null, state: 'open', reason: 'pages did not overlap' },
    ])
  })

  it('of candles shrink to what is still missing, with the reason that the last request shows', async () => {
    const { db } = test.database
    const series = { category: 'SPOT', symbol: 'BTCUSDT', type: 'market', interval: '1m' } as const
    const known = async () => (await listGaps(db)).map(({ range: of, state, reason }) => [of, state, reason])
    await recordGap(db, { ...candles, range: range(0, 100), reason: 'away', detectedAt: someTime })
    await addCoverage(db, candles, [range(0, 20), range(60, 70)])
    await settleGaps(db, series)
    expect(await known()).toEqual([
      [range(20, 60), 'open', 'away'],
      [range(70, 100), 'open', 'away'],
    ])
    await addCoverage(db, candles, [range(20, 30)])
    await replaceGaps(db, series, [range(20, 60)], [range(30, 60)], 'not given')
    expect(await known()).toEqual([
      [range(30, 60), 'open', 'not given'],
      [range(70, 100), 'open', 'away'],
    ])
    expect(await listGaps(db)).toMatchObject([{ detectedAt: someTime }, { detectedAt: someTime }])
    // A candle came to one of them. In the other there was none, so nothing was missing.
    await upsertCandles(db, [aCandle({ openTime: someTime + 80 })])
    await addCoverage(db, candles, [range(30, 100)])
    await settleGaps(db, series)
    expect(await known()).toEqual([[range(70, 100), 'repaired', 'away']])
  })

  it('that overlap leave one rest', async () => {
    const { db } = test.database
    await recordGap(db, { ...candles, range: range(0, 100), reason: 'away' })
    await recordGap(db, { ...candles, range: range(10, 90), reason: 'away' })
    await addCoverage(db, candles, [range(0, 50)])
    await settleGaps(db, { category: 'SPOT', symbol: 'BTCUSDT', type: 'market', interval: '1m' })
    expect(await listGaps(db)).toMatchObject([{ range: range(50, 100), state: 'open' }])
  })

  it('are counted by stream, state and reason, and the newest of each are read', async () => {
    const { db } = test.database
    for (const minute of [1, 2, 3]) await recordGap(db, { ...fills, range: range(minute, minute + 1), reason: 'away' })
    await recordGap(db, { ...fills, range: range(7, 8), reason: 'away', verdict: 'lost' })
    await recordGap(db, { ...candles, range: range(0, 9), reason: 'away' })
    await recordGap(db, { ...candles, range: range(20, 29), reason: 'repaired', verdict: 'lost' })
    const newest = await newestGaps(db, { verdicts: ['missing', 'lost'], isSymbol: (one) => one === 'BTCUSDT' }, 2)
    expect(newest.map(({ stream, state, range: { from }, alike }) => [stream, state, from, alike])).toEqual([
      ['candles', 'lost', range(20, 29).from, 1],
      ['fills', 'lost', range(7, 8).from, 1],
      ['fills', 'open', range(3, 4).from, 3],
      ['fills', 'open', range(2, 3).from, 3],
      ['candles', 'open', range(0, 9).from, 1],
    ])
    expect(await newestGaps(db, { streams: ['candles'], isSymbol: () => false }, 2)).toEqual([])
    expect(await candlesWithGaps(db)).toEqual([candlesOf(candles)])
  })

  it('have a length', async () => {
    const call = recordGap(test.database.db, { ...fills, range: range(5, 5), reason: 'x' })
    await expect(call).rejects.toThrow('a gap must begin before it ends')
  })
})

describe('row counts', () => {
  it('are exact', async () => {
    const { db } = test.database
    await insertFills(db, [aFill(), aFill({ ts: someTime - 400_000_000 }), aFill({ execId: '2' })])
    expect(await countRows(db)).toMatchObject({ fills: 3, candles: 0, instruments: 0 })
  })
})
