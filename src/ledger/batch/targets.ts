import type { CandleSeries } from '../../market/candle.js'
import type { Category, TradedCategory } from '../../market/category.js'

/** What a request of each stream is about. A batch carries it along, to the disk and back. */
export interface CategoryTarget {
  readonly category: Category
}
export interface TradedCategoryTarget {
  readonly category: TradedCategory
}
export interface BookTarget {
  readonly category: TradedCategory
  readonly symbol: string
  readonly depth: number
}
export interface CandleTarget extends CandleSeries {
  readonly settleMs: number
  /** How many of the newest candles to ask for. */
  readonly limit: number
}
