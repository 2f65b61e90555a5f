import { candleStream } from '../../../src/db/series.js'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { estimateCandles } from '../../../src/history/estimate.js'
import type { PlannedSeries } from '../../../src/history/request.js'
import { cutSlice } from '../../../src/history/workload.js'
import { candlesIn } from '../../../src/market/candle.js'
import { normalized, subtract, type TimeRange } from '../../../src/market/timeRange.js'

const minuteMs = 60_000
const dayMs = 86_400_000
const base = Date.UTC(2026, 0, 1)
const series = { category: 'SPOT', symbol: 'BTCUSDT', type: 'market', interval: '1m' } as const

function planned(missing: readonly TimeRange[]): PlannedSeries {
  return {
    series: candleStream(series),
    range: { from: base, to: base + 100 * dayMs },
    missing,
    isUrgent: false,
    hasOpenBeginning: false,
  }
}

function slice(ranges: readonly TimeRange[], hasOpenBeginning = false): TimeRange[] {
  return cutSlice({ kind: 'backfill', series: candleStream(series), ranges, hasOpenBeginning })
}

describe('a slice', () => {
  const pieces = fc
    .array(fc.tuple(fc.integer({ min: 0, max: 900_000 }), fc.integer({ min: 1, max: 300_000 })), {
      minLength: 1,
      maxLength: 6,
    })
    .map((pairs) =>
      normalized(
        pairs.map(([start, size]) => ({ from: base + start * minuteMs, to: base + (start + size) * minuteMs })),
      ),
    )

  it('is the newest part of what is missing, of a bounded size, so that slices together are all of it', () => {
    fc.assert(
      fc.property(pieces, (missing) => {
        let left = missing
        for (let slices = 0; left.length > 0; slices++) {
          expect(slices).toBeLessThan(300)
          const part = slice(left)
          const candles = candlesIn({ lengthMs: minuteMs }, part)
          expect(candles).toBeLessThanOrEqual(20_000)
          expect(candles).toBeGreaterThanOrEqual(Math.min(1_000, candlesIn({ lengthMs: minuteMs }, left)))
          expect(subtract(part, left)).toEqual([])
          const rest = subtract(left, part)
          expect(rest.at(-1)?.to ?? -Infinity).toBeLessThanOrEqual(part[0]?.from ?? 0)
          left = rest
        }
      }),
    )
  })

  it('gets smaller towards the end, so that several workers end together', () => {
    const size = (candles: number) =>
      candlesIn({ lengthMs: minuteMs }, slice([{ from: base, to: base + candles * minuteMs }]))
    expect([500_000, 160_000, 50_000, 10_000, 700].map(size)).toEqual([20_000, 10_000, 4_000, 1_000, 700])
  })

  it('is much longer where nobody knows where the series begins', () => {
    expect(slice([{ from: base, to: base + 2000 * dayMs }], true)).toEqual([
      { from: base + 2000 * dayMs - 400_000 * minuteMs, to: base + 2000 * dayMs },
    ])
  })
})

describe('the estimate', () => {
  const traits = { requestsPerSecond: { candles: 20, historyCandles: 20, overall: 100 }, bytesPerRow: 192 }
  const now = base + 100 * dayMs

  it('counts pages of each operation by what is known of the reach', () => {
    const missing = [{ from: now - 40 * dayMs, to: now }]
    const reachOf = () => 10 * dayMs
    const { requests, candles, minutes, bytes } = estimateCandles([planned(missing)], { ...traits, reachOf }, now)
    expect(requests).toEqual({ candles: Math.ceil(14_400 / 1000), historyCandles: (30 * 1440) / 100 })
    expect(candles).toBe(57_600)
    expect(minutes).toBeCloseTo(432 / 20 / 60)
    expect(bytes).toBe(57_600 * 192)
  })

  it('is nothing for nothing', () => {
    const reachOf = () => null
    expect(estimateCandles([planned([])], { ...traits, reachOf }, now)).toMatchObject({ candles: 0, minutes: 0 })
  })
})
