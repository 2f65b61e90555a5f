import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { type CandleSeries, candleTypes, intervalMs, intervals } from '../../../../src/market/candle.js'
import type { Quirks } from '../../../../src/simulator/world/quirks.js'
import { plainQuirks } from '../../../support/quirks.js'
import type { CandleRow } from '../../../../src/simulator/world/candles.js'
import type { FillRow } from '../../../../src/simulator/world/fillRows.js'
import { createWorld } from '../../../../src/simulator/world/world.js'

const minuteMs = 60_000
const dayMs = 86_400_000

function worldOf(quirks: Partial<Quirks> = {}) {
  return createWorld({ seed: 5, scale: 'tiny', activity: {}, quirks: () => ({ ...plainQuirks, ...quirks }) })
}
const world = worldOf()
const markets = fc.constantFrom(
  ...(
    ['SPOT BTCUSDT', 'SPOT WEIUSDT', 'USDT-FUTURES NVDAUSDT', 'USDT-FUTURES BTCUSDT', 'USDC-FUTURES BTCPERP'] as const
  ).map((name) => {
    const [category, symbol] = name.split(' ') as ['SPOT', string]
    return { category, symbol, type: 'market' } as const
  }),
)
const moments = fc.integer({ min: Date.UTC(2025, 0), max: Date.UTC(2027, 0) })

/** Decimal text as an integer of 10^-places, to add up exactly. */
function units(decimal: string, places: number): bigint {
  const [whole = '', fraction = ''] = decimal.split('.')
  return BigInt(whole + fraction.padEnd(places, '0'))
}

function expectCandleOf(candle: CandleRow, fills: readonly FillRow[]): void {
  const prices = fills.map((fill) => units(fill.price, 18))
  const [, open, high, low, close, volume, turnover] = candle
  expect(units(open, 18)).toBe(prices[0])
  expect(units(close, 18)).toBe(prices.at(-1))
  expect(units(high, 18)).toBe(prices.reduce((a, b) => (a > b ? a : b)))
  expect(units(low, 18)).toBe(prices.reduce((a, b) => (a < b ? a : b)))
  expect(units(volume, 18)).toBe(fills.reduce((sum, fill) => sum + units(fill.size, 18), 0n))
  expect(units(turnover, 36)).toBe(fills.reduce((sum, fill) => sum + units(fill.size, 18) * units(fill.price, 18), 0n))
}

