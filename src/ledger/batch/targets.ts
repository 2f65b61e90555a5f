import type { CandleSeries } from '../../market/candle.js'
import type { Category, TradedCategory } from '../../market/category.js'

/** Subjects of requests, by stream. A batch keeps its target, also while it waits on disk. */
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
