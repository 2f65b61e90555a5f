import type { TradedCategory } from './category.js'
import type { Decimal, Extra, TimeMs } from './values.js'

/** A snapshot of an order book. Element 0 of each array is the best level; prices and sizes are parallel arrays. */
export interface OrderBook {
  readonly category: TradedCategory
  readonly symbol: string
  readonly ts: TimeMs
  readonly bidPrices: readonly Decimal[]
  readonly bidSizes: readonly Decimal[]
  readonly askPrices: readonly Decimal[]
  readonly askSizes: readonly Decimal[]
  readonly receivedAt: TimeMs
  readonly extra: Extra
}

/** An order book whose sizes are the visible (non-RPI) part, with the RPI part of each level beside it. */
export interface RpiOrderBook extends OrderBook {
  readonly bidRpiSizes: readonly Decimal[]
  readonly askRpiSizes: readonly Decimal[]
}

/** A member of the list of symbols that have retail-price-improvement (RPI) quotes. */
export interface RpiSymbol {
  readonly category: TradedCategory
  readonly symbol: string
}
