import type { Category, TradedCategory } from '../market/category.js'
import type { Operation } from '../market/stream.js'
import type { TimeMs } from '../market/values.js'
import { limitOf, type Query, ServiceFailure, symbolOf, tradedCategoryOf, wholeNumber } from './parameters.js'
import type { Listing } from './world/listing.js'
import type { Quirks } from './world/quirks.js'
import type { World } from './world/world.js'

/** @param existing the listing that a request is about, or a failure in the service's terms */
export function createFutures(
  world: World,
  quirks: () => Quirks,
  existing: (operation: Operation, category: Category, symbol: string, at: TimeMs) => Listing,
) {
  const futuresOf = (operation: Operation, query: Query): TradedCategory => {
    const category = tradedCategoryOf(operation, query, quirks())
    if (category === 'SPOT') throw new ServiceFailure('400172', 'Parameter category verification failed')
    return category
  }
  const futureOf = (operation: Operation, query: Query, at: TimeMs) => {
    const category = futuresOf(operation, query)
    return { category, symbol: existing(operation, category, symbolOf(query), at).symbol }
  }

  return {
    'history-fund-rate'(query: Query, at: TimeMs) {
      const { category, symbol } = futureOf('history-fund-rate', query, at)
      const page = Math.max(1, wholeNumber(query, 'cursor') ?? 1)
      return { resultList: world.fundingRates(category, symbol, at, page, limitOf(query, 100, 100, 'refuse')) }
    },
    'current-fund-rate': (query: Query, at: TimeMs) =>
      world.fundingForecasts(futuresOf('current-fund-rate', query), at),
    liquidations(query: Query, at: TimeMs) {
      const { category, symbol } = futureOf('liquidations', query, at)
      const before = wholeNumber(query, 'cursor') ?? Number.POSITIVE_INFINITY
      const { rows, next } = world.liquidations(category, symbol, at, before, limitOf(query, 100, 100, 'refuse'))
      return { list: rows, cursor: next === null ? '' : String(next) }
    },
  }
}
