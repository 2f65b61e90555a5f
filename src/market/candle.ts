import type { TradedCategory } from './category.js'
import { addMs, dayMs, type Decimal, earlierOf, hourMs, minuteMs, type ServiceMs, sum } from './values.js'
import type { InstrumentKind } from './instrument.js'
import { normalized, type Ranges, type TimeRange } from './timeRange.js'

/** Length of each candle interval in milliseconds. The names are the service's and are case-sensitive. */
export const intervalMs = {
  '1m': minuteMs,
  '3m': 3 * minuteMs,
  '5m': 5 * minuteMs,
  '15m': 15 * minuteMs,
  '30m': 30 * minuteMs,
  '1H': hourMs,
  '4H': 4 * hourMs,
  '6H': 6 * hourMs,
  '12H': 12 * hourMs,
  '1D': 24 * hourMs,
  // The specification does not list the following intervals. Those of days and weeks begin at the service's midnight
  // or, if `utc`, at midnight UTC.
  '3D': 3 * dayMs,
  '1W': 7 * dayMs,
  '6Hutc': 6 * hourMs,
  '12Hutc': 12 * hourMs,
  '1Dutc': dayMs,
  '3Dutc': 3 * dayMs,
  '1Wutc': 7 * dayMs,
} as const

export type Interval = keyof typeof intervalMs
export const intervals = Object.keys(intervalMs) as readonly Interval[]

/** Returns when the candle that opens at `openTime` closes (exclusive end). */
export function closeTime(openTime: ServiceMs, interval: Interval): ServiceMs {
  return addMs(openTime, intervalMs[interval])
}

export const candleTypes = ['market', 'mark', 'index', 'premium'] as const
export type CandleType = (typeof candleTypes)[number]

/** The identity of a run of candles. */
export interface CandleSeries {
  readonly category: TradedCategory
  readonly symbol: string
  readonly type: CandleType
  readonly interval: Interval
}

/** Returns a series in words, for keys and messages: "SPOT BTCUSDT 1m candles". No two series have the same text. */
export function seriesText({ category, symbol, type, interval }: CandleSeries): string {
  return `${category} ${symbol} ${interval} ${type === 'market' ? '' : `${type} `}candles`
}

export function isSameSeries(one: CandleSeries, other: CandleSeries): boolean {
  return (
    one.symbol === other.symbol &&
    one.category === other.category &&
    one.type === other.type &&
    one.interval === other.interval
  )
}

/** A candle. It counts as closed if it was read at least the settle delay after its close, by the service's clock. */
export interface Candle extends CandleSeries {
  readonly openTime: ServiceMs
  readonly open: Decimal
  readonly high: Decimal
  readonly low: Decimal
  readonly close: Decimal
  /** Null if the service does not tell it, as in old candles of tokenised stocks. */
  readonly baseVolume: Decimal | null
  readonly quoteTurnover: Decimal | null
  readonly isClosed: boolean
}

const intervalsOfTokens: ReadonlySet<Interval> = new Set(['1m', '5m', '15m', '1H', '4H', '1D'])

/**
 * Says why an instrument of a kind has no such candles; null if it may have them. Tokenised stocks only have market
 * candles of some intervals. For another interval the service fails. For another type it silently gives market candles.
 */
export function whyNoCandles(kind: InstrumentKind, type: CandleType, interval: Interval): string | null {
  if (kind !== 'tokenised_stock') return null
  if (type !== 'market') return 'stock tokens have candles of type market only'
  return intervalsOfTokens.has(interval) ? null : `stock tokens have no candles of ${interval}`
}

/**
 * Tells when the candles of an interval open: every `lengthMs`, one of them at `anchor`. The anchor is learned from
 * received candles, because days were seen to open at 16:00 UTC. It is null until a candle was received.
 */
export interface Grid {
  readonly lengthMs: number
  readonly anchor: ServiceMs | null
}

export function gridOf(interval: Interval, anchor: ServiceMs | null): Grid {
  return { lengthMs: intervalMs[interval], anchor }
}

/** Returns the ranges that candles with these opening times fill. Nothing else may be claimed as covered. */
export function filledBy(openTimes: Iterable<ServiceMs>, lengthMs: number): TimeRange[] {
  const ranges: { from: ServiceMs; to: ServiceMs }[] = []
  let last: { from: ServiceMs; to: ServiceMs } | undefined
  for (const from of openTimes) {
    const to = addMs(from, lengthMs)
    // Responses are in order, so that most candles only make the last range longer.
    if (last?.to === from) last.to = to
    else ranges.push((last = { from, to }))
  }
  return normalized(ranges)
}

/** Returns true if a candle may open in the range, as always while the anchor is unknown. */
function mayHoldCandle({ lengthMs, anchor }: Grid, { from, to }: TimeRange): boolean {
  if (from >= to) return false
  if (anchor === null || to - from >= lengthMs) return true
  return nextOpening(from, lengthMs, anchor) < to
}

/** Leaves out ranges that are too narrow to hold a candle, because they would be requested again and again. */
export function withCandles(grid: Grid, ranges: Ranges): TimeRange[] {
  return ranges.filter((range) => mayHoldCandle(grid, range))
}

/** Returns the largest number of candles that can open in the ranges. */
export function candlesIn({ lengthMs }: Pick<Grid, 'lengthMs'>, ranges: Ranges): number {
  return sum(ranges.map(({ from, to }) => Math.ceil((to - from) / lengthMs)))
}

function nextOpening(at: ServiceMs, lengthMs: number, anchor: ServiceMs): ServiceMs {
  return addMs(anchor, Math.ceil((at - anchor) / lengthMs) * lengthMs)
}

/** Properties of a response that decide what its candles prove. */
interface CandleResponse {
  readonly type: CandleType
  readonly lengthMs: number
  /** False if rows of the response may be missing, because they were rejected or not kept. */
  readonly isComplete: boolean
  /** Candles that close later are not settled: the service may still be making them. */
  readonly settledUntil: ServiceMs
}

/**
 * Returns the ranges that one response leaves out between two of its candles. Nothing was traded there, because other
 * causes are excluded:
 *
 * - The candles are not made of trades, as those of premium, mark and index: only market candles count.
 * - The service makes a candle late: only ranges that have settled count.
 * - The service hides rows for a while: the caller has the range looked at again later.
 * - A row could not be understood: an incomplete response proves nothing.
 * - Days open at another hour than before: all candles must lie on one grid.
 *
 * Before the first candle and after the last one, the page may simply end.
 *
 * @param openTimes of all candles of one response, the forming one too
 */
export function silenceBetween(
  openTimes: Iterable<ServiceMs>,
  { type, lengthMs, isComplete, settledUntil }: CandleResponse,
): TimeRange[] {
  if (type !== 'market' || !isComplete) return []
  const sorted = [...openTimes].sort((a, b) => a - b)
  const ranges: TimeRange[] = []
  for (let place = 1; place < sorted.length; place++) {
    const [openTime, next] = [sorted[place - 1] as ServiceMs, sorted[place] as ServiceMs]
    if ((next - openTime) % lengthMs !== 0) continue
    const from = addMs(openTime, lengthMs)
    const settled = addMs(from, Math.floor((settledUntil - from) / lengthMs) * lengthMs)
    const to = earlierOf(next, settled)
    if (from < to) ranges.push({ from, to })
  }
  return ranges
}
