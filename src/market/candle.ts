import type { TradedCategory } from './category.js'
import { dayMs, hourMs, minuteMs, type Decimal, type TimeMs } from './values.js'

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
  // The specification does not list these; where the service has them, days and weeks begin at its own midnight or at that of UTC.
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

/** When the candle that opens at `openTime` closes (exclusive end). */
export function closeTime(openTime: TimeMs, interval: Interval): TimeMs {
  return openTime + intervalMs[interval]
}

/** Those whose candles open at multiples of their length from 00:00 UTC, so that they can be made of minutes. */
export function isAlignedToMidnight(interval: Interval): boolean {
  return intervalMs[interval] <= dayMs
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

/** A series in words, for messages; no two have the same. */
export function seriesText({ category, symbol, type, interval }: CandleSeries): string {
  return `${category} ${symbol} ${type} ${interval}`
}

export function isSameSeries(one: CandleSeries, other: CandleSeries): boolean {
  return (
    one.symbol === other.symbol &&
    one.category === other.category &&
    one.type === other.type &&
    one.interval === other.interval
  )
}

/** A candle. It is closed when it was read at least the settle delay after its close, by the service's clock. */
export interface Candle extends CandleSeries {
  readonly openTime: TimeMs
  readonly open: Decimal
  readonly high: Decimal
  readonly low: Decimal
  readonly close: Decimal
  /** Null where the service does not say: in old candles of tokenised stocks. */
  readonly baseVolume: Decimal | null
  readonly quoteTurnover: Decimal | null
  readonly isClosed: boolean
}
