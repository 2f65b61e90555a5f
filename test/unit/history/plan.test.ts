import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { estimate } from '../../../src/history/estimate.js'
import { cutIntoJobs, type PlannedSeries } from '../../../src/history/plan.js'
import { candlesIn } from '../../../src/market/candleGrid.js'
import { normalized, subtract, type TimeRange } from '../../../src/market/timeRange.js'

const minuteMs = 60_000
const dayMs = 86_400_000
const base = Date.UTC(2026, 0, 1)

function planned(missing: readonly TimeRange[], more: Partial<PlannedSeries> = {}): PlannedSeries {
  return {
    series: { category: 'SPOT', symbol: 'BTCUSDT', type: 'market', interval: '1m' },
    range: { from: base, to: base + 100 * dayMs },
    missing,
    isUrgent: false,
    hasOpenBeginning: false,
    ...more,
  }
}

const backfill = { kind: 'backfill', again: false, size: 1000 } as const

describe('the jobs of a request', () => {
  it('cover what is missing and nothing twice, each of at most the size', () => {
    const pieces = fc.array(fc.tuple(fc.integer({ min: 0, max: 20_000 }), fc.integer({ min: 1, max: 4000 })), {
      maxLength: 6,
    })
    fc.assert(
      fc.property(pieces, (pairs) => {
        const missing = normalized(
          pairs.map(([start, size]) => ({ from: base + start * minuteMs, to: base + (start + size) * minuteMs })),
        )
        const jobs = cutIntoJobs(planned(missing), missing, backfill).map(({ data }) => data.range)
        expect(subtract(missing, normalized(jobs))).toEqual([])
        const oldestFirst = jobs.toReversed()
        for (const [i, job] of oldestFirst.entries()) {
          const wanted = subtract(missing, subtract([{ from: base, to: base + 1e12 }], [job]))
          expect(candlesIn({ lengthMs: minuteMs }, wanted)).toBeLessThanOrEqual(1000)
          expect(job.from).toBeGreaterThanOrEqual(oldestFirst[i - 1]?.to ?? 0)
        }
      }),
    )
  })

  it('go in order: repairs, then instruments about to be delisted, then newer candles before older ones', () => {
    const missing = [{ from: base, to: base + 2000 * minuteMs }]
    const [newer, older] = cutIntoJobs(planned(missing), missing, backfill)
    const [urgent] = cutIntoJobs(planned(missing, { isUrgent: true }), missing, backfill)
    const [repair] = cutIntoJobs(planned(missing), missing, { ...backfill, kind: 'repair' })
    const priorities = [repair, urgent, newer, older].map((job) => job?.priority ?? 0)
    expect(priorities).toEqual(priorities.toSorted((a, b) => b - a))
    expect(new Set(priorities).size).toBe(4)
    expect(Math.max(...priorities)).toBeLessThan(2 ** 31)
  })
})

describe('the estimate', () => {
  const limits = { candles: 20, historyCandles: 20, overall: 100 }
  const now = base + 100 * dayMs

  it('counts pages of each operation by what is known of the reach', () => {
    const missing = [{ from: now - 40 * dayMs, to: now }]
    const reach = { reachedMs: 10 * dayMs, beyondMs: 10 * dayMs + minuteMs }
    const { requests, candles, minutes, bytes } = estimate([planned(missing)], () => reach, limits, now)
    expect(requests).toEqual({ candles: Math.ceil(14_400 / 1000), historyCandles: (30 * 1440) / 100 })
    expect(candles).toBe(57_600)
    expect(minutes).toBeCloseTo(432 / 20 / 60)
    expect(bytes).toBe(57_600 * 192)
  })

  it('is nothing for nothing', () => {
    expect(estimate([planned([])], () => null, limits, now)).toMatchObject({ candles: 0, minutes: 0 })
  })
})
