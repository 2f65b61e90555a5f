import type { Kysely } from 'kysely'
import { safeRates, streams } from '../collect/streams/streams.js'
import type { Config } from '../config/resolve.js'
import type { Database } from '../db/schema.js'
import { candlesOf } from '../db/series.js'
import { fillSpanMs } from '../history/fillsWalk.js'
import { fillPageRows } from '../history/pastFills.js'
import type { PastStream, PlannedSeries } from '../history/request.js'
import { candleSource, pagePlaces } from '../history/sources.js'
import { fundingFrequencies, recentFillRates } from '../ledger/read/instruments.js'
import { candlesIn, gridOf, intervalMs } from '../market/candle.js'
import { instrumentText } from '../market/category.js'
import { fundingPageRows } from '../market/funding.js'
import { type Operation, pastFillsOperations } from '../market/operation.js'
import { intersect, type Ranges, totalMs } from '../market/timeRange.js'
import { addMs, dayMs, serviceMs, type ServiceMs, sum } from '../market/values.js'
import { grouped, inBytes } from '../runtime/text.js'

/** The requests, time and size of a backfill. */
interface Forecast {
  /** The figures as `--json` prints them. */
  readonly estimate: Readonly<Record<string, unknown>> & { readonly minutes: number; readonly bytes: number }
  readonly requests: string
  readonly rows: string
}

/** Forecasts what a backfill takes, as figures and as text. */
export async function forecastBackfill(
  stream: PastStream,
  db: Kysely<Database>,
  config: Config,
  planned: readonly PlannedSeries[],
  now: ServiceMs,
): Promise<{ readonly estimate: Forecast['estimate']; readonly text: string }> {
  const { estimate, requests, rows } =
    stream === 'candles'
      ? forecastCandles(config, planned, now)
      : await forecastEvents(stream, db, config, planned, now)
  const { minutes, bytes } = estimate
  const incomplete = planned.filter(({ missing }) => missing.length > 0).length
  const lines = [
    `series    ${grouped(planned.length)}, ${grouped(incomplete)} incomplete`,
    `requests  ${requests}`,
    `minutes   ${minutes.toFixed(minutes < 10 ? 1 : 0)} at the whole budget of one IP`,
    `rows      ${rows}`,
    `bytes     ${inBytes(bytes)} before compression`,
  ]
  return { estimate, text: `${lines.join('\n')}\n` }
}

function forecastCandles(config: Config, planned: readonly PlannedSeries[], now: ServiceMs): Forecast {
  const { perSecond, overall } = safeRates(config)
  const estimate = estimateCandles(planned, now, {
    requestsPerSecond: { candles: perSecond.candles, historyCandles: perSecond['history-candles'], overall },
    bytesPerRow: streams.candles.bytes(config).plain,
  })
  const { requests } = estimate
  return {
    estimate,
    requests: `${grouped(requests.candles + requests.historyCandles)} (candles ${grouped(requests.candles)}, history-candles ${grouped(requests.historyCandles)})`,
    rows: grouped(estimate.candles),
  }
}

/** Assumed reach of `candles`. It was seen for candles of a minute; longer ones reach further. */
const assumedReachMs = 30 * dayMs

/** Properties of candles that their estimate needs. */
interface CandleTraits {
  /** Largest number of requests per second, with an allowance for latency jitter. */
  readonly requestsPerSecond: { readonly candles: number; readonly historyCandles: number; readonly overall: number }
  /** Bytes of a candle with its index before compression. */
  readonly bytesPerRow: number
}

/** Estimates the candles of a plan, the requests and minutes to fetch them, and their bytes on disk. */
export function estimateCandles(
  planned: readonly PlannedSeries[],
  now: ServiceMs,
  { requestsPerSecond: limits, bytesPerRow }: CandleTraits,
) {
  let candles = 0
  const requests = { candles: 0, historyCandles: 0 }
  const reached = addMs(now, -assumedReachMs)
  for (const { series: stream, missing: wanted, launch = serviceMs(-Infinity) } of planned) {
    const series = candlesOf(stream)
    if (series === null) continue
    const lengthMs = intervalMs[series.interval]
    // Two responses usually show that there is nothing before the listed launch.
    const missing = intersect(wanted, [{ from: launch, to: serviceMs(Infinity) }])
    if (totalMs(missing) < totalMs(wanted)) requests.historyCandles += 2
    const recent = intersect(missing, [{ from: reached, to: serviceMs(Infinity) }])
    const old = intersect(missing, [{ from: serviceMs(-Infinity), to: reached }])
    candles += candlesIn(gridOf(series.interval, null), missing)
    requests.candles += pagesOf(recent, lengthMs, pagePlaces(candleSource.candles, lengthMs))
    requests.historyCandles += pagesOf(old, lengthMs, pagePlaces(candleSource['history-candles'], lengthMs))
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

/** How the history of a stream is requested whose rows have times of their own. */
interface EventTraits {
  readonly operationText: string
  readonly operations: readonly Operation[]
  readonly pageRows: number
  /** The longest time that a page may cover; infinite if there is no bound. */
  readonly spanMs: number
  /** Reads how often rows occurred lately. */
  readonly frequencies: typeof recentFillRates
}

type EventStream = Exclude<PastStream, 'candles'>

const eventTraits: Readonly<Record<EventStream, EventTraits>> = {
  fills: {
    operationText: 'fills-history',
    operations: pastFillsOperations,
    pageRows: fillPageRows,
    spanMs: fillSpanMs,
    frequencies: recentFillRates,
  },
  funding_rates: {
    operationText: 'history-fund-rate',
    operations: ['history-fund-rate'],
    pageRows: fundingPageRows,
    spanMs: Number.POSITIVE_INFINITY,
    frequencies: fundingFrequencies,
  },
}

/** Forecasts rows by how often there were some lately. Those of instruments that were not recorded are not counted. */
async function forecastEvents(
  stream: EventStream,
  db: Kysely<Database>,
  config: Config,
  planned: readonly PlannedSeries[],
  now: ServiceMs,
): Promise<Forecast> {
  const { operationText, operations, pageRows, spanMs, frequencies } = eventTraits[stream]
  const rates = new Map((await frequencies(db, now)).map((rate) => [instrumentText(rate), rate.perSecond]))
  let [expectedRows, expectedRequests, unknown] = [0, 0, 0]
  for (const { series, missing } of planned) {
    if (missing.length === 0) continue
    const lengthMs = totalMs(missing)
    const perSecond = rates.get(instrumentText(series))
    if (perSecond === undefined) unknown++
    const expected = ((perSecond ?? 0) * lengthMs) / 1000
    expectedRows += expected
    expectedRequests += Math.max(expected / pageRows, lengthMs / spanMs, 1)
  }
  const [rows, requests] = [Math.ceil(expectedRows), Math.ceil(expectedRequests)]
  const { perSecond } = safeRates(config)
  const minutes = requests / Math.min(...operations.map((operation) => perSecond[operation])) / 60
  const more = unknown === 0 ? '' : `, and those of ${grouped(unknown)} instruments that were not recorded lately`
  return {
    estimate: { rows, requests, minutes, bytes: rows * streams[stream].bytes(config).plain, unknown },
    requests: `${grouped(requests)} (${operationText})${more}`,
    rows: `${grouped(rows)}, by how often there were some lately`,
  }
}
