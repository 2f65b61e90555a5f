import type { CandleType, Interval } from './candle.js'
import type { InstrumentKind } from './instrument.js'

const intervalsOfTokens: ReadonlySet<Interval> = new Set(['1m', '5m', '15m', '1H', '4H', '1D'])

/**
 * Why an instrument of a kind has no such candles; null where it may have them. Tokenised stocks have market candles of some
 * intervals only: asked for another interval the service fails, and asked for another type it gives market candles without
 * saying so.
 */
export function whyNoCandles(kind: InstrumentKind, type: CandleType, interval: Interval): string | null {
  if (kind !== 'tokenised_stock') return null
  if (type !== 'market') return 'stock tokens have candles of type market only'
  return intervalsOfTokens.has(interval) ? null : `stock tokens have no candles of ${interval}`
}
