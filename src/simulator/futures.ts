import type { Category, TradedCategory } from '../market/category.js'
import type { Operation } from '../market/stream.js'
import { minuteMs, type TimeMs } from '../market/values.js'
import { limitOf, type Query, ServiceFailure, symbolOf, tradedCategoryOf, wholeNumber } from './parameters.js'
import { fixed, mix, mixText } from './world/hash.js'
import type { Listing } from './world/listing.js'
import type { Quirks } from './world/quirks.js'
import type { World } from './world/world.js'

const periodMs = 5 * minuteMs

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

  /** The last thirty periods of five minutes that have ended, ascending. */
  const periods =
    (operation: Operation, rowOf: (draw: (place: number) => number) => object) => (query: Query, at: TimeMs) => {
      const { symbol } = futureOf(operation, query, at)
      if (query['period'] !== '5m') throw new ServiceFailure('400172', 'Parameter period verification failed')
      const newest = Math.floor(at / periodMs) - 1
      return Array.from({ length: 30 }, (_, index) => {
        const period = newest - 29 + index
        return {
          ...rowOf((place) => mix(mixText(period, `${operation} ${symbol}`), place)),
          ts: String(period * periodMs),
        }
      })
    }
  const shares = (operation: Operation, what: string) =>
    periods(operation, (draw) => {
      const long = 3_000 + (draw(0) % 4_000)
      return {
        [`long${what}Ratio`]: fixed(long, 4),
        [`short${what}Ratio`]: fixed(10_000 - long, 4),
        [`longShort${what}Ratio`]: (long / (10_000 - long)).toFixed(4),
      }
    })

  return {
    'futures-active-buy-sell': periods('futures-active-buy-sell', (draw) => ({
      buyVolume: fixed(draw(0) % 9_000_000, 3),
      sellVolume: fixed(draw(1) % 9_000_000, 3),
    })),
    'futures-long-short': shares('futures-long-short', ''),
    'futures-account-long-short': shares('futures-account-long-short', 'Account'),
    'futures-position-long-short': shares('futures-position-long-short', 'Position'),
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
