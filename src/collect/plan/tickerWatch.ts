import type { Config } from '../../config/resolve.js'
import type { TradedCategory } from '../../market/category.js'
import { safeRates } from './planBudget.js'

/** Looks at tickers take no more of the overall limit and of their own than this. */
const maxShareOfWatch = { overall: 1 / 10, tickers: 1 / 3 }

/** What tickers are looked at between those that are recorded, and how often at most. */
export interface TickerWatch {
  /** Those whose fills are recorded and whose tickers may be asked for. */
  readonly categories: readonly TradedCategory[]
  /** Between two looks at one category, at least. */
  readonly minMs: number
  /** Between any two, at least. */
  readonly gapMs: number
}

export function tickerWatch(config: Config): TickerWatch {
  const { tickers, fills } = config.streams
  const isWatching = tickers.enabled && fills.enabled && tickers.watchSeconds > 0
  const categories = tickers.categories.filter((category) => fills.select.categories.includes(category))
  if (!isWatching || categories.length === 0) return { categories: [], minMs: Infinity, gapMs: Infinity }
  const { overall, perSecond } = safeRates(config)
  const allowedPerSecond = Math.min(overall * maxShareOfWatch.overall, perSecond.tickers * maxShareOfWatch.tickers)
  return { categories, minMs: tickers.watchSeconds * 1000, gapMs: 1000 / allowedPerSecond }
}

/** Requests for tickers that are looked at and not recorded, at most: while fills are few, there are none. */
export function watchesPerSecond(config: Config): number {
  const { categories, minMs, gapMs } = tickerWatch(config)
  return Math.min(1000 / gapMs, (categories.length * 1000) / minMs)
}