describe('candles', () => {
  test('a minute is exactly its fills, closed or still forming', () => {
    fc.assert(
      fc.property(markets, moments, (market, at) => {
        const series = { ...market, interval: '1m' } as const
        const openTime = Math.floor(at / minuteMs) * minuteMs
        const rows = world.candles(series, openTime - 5 * minuteMs, openTime + minuteMs, at)
        expect(rows.map((row) => Number(row[0]))).toEqual([5, 4, 3, 2, 1, 0].map((back) => openTime - back * minuteMs))
        for (const row of rows) {
          const end = Math.min(Number(row[0]) + minuteMs, at + 1)
          const fills = world.fills(market.category, market.symbol, Number(row[0]), end)
          if (fills.length > 0) expectCandleOf(row, fills)
          else {
            expect(new Set(row.slice(1, 5)).size).toBe(1)
            expect(units(row[5], 18)).toBe(0n)
          }
        }
      }),
    )
  })

  test('coin futures: the turnover is the sum of the fills, the volume that sum divided by the price', () => {
    const series = { category: 'COIN-FUTURES', symbol: 'BTCUSD_CM', type: 'market', interval: '1m' } as const
    const from = Date.UTC(2026, 3, 2, 9)
    for (const row of world.candles(series, from, from + 60 * minuteMs, from + dayMs)) {
      const fills = world.fills(series.category, series.symbol, Number(row[0]), Number(row[0]) + minuteMs)
      const turnover = fills.reduce((sum, fill) => sum + Number(fill.size), 0)
      const volume = fills.reduce((sum, fill) => sum + Number(fill.size) / Number(fill.price), 0)
      expect(Number(row[6])).toBe(turnover)
      expect(Number(row[5])).toBeCloseTo(volume, 6)
    }
  })

  test('every interval is the roll-up of its minutes, for every type, closed or forming', () => {
    const series = fc.record({
      market: markets,
      type: fc.constantFrom(...candleTypes),
      interval: fc.constantFrom(...intervals),
    })
    fc.assert(
      fc.property(series, moments, ({ market, type, interval }, at) => {
        const key: CandleSeries = { ...market, type, interval }
        const openTime = world.openTime(key, at)
        const [candle] = world.candles(key, openTime, openTime + 1, at)
        const minutes = world.candles({ ...key, interval: '1m' }, openTime, openTime + intervalMs[interval], at)
        expect(candle?.[0]).toBe(String(openTime))
        expect(candle?.[1]).toBe(minutes[0]?.[1])
        expect(candle?.[4]).toBe(minutes.at(-1)?.[4])
        const column = (index: number): number[] => minutes.map((row) => Number(row[index]))
        expect(Number(candle?.[2])).toBe(Math.max(...column(2)))
        expect(Number(candle?.[3])).toBe(Math.min(...column(3)))
        for (const index of [5, 6]) {
          const sum = minutes.reduce((total, row) => total + units(row[index] ?? '', 36), 0n)
          expect(units(candle?.[index] ?? '', 36)).toBe(sum)
        }
      }),
      { numRuns: 40 },
    )
  })

  test('mark, index and premium candles have volume 0 and prices of their own', () => {
    const at = Date.UTC(2026, 5, 1, 12, 30)
    const closes = candleTypes.map((type) => {
      const key = { category: 'USDT-FUTURES', symbol: 'BTCUSDT', type, interval: '15m' } as const
      const [row] = world.candles(key, at - 15 * minuteMs, at, at)
      if (type !== 'market') expect(row?.slice(5)).toEqual(['0', '0'])
      return row?.[4]
    })
    expect(new Set(closes).size).toBe(4)
  })

  test('days open at midnight, or at 16:00 UTC when the quirk is on; hours do not move', () => {
    const at = Date.UTC(2026, 5, 1, 17, 30)
    const key = { category: 'SPOT', symbol: 'BTCUSDT', type: 'market', interval: '1D' } as const
    expect(worldOf().openTime(key, at)).toBe(Date.UTC(2026, 5, 1))
    expect(worldOf({ dailyOpenAt16Utc: true }).openTime(key, at)).toBe(Date.UTC(2026, 5, 1, 16))
    expect(worldOf({ dailyOpenAt16Utc: true }).openTime({ ...key, interval: '1H' }, at)).toBe(Date.UTC(2026, 5, 1, 17))
  })

  test('the same answer whatever was asked before', () => {
    const at = Date.UTC(2026, 7, 9, 3, 4, 5)
    const key = { category: 'SPOT', symbol: 'ETHUSDT', type: 'market', interval: '4H' } as const
    const fresh = worldOf().candles(key, at - 10 * dayMs, at, at)
    world.candles(key, at - 200 * dayMs, at - 180 * dayMs, at)
    expect(world.candles(key, at - 10 * dayMs, at, at)).toEqual(fresh)
  })

  test('candles begin with the launch and end with the trading', () => {
    const own = worldOf()
    const launchTime = Date.UTC(2026, 6, 1, 10, 0, 30)
    const offTime = launchTime + 10 * minuteMs
    own.put({ category: 'SPOT', symbol: 'LATEUSDT', launchTime, offTime })
    const key = { category: 'SPOT', symbol: 'LATEUSDT', type: 'market', interval: '1m' } as const
    const rows = own.candles(key, launchTime - dayMs, launchTime + dayMs, launchTime + dayMs)
    expect(Number(rows[0]?.[0])).toBe(launchTime - 30_000)
    expect(Number(rows.at(-1)?.[0])).toBe(offTime - 30_000)
    expect(
      own.fills('SPOT', 'LATEUSDT', launchTime - dayMs, launchTime + dayMs).every(({ ts }) => {
        return Number(ts) >= launchTime && Number(ts) < offTime
      }),
    ).toBe(true)
  })
})
