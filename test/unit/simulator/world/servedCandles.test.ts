import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { plainQuirks } from '../../../support/quirks.js'
import { nextOpenTime, openTimeOf, servedIntervals } from '../../../../src/simulator/world/intervals.js'
import { createWorld } from '../../../../src/simulator/world/world.js'

const dayMs = 86_400_000
const moments = fc.integer({ min: Date.UTC(2025, 0), max: Date.UTC(2027, 0) })
const world = createWorld({ seed: 5, scale: 'small', activity: {}, quirks: () => plainQuirks })
const tokens = fc.constantFrom('RNVDAUSDT', 'RSPYUSDT', 'RQQQUSDT', 'RHPQUSDT', 'RAAPLUSDT')

function units(decimal: string, places: number): bigint {
  const [whole = '', fraction = ''] = decimal.split('.')
  return BigInt(whole + fraction.padEnd(places, '0'))
}

describe('candles that leave out silence', () => {
  test('a candle is exactly its fills, and where there is none there were no fills', () => {
    fc.assert(
      fc.property(tokens, moments, fc.constantFrom(...servedIntervals), (symbol, at, interval) => {
        const series = { category: 'SPOT', symbol, type: 'market', interval } as const
        const from = at - 3 * dayMs
        const rows = new Map(world.candles(series, from, at, at).map((row) => [Number(row[0]), row]))
        let openTime = openTimeOf(from, interval, 0)
        if (openTime < from) openTime = nextOpenTime(openTime, interval, 0)
        for (; openTime < at; openTime = nextOpenTime(openTime, interval, 0)) {
          const end = Math.min(nextOpenTime(openTime, interval, 0), at + 1)
          const fills = world.fills('SPOT', symbol, openTime, end)
          const row = rows.get(openTime)
          rows.delete(openTime)
          expect(row === undefined).toBe(fills.length === 0)
          if (row === undefined) continue
          const prices = fills.map((fill) => Number(fill.price))
          expect([row[1], row[4]]).toEqual([fills[0]?.price, fills.at(-1)?.price])
          expect([Number(row[2]), Number(row[3])]).toEqual([Math.max(...prices), Math.min(...prices)])
          expect(units(row[5], 18)).toBe(fills.reduce((sum, fill) => sum + units(fill.size, 18), 0n))
          const paid = fills.reduce((sum, fill) => sum + units(fill.price, 18) * units(fill.size, 18), 0n)
          expect(units(row[6], 36)).toBe(paid)
        }
        expect(rows.size).toBe(0)
      }),
      { numRuns: 60 },
    )
  })

  test('a page holds the most recent candles there are, however long the silence between them', () => {
    fc.assert(
      fc.property(tokens, moments, fc.integer({ min: 1, max: 300 }), (symbol, at, limit) => {
        const series = { category: 'SPOT', symbol, type: 'market', interval: '15m' } as const
        const all = world.candles(series, at - 400 * dayMs, at, at)
        const from = world.earliestOf(series, at - 400 * dayMs, at, at, limit)
        expect(world.candles(series, from, at, at)).toEqual(all.slice(-limit))
      }),
      { numRuns: 30 },
    )
  })
})

