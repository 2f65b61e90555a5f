import type { Config } from '../../config/resolve.js'
import type { TradedCategory } from '../../market/category.js'
import { safeRates } from './planBudget.js'

/** Looks at tickers take no more of the overall limit and of their own than this, and are less frequent where those are low. */
const maxShareOfWatch = { overall: 1 / 10, tickers: 1 / 3 }

/** What tickers are looked at between those that are recorded, and how often. */
export interface TickerWatch {
  /** Those whose fills are recorded and whose tickers may be asked for. */
  readonly categories: readonly TradedCategory[]
  /** Infinite when there is nothing to look at. */
  readonly everyMs: number
}

export function tickerWatch(config: Config): TickerWatch {
  const { tickers, fills } = config.streams
  const isWatching = tickers.enabled && fills.enabled && tickers.watchSeconds > 0
  const categories = tickers.categories.filter((category) => fills.select.categories.includes(category))
  if (!isWatching || categories.length === 0) return { categories: [], everyMs: Infinity }
  const { overall, perSecond } = safeRates(config)
  const allowedPerSecond = Math.min(overall * maxShareOfWatch.overall, perSecond.tickers * maxShareOfWatch.tickers)
  return { categories, everyMs: 1000 * Math.max(tickers.watchSeconds, categories.length / allowedPerSecond) }
}

/** Requests for tickers that are looked at and not recorded, at most: while fills are few, there are none. */
export function watchesPerSecond(config: Config): number {
  const { categories, everyMs } = tickerWatch(config)
  return (categories.length * 1000) / everyMs
}
