import type { Config } from '../../config/resolve.js'
import type { TradedCategory } from '../../market/category.js'
import { byOperation, type Operation } from '../../market/operation.js'

interface SafeRates {
  readonly perSecond: Readonly<Record<Operation, number>>
  readonly overall: number
}

/**
 * Rates that keep inside the limits. The service counts arrivals, and only departures can be controlled. Requests that
 * leave evenly over 1 + J seconds can arrive within one second. The overall limit has the same problem with a minute.
 */
export function safeRates({ exchange: { limits, latencyJitterMs } }: Config): SafeRates {
  const jitterSeconds = latencyJitterMs / 1000
  return {
    perSecond: byOperation((operation) => limits.perSecond[operation] / (1 + jitterSeconds)),
    overall: limits.overallPerMinute / (60 + jitterSeconds),
  }
}

/** Largest share that watching takes of the overall limit, and of the limit of tickers. */
const maxShareOfWatch = { overall: 1 / 10, tickers: 1 / 3 }

/** Categories whose tickers are watched between recorded ones, and the shortest times between requests. */
export interface TickerWatch {
  /** Categories whose fills are recorded and whose tickers are configured. */
  readonly categories: readonly TradedCategory[]
  /** Shortest time between two requests for one category. */
  readonly minMs: number
  /** Shortest time between two requests for any categories. */
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

/** Largest rate of requests for tickers that are watched and not recorded. While fills are few, there are none. */
export function watchesPerSecond(config: Config): number {
  const { categories, minMs, gapMs } = tickerWatch(config)
  return Math.min(1000 / gapMs, (categories.length * 1000) / minMs)
}
