import picomatch from 'picomatch'
import { type CandleSeries, type CandleType, type Interval, intervalMs } from '../market/candle.js'
import { whyNoCandles } from '../market/candleKinds.js'
import { isTradedCategory, type TradedCategory } from '../market/category.js'
import type { TimeMs } from '../market/values.js'
import type { SeriesRange } from '../ledger/proof/missing.js'
import type { InstrumentSummary } from '../ledger/live/instruments.js'

/** What somebody asked for. */
export interface BackfillRequest {
  readonly categories: readonly TradedCategory[]
  /** Globs. */
  readonly symbols: readonly string[]
  readonly types: readonly CandleType[]
  readonly intervals: readonly Interval[]
  readonly from: TimeMs | 'launch'
  readonly to: TimeMs
}

export interface RequestedSeries extends SeriesRange {
  /** Flagged for delisting: its history may soon be gone. */
  readonly isUrgent: boolean
  /** The beginning is where we stopped looking, not where the instrument was launched. */
  readonly hasOpenBeginning: boolean
}

export interface ResolvedRequest {
  readonly series: readonly RequestedSeries[]
  /** What was left out and why, one line each. */
  readonly skipped: readonly string[]
}

/** Where to begin looking for instruments whose launch time the service does not tell. */
const earliestLaunch = Date.UTC(2018, 0, 1)

/**
 * The series that a request means, each with its range of opening times: no candle before the launch or after the end of
 * trading, and none that is not closed and settled by the service's clock.
 */
export function resolveRequest(
  request: BackfillRequest,
  instruments: readonly InstrumentSummary[],
  serviceNow: TimeMs,
  settleMs: number,
): ResolvedRequest {
  const isWanted = picomatch([...request.symbols])
  const series: RequestedSeries[] = []
  const skipped = new Set<string>()
  for (const instrument of instruments) {
    const { category, symbol } = instrument
    if (!isTradedCategory(category) || !request.categories.includes(category) || !isWanted(symbol)) continue
    // The only kind that lacks some; no other sign is needed to know it.
    const kind = instrument.isReality === true ? 'tokenised_stock' : 'other'
    for (const interval of request.intervals) {
      for (const type of request.types) {
        const unavailable = whyNoCandles(kind, type, interval)
        if (unavailable === null) {
          const candles: CandleSeries = { category, symbol, type, interval }
          series.push(requestedSeries(candles, instrument, request, serviceNow, settleMs))
        } else skipped.add(`${category} ${symbol} ${type} ${interval}: ${unavailable}`)
      }
    }
  }
  return { series, skipped: [...skipped] }
}

function requestedSeries(
  series: CandleSeries,
  { launchTime, firstLaunchTime, offTime, limitOpenTime }: InstrumentSummary,
  { from, to }: BackfillRequest,
  serviceNow: TimeMs,
  settleMs: number,
): RequestedSeries {
  const lengthMs = intervalMs[series.interval]
  // The first candle may open before the launch that it holds.
  const launch = launchTime === null ? null : Math.min(launchTime, firstLaunchTime ?? launchTime)
  const earliest = launch === null ? earliestLaunch : launch - lengthMs + 1
  const latest = Math.min(serviceNow - settleMs - lengthMs + 1, offTime ?? Number.POSITIVE_INFINITY)
  const range = aligned(series.interval, {
    from: Math.max(earliest, from === 'launch' ? earliest : from),
    to: Math.min(to, latest),
  })
  return {
    series,
    range: { from: range.from, to: Math.max(range.from, range.to) },
    isUrgent: offTime !== null || limitOpenTime !== null,
    hasOpenBeginning: launchTime === null && from === 'launch',
  }
}

/** Intervals up to four hours open at their multiples wherever days begin; pages fit them best when their bounds do, too. */
function aligned(interval: Interval, { from, to }: { from: TimeMs; to: TimeMs }) {
  const lengthMs = intervalMs[interval]
  if (lengthMs > intervalMs['4H']) return { from, to }
  return { from: Math.ceil(from / lengthMs) * lengthMs, to: Math.ceil(to / lengthMs) * lengthMs }
}
