import { candleStream } from '../../../src/db/series.js'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { cutSlice } from '../../../src/history/workload.js'
import { candlesIn } from '../../../src/market/candle.js'
import { normalized, subtract, type TimeRange } from '../../../src/market/timeRange.js'

const minuteMs = 60_000
const dayMs = 86_400_000
const base = Date.UTC(2026, 0, 1)
const series = { category: 'SPOT', symbol: 'BTCUSDT', type: 'market', interval: '1m' } as const

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