describe('intervals', () => {
  test('every moment lies in one candle, and the candles follow each other without a gap', () => {
    const midnights = fc.constantFrom(0, -28_800_000)
    fc.assert(
      fc.property(moments, fc.constantFrom(...servedIntervals), midnights, (at, interval, midnightMs) => {
        const openTime = openTimeOf(at, interval, midnightMs)
        const next = nextOpenTime(openTime, interval, midnightMs)
        expect(openTime <= at && at < next).toBe(true)
        expect(openTimeOf(next, interval, midnightMs)).toBe(next)
        expect(openTimeOf(next - 1, interval, midnightMs)).toBe(openTime)
      }),
    )
  })

  test('weeks open on Mondays, months on their first day, at midnight of UTC or of UTC+8', () => {
    const at = Date.UTC(2026, 1, 11, 20)
    const text = (interval: '1W' | '1M' | '1Wutc' | '1Mutc' | '1Dutc') =>
      new Date(openTimeOf(at, interval, -28_800_000)).toISOString().slice(0, 16)
    expect(text('1W')).toBe('2026-02-08T16:00')
    expect(text('1M')).toBe('2026-01-31T16:00')
    expect(text('1Wutc')).toBe('2026-02-09T00:00')
    expect(text('1Mutc')).toBe('2026-02-01T00:00')
    expect(text('1Dutc')).toBe('2026-02-11T00:00')
    expect(nextOpenTime(Date.UTC(2026, 1, 1), '1Mutc', 0)).toBe(Date.UTC(2026, 2, 1))
  })

  test('of ordinary markets the long intervals are the roll-up of their days', () => {
    fc.assert(
      fc.property(moments, fc.constantFrom('3Dutc', '1Wutc', '1Mutc'), (at, interval) => {
        const series = { category: 'USDC-FUTURES', symbol: 'DOGEPERP', type: 'market', interval } as const
        const openTime = world.openTime(series, at)
        const [candle] = world.candles(series, openTime, openTime + 1, at)
        const days = world.candles({ ...series, interval: '1Dutc' }, openTime, world.closeTime(series, openTime), at)
        expect(candle?.[1]).toBe(days[0]?.[1])
        expect(candle?.[4]).toBe(days.at(-1)?.[4])
        expect(Number(candle?.[2])).toBe(Math.max(...days.map((day) => Number(day[2]))))
        const sum = days.reduce((total, day) => total + units(day[5], 18), 0n)
        expect(units(candle?.[5] ?? '', 18)).toBe(sum)
      }),
      { numRuns: 5 },
    )
  })
})

describe('splits', () => {
  test('earlier candles are told adjusted once it has happened: prices by the factor, volumes against it', () => {
    const own = createWorld({ seed: 5, scale: 'tiny', activity: {}, quirks: () => plainQuirks })
    const at = Date.UTC(2026, 8, 14, 8)
    const launchTime = at - 100 * dayMs
    const request = {
      category: 'SPOT',
      symbol: 'RSPLITUSDT',
      launchTime,
      fillsPerHour: 30,
      basePriceTicks: 800_000,
    } as const
    own.put({ ...request, priceDecimals: 2, candles: 'traded', splits: [{ at, factor: 4, relists: true }] })
    for (const interval of ['1m', '1H', '1D'] as const) {
      const series = { category: 'SPOT', symbol: 'RSPLITUSDT', type: 'market', interval } as const
      const before = own.candles(series, at - 3 * dayMs, at - dayMs, at - 1)
      const after = own.candles(series, at - 3 * dayMs, at - dayMs, at)
      expect(before.length).toBeGreaterThan(1)
      expect(after.map((row) => row[0])).toEqual(before.map((row) => row[0]))
      for (const [i, row] of after.entries()) {
        const old = before[i]
        for (const column of [1, 2, 3, 4] as const) {
          expect(Math.abs(Number(row[column]) - Number(old?.[column]) / 4)).toBeLessThanOrEqual(0.005 + 1e-9)
        }
        expect(units(row[5], 18)).toBe(4n * units(old?.[5] ?? '', 18))
        expect(row[6]).toBe(old?.[6])
      }
    }
    const close = Number(own.latestFills('SPOT', 'RSPLITUSDT', at - 1, 1)[0]?.price)
    const opened = Number(own.fills('SPOT', 'RSPLITUSDT', at, at + dayMs)[0]?.price)
    expect(close / opened).toBeGreaterThan(3.5)
    expect(close / opened).toBeLessThan(4.5)
    expect(own.instrument('SPOT', 'RSPLITUSDT', at - 1)).toMatchObject({ launchTime: String(launchTime) })
    expect(own.instrument('SPOT', 'RSPLITUSDT', at)).toMatchObject({ launchTime: String(at) })
    expect(own.nextChange('SPOT', at - 1)).toBe(at)
  })
})
