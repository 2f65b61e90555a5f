import { describe, expect, it } from 'vitest'
import { estimateCandles } from '../../../src/cli/backfillForecast.js'
import { candleStream } from '../../../src/db/series.js'
import type { PlannedSeries } from '../../../src/history/request.js'
import type { TimeRange } from '../../../src/market/timeRange.js'
import { dayMs } from '../../../src/market/values.js'

const now = Date.UTC(2026, 3, 11)

function planned(missing: readonly TimeRange[]): PlannedSeries {
  const series = candleStream({ category: 'SPOT', symbol: 'BTCUSDT', type: 'market', interval: '1m' })
  return {
    series,
    range: { from: now - 100 * dayMs, to: now },
    missing,
    final: [],
    isUrgent: false,
    hasOpenBeginning: false,
  }
}

describe('the estimate', () => {
  const traits = { requestsPerSecond: { candles: 20, historyCandles: 20, overall: 100 }, bytesPerRow: 192 }

  it('counts pages of each operation by the assumed reach', () => {
    const missing = [{ from: now - 40 * dayMs, to: now }]
    const { requests, candles, minutes, bytes } = estimateCandles([planned(missing)], now, traits)
    expect(requests).toEqual({ candles: Math.ceil(43_200 / 1000), historyCandles: (10 * 1440) / 100 })
    expect(candles).toBe(57_600)
    expect(minutes).toBeCloseTo(144 / 20 / 60)
    expect(bytes).toBe(57_600 * 192)
  })

  it('counts two requests for what is older than the listed launch', () => {
    const missing = [{ from: now - 80 * dayMs, to: now }]
    const { requests, candles } = estimateCandles([{ ...planned(missing), launch: now - 10 * dayMs }], now, traits)
    expect(requests).toEqual({ candles: Math.ceil(14_400 / 1000), historyCandles: 2 })
    expect(candles).toBe(14_400)
  })

  it('is nothing for nothing', () => {
    expect(estimateCandles([planned([])], now, traits)).toMatchObject({ candles: 0, minutes: 0 })
  })
})
