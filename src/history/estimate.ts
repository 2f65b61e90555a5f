import { candlesIn, type CandleSeries, gridOf, intervalMs } from '../market/candle.js'
import { dayMs, type TimeMs } from '../market/values.js'
import { candlesOf } from '../db/series.js'
import type { PlannedSeries } from './plan.js'
import { candleSource, pagePlaces } from './sources.js'
import { intersect, type Ranges, totalMs } from '../market/timeRange.js'

interface BackfillLimits {
  /** Requests per second that are sent at most, latency jitter allowed for. */
  readonly candles: number
  readonly historyCandles: number
  readonly overall: number
}

/** Rows with times of their own, such as fills. */
export interface EventEstimate {
  readonly rows: number
  readonly requests: number
  readonly minutes: number
  readonly bytes: number
  /** Series of which nothing is known yet. Their rows are not counted. */
  readonly unknown: number
}

export interface Estimate {
  readonly candles: number
  readonly requests: { readonly candles: number; readonly historyCandles: number }
  readonly minutes: number
  readonly bytes: number
}

/** What an estimate needs of a history whose rows have times of their own. */
interface EventTraits {
  /** Rows a second of an instrument; null where that is not known. */
  readonly perSecondOf: (series: PlannedSeries['series']) => number | null
  readonly pageRows: number
  /** The longest time of a page; infinite for any. */
  readonly spanMs: number
  /** Requests that are sent at most. */
  readonly requestsPerSecond: number
  /** Of a row with its index before compression, measured. */
  readonly bytesPerRow: number
}

/** Estimates the rows of a plan, and what it takes to fetch them. */
export function estimateEvents(planned: readonly PlannedSeries[], traits: EventTraits): EventEstimate {
  const { perSecondOf, pageRows, spanMs, requestsPerSecond, bytesPerRow } = traits
  let [rows, requests, unknown] = [0, 0, 0]
  for (const { series, missing } of planned) {
    const seconds = totalMs(missing) / 1000
    const perSecond = perSecondOf(series)
    const expected = (perSecond ?? 0) * seconds
    if (perSecond === null && seconds > 0) unknown++
    rows += expected
    requests += missing.length === 0 ? 0 : Math.max(expected / pageRows, seconds / (spanMs / 1000), 1)
  }
  const [wholeRows, wholeRequests] = [Math.ceil(rows), Math.ceil(requests)]
  const minutes = wholeRequests / requestsPerSecond / 60
  return { rows: wholeRows, requests: wholeRequests, minutes, bytes: wholeRows * bytesPerRow, unknown }
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
  reachOf: (series: CandleSeries) => number | null,
  limits: BackfillLimits,
  now: TimeMs,
): Estimate {
  let candles = 0
  const requests = { candles: 0, historyCandles: 0 }
  for (const { series: stream, missing } of planned) {
    const series = candlesOf(stream)
    if (series === null) continue
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
