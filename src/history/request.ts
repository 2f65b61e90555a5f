import type { Kysely } from 'kysely'
import {
  type CandleSeries,
  type CandleType,
  gridOf,
  type Interval,
  intervalMs,
  seriesText,
  whyNoCandles,
  withCandles,
} from '../market/candle.js'
import { requestedReachMs } from '../market/funding.js'
import { isFuture, isTradedCategory, type TradedCategory } from '../market/category.js'
import { symbolMatcher } from '../market/instrument.js'
import { normalized, subtract, type TimeRange } from '../market/timeRange.js'
import { addMs, earlierOf, laterOf, serviceMs, type ServiceMs } from '../market/values.js'
import type { Database, WantKind } from '../db/schema.js'
import { candlesOf, candleStream, instrumentStream, type Series } from '../db/series.js'
import { finalParts, missingCandles, missingEvents } from '../ledger/missing.js'
import type { NewWant } from '../ledger/wants.js'
import type { InstrumentSummary } from '../ledger/read/instruments.js'
import { eventLateMs } from '../ledger/futures.js'
import { historyLateMs } from '../ledger/storePastFills.js'
import { fillReachMs } from './fillsWalk.js'

/** Streams whose past the service gives, each under its name on the command line. */
export const pastStreams = { candles: 'candles', fills: 'fills', funding: 'funding_rates' } as const
export type PastStream = (typeof pastStreams)[keyof typeof pastStreams]

/** How far back the service gives the rows of a stream. */
const reachMs: Readonly<Record<PastStream, number>> = {
  candles: Number.POSITIVE_INFINITY,
  fills: fillReachMs,
  funding_rates: requestedReachMs.funding_rates,
}

/** A selection of series and times to backfill. */
export interface BackfillRequest {
  readonly stream: PastStream
  readonly categories: readonly TradedCategory[]
  /** Glob patterns for names of instruments. */
  readonly symbols: readonly string[]
  readonly types: readonly CandleType[]
  readonly intervals: readonly Interval[]
  readonly from: ServiceMs | 'launch'
  readonly to: ServiceMs
}

export interface RequestedSeries {
  readonly series: Series
  readonly range: TimeRange
  /** True when the instrument is flagged for delisting. Its history may soon be gone. */
  readonly isUrgent: boolean
  /** True when the range begins at an assumed time, because the launch time is unknown. */
  readonly hasOpenBeginning: boolean
  /** The listed launch, which only suggests that there is nothing older. Candles are then asked for all the same. */
  readonly launch?: ServiceMs
}

interface ResolvedRequest {
  readonly series: readonly RequestedSeries[]
  /** One line for each series, or category, that was left out, with the reason. */
  readonly skipped: readonly string[]
}

/** The assumed beginning of instruments whose launch time the service does not give. */
const earliestLaunch = serviceMs(Date.UTC(2018, 0, 1))

/**
 * Returns the series of a request, each with its range of opening times. The range holds no candles after the end of
 * trading. All of its candles are closed and settled by the service's clock.
 */
export function resolveRequest(
  request: BackfillRequest,
  instruments: readonly InstrumentSummary[],
  serviceNow: ServiceMs,
  settleMs: number,
): ResolvedRequest {
  const { stream } = request
  const isWanted = symbolMatcher(request.symbols)
  const series: RequestedSeries[] = []
  const skipped = new Set<string>()
  for (const instrument of instruments) {
    const { category, symbol } = instrument
    if (!isTradedCategory(category) || !request.categories.includes(category) || !isWanted(symbol)) continue
    if (stream === 'funding_rates' && !isFuture(instrument)) {
      skipped.add(`${category}: only futures have funding rates`)
      continue
    }
    if (stream !== 'candles') {
      series.push(requestedEvents(stream, instrument, request, serviceNow))
      continue
    }
    // Only tokenised stocks lack some candles, so the other kinds need not be distinguished.
    const kind = instrument.isReality === true ? 'tokenised_stock' : 'other'
    for (const interval of request.intervals) {
      for (const type of request.types) {
        const candles: CandleSeries = { category, symbol, type, interval }
        const unavailable = whyNoCandles(kind, type, interval)
        if (unavailable === null) {
          series.push(requestedCandles(candles, instrument, request, serviceNow, settleMs))
        } else skipped.add(`${seriesText(candles)}: ${unavailable}`)
      }
    }
  }
  return { series, skipped: [...skipped] }
}

