import type { TradedCategory } from './category.js'

/** A member of the list of symbols that have retail-price-improvement (RPI) quotes. */
export interface RpiSymbol {
  readonly category: TradedCategory
  readonly symbol: string
}
