import { describe, expect, it } from 'vitest'
import { estimateCandles } from '../../../src/cli/backfillForecast.js'
import { candleStream } from '../../../src/db/series.js'
import type { PlannedSeries } from '../../../src/history/request.js'
import type { TimeRange } from '../../../src/market/timeRange.js'
import { dayMs } from '../../../src/market/values.js'

const now = Date.UTC(2026, 3, 11)

function planned(missing: readonly TimeRange[]): PlannedSeries {
  const series = candleStream({ category: 'SPOT', symbol: 'BTCUSDT', type: 'market', interval: '1m' })
  return { series, range: { from: now - 100 * dayMs, to: now }, missing, isUrgent: false, hasOpenBeginning: false }
}

describe('the estimate', () => {
  const traits = { requestsPerSecond: { candles: 20, historyCandles: 20, overall: 100 }, bytesPerRow: 192 }

  it('counts pages of each operation by what is known of the reach', () => {
    const missing = [{ from: now - 40 * dayMs, to: now }]
    const reachOf = () => 10 * dayMs
    const { requests, candles, minutes, bytes } = estimateCandles([planned(missing)], now, { ...traits, reachOf })
    expect(requests).toEqual({ candles: Math.ceil(14_400 / 1000), historyCandles: (30 * 1440) / 100 })
    expect(candles).toBe(57_600)
    expect(minutes).toBeCloseTo(432 / 20 / 60)
    expect(bytes).toBe(57_600 * 192)
  })

  it('is nothing for nothing', () => {
    const reachOf = () => null
    expect(estimateCandles([planned([])], now, { ...traits, reachOf })).toMatchObject({ candles: 0, minutes: 0 })
  })
})
