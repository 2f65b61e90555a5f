import { candlesIn, gridOf, intervalMs } from '../market/candle.js'
import { dayMs, type TimeMs } from '../market/values.js'
import type { PlannedSeries } from './plan.js'
import { candleSource, pagePlaces } from './sources.js'
import { intersect, type Ranges } from '../market/timeRange.js'

export interface BackfillLimits {
  /** Requests per second that are sent at most, latency jitter allowed for. */
  readonly candles: number
  readonly historyCandles: number
  readonly overall: number
}

export interface Estimate {
  readonly candles: number
  readonly requests: { readonly candles: number; readonly historyCandles: number }
  readonly minutes: number
  readonly bytes: number
}

/** A candle with its index before compression, measured. */
const bytesPerCandle = 192
/** Assumed reach of `candles` until it is learned. It was seen for minutes; longer intervals reach further. */
const assumedReachMs = 30 * dayMs

/**
 * Estimates the candles of a plan, the requests and minutes to fetch them, and their bytes on disk.
 *
 * @param reachOf age up to which `candles` responds for a series; null where that is not known
 */
export function estimate(
  planned: readonly PlannedSeries[],
  reachOf: (series: PlannedSeries['series']) => number | null,
  limits: BackfillLimits,
  now: TimeMs,
): Estimate {
  let candles = 0
  const requests = { candles: 0, historyCandles: 0 }
  for (const { series, missing } of planned) {
    const lengthMs = intervalMs[series.interval]
    const reached = now - (reachOf(series) ?? assumedReachMs)
    const recent = intersect(missing, [{ from: reached, to: Number.POSITIVE_INFINITY }])
    const old = intersect(missing, [{ from: Number.NEGATIVE_INFINITY, to: reached }])
    candles += candlesIn(gridOf(series.interval, null), missing)
    requests.candles += pagesOf(recent, lengthMs, pagePlaces(candleSource('candles'), lengthMs))
    requests.historyCandles += pagesOf(old, lengthMs, pagePlaces(candleSource('history-candles'), lengthMs))
  }
  const seconds = Math.max(
    requests.candles / limits.candles,
    requests.historyCandles / limits.historyCandles,
    (requests.candles + requests.historyCandles) / limits.overall,
  )
  return { candles, requests, minutes: seconds / 60, bytes: candles * bytesPerCandle }
}

function pagesOf(ranges: Ranges, lengthMs: number, pageSize: number): number {
  return ranges.reduce((sum, range) => sum + Math.ceil(candlesIn({ lengthMs }, [range]) / pageSize), 0)
}
