import { candlesIn, type CandleSeries, gridOf, intervalMs } from '../market/candle.js'
import { dayMs, sum, type TimeMs } from '../market/values.js'
import { candlesOf } from '../db/series.js'
import type { PlannedSeries } from './request.js'
import { candleSource, pagePlaces } from './sources.js'
import { intersect, type Ranges, totalMs } from '../market/timeRange.js'

/** Properties of candles that their estimate needs. */
interface CandleTraits {
  /** Returns the age up to which `candles` gives rows of a series; null if the age is not known. */
  readonly reachOf: (series: CandleSeries) => number | null
  /** Largest number of requests per second, with an allowance for latency jitter. */
  readonly requestsPerSecond: { readonly candles: number; readonly historyCandles: number; readonly overall: number }
  /** Bytes of a candle with its index before compression. */
  readonly bytesPerRow: number
}

/** Estimate of a backfill of rows with times of their own, such as fills. */
interface EventEstimate {
  readonly rows: number
  readonly requests: number
  readonly minutes: number
  readonly bytes: number
  /** Number of series whose rate is not known yet. Their rows are not counted. */
  readonly unknown: number
}

interface CandleEstimate {
  readonly candles: number
  readonly requests: { readonly candles: number; readonly historyCandles: number }
  readonly minutes: number
  readonly bytes: number
}

/** Properties of a history that its estimate needs. Rows of the history have times of their own. */
interface EventTraits {
  /** Returns the rows a second of an instrument; null if the rate is not known. */
  readonly perSecondOf: (series: PlannedSeries['series']) => number | null
  readonly pageRows: number
  /** The longest time that a page may cover; infinite if there is no bound. */
  readonly spanMs: number
  /** Largest number of requests per second. */
  readonly requestsPerSecond: number
  /** Bytes of a row with its index before compression. */
  readonly bytesPerRow: number
}

/** Estimates the rows of a plan, and the requests, minutes and bytes that they take. */
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

/** Assumed reach of `candles` until it is learned. It was seen for candles of a minute; longer ones reach further. */
const assumedReachMs = 30 * dayMs

/** Estimates the candles of a plan, the requests and minutes to fetch them, and their bytes on disk. */
export function estimateCandles(
  planned: readonly PlannedSeries[],
  { reachOf, requestsPerSecond: limits, bytesPerRow }: CandleTraits,
  now: TimeMs,
): CandleEstimate {
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
  return { candles, requests, minutes: seconds / 60, bytes: candles * bytesPerRow }
}

function pagesOf(ranges: Ranges, lengthMs: number, pageSize: number): number {
  return sum(ranges.map((range) => Math.ceil(candlesIn({ lengthMs }, [range]) / pageSize)))
}