/** Returns when an instrument was listed first; null if that is not known. */
const launchOf = ({ launchTime, firstLaunchTime }: InstrumentSummary): ServiceMs | null =>
  launchTime === null ? null : earlierOf(launchTime, firstLaunchTime ?? launchTime)

function requestedEvents(
  stream: PastStream,
  instrument: InstrumentSummary,
  { from, to }: BackfillRequest,
  serviceNow: ServiceMs,
): RequestedSeries {
  const { offTime, limitOpenTime } = instrument
  const series = instrumentStream(stream, instrument)
  const oldest = addMs(serviceNow, -reachMs[stream])
  const launch = laterOf(oldest, launchOf(instrument) ?? oldest)
  const begin = laterOf(launch, from === 'launch' ? launch : from)
  const end = addMs(serviceNow, -(stream === 'fills' ? historyLateMs : eventLateMs))
  const range = { from: begin, to: laterOf(begin, earlierOf(to, end)) }
  return { series, range, isUrgent: offTime !== null || limitOpenTime !== null, hasOpenBeginning: false, launch }
}

function requestedCandles(
  series: CandleSeries,
  instrument: InstrumentSummary,
  { from, to }: BackfillRequest,
  serviceNow: ServiceMs,
  settleMs: number,
): RequestedSeries {
  const { launchTime, offTime, limitOpenTime } = instrument
  const lengthMs = intervalMs[series.interval]
  // The first candle may open before the launch, which is within the candle.
  const launch = launchOf(instrument)
  const earliest = launch === null ? earliestLaunch : addMs(launch, 1 - lengthMs)
  const newest = addMs(serviceNow, 1 - settleMs - lengthMs)
  // The list may name a later listing. It is believed of an instrument that is yet to be launched.
  const lowest = earliest < newest ? earlierOf(earliest, earliestLaunch) : earliest
  const latest = earlierOf(newest, offTime ?? newest)
  const range = aligned(series.interval, {
    from: from === 'launch' ? earliest : laterOf(from, lowest),
    to: earlierOf(to, latest),
  })
  return {
    series: candleStream(series),
    range: { from: range.from, to: laterOf(range.from, range.to) },
    isUrgent: offTime !== null || limitOpenTime !== null,
    hasOpenBeginning: launchTime === null && from === 'launch',
    ...(launch !== null && { launch: earliest }),
  }
}

/** Intervals up to four hours open at their multiples, wherever days begin. Aligned bounds fit pages best. */
function aligned(interval: Interval, { from, to }: { from: ServiceMs; to: ServiceMs }) {
  const lengthMs = intervalMs[interval]
  if (lengthMs > intervalMs['4H']) return { from, to }
  const next = (time: ServiceMs) => serviceMs(Math.ceil(time / lengthMs) * lengthMs)
  return { from: next(from), to: next(to) }
}

/** A requested series with the ranges that have to be fetched. */
export interface PlannedSeries extends RequestedSeries {
  readonly missing: readonly TimeRange[]
  /** Ranges whose rows have left the database for good. */
  readonly final: readonly TimeRange[]
}

/** Finds what is missing, also what was requested in vain a moment ago: a command asks when it is told to. */
export async function planSeries(
  db: Kysely<Database>,
  requested: readonly RequestedSeries[],
  options: { readonly again: boolean },
): Promise<PlannedSeries[]> {
  const candles = requested.flatMap(({ series, range }) => {
    const one = candlesOf(series)
    return one === null ? [] : [{ series: one, range }]
  })
  const known = await missingCandles(db, candles)
  const finals = await finalParts(db, requested)
  const planned: PlannedSeries[] = []
  for (const [place, request] of requested.entries()) {
    const { series, range } = request
    const { [place]: final = [] } = finals
    const whole = subtract(normalized([range]), final)
    if (series.interval === '') {
      planned.push({ ...request, final, missing: options.again ? whole : await missingEvents(db, series, range) })
      continue
    }
    const { missing = [range], oldestKnown = null } = known.shift() ?? {}
    const grid = gridOf(series.interval, oldestKnown)
    planned.push({ ...request, final, missing: withCandles(grid, options.again ? whole : missing) })
  }
  return planned
}

export function wantsOf(
  planned: readonly PlannedSeries[],
  options: { readonly kind: WantKind; readonly again: boolean },
): NewWant[] {
  return planned
    .filter(({ missing }) => missing.length > 0)
    .map(({ series, range, missing, isUrgent, hasOpenBeginning }) => {
      return { ...options, series, ranges: missing, floor: range.from, isUrgent, hasOpenBeginning }
    })
}
