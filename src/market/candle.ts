import type { TradedCategory } from './category.js'
import type { Interval } from './interval.js'
import type { Decimal, TimeMs } from './values.js'

export const candleTypes = ['market', 'mark', 'index', 'premium'] as const
export type CandleType = (typeof candleTypes)[number]

/** What identifies a run of candles. */
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

/** A candle. It is closed when it was read at least the settle delay after its close, by the service's clock. */
export interface Candle extends CandleSeries {
  readonly openTime: TimeMs
  readonly open: Decimal
  readonly high: Decimal
  readonly low: Decimal
  readonly close: Decimal
  readonly baseVolume: Decimal
  readonly quoteTurnover: Decimal
  readonly isClosed: boolean
}
