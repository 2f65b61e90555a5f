import type { Category, TradedCategory } from '../market/category.js'
import type { Operation } from '../market/operation.js'
import { minuteMs, type TimeMs } from '../market/values.js'
import { limitOf, type Query, ServiceFailure, symbolOf, tradedCategoryOf, wholeNumber } from './parameters.js'
import { inOrder, pageLimit } from './fillPages.js'
import { fixed, mix, mixText } from './world/hash.js'
import type { Listing } from './world/listing.js'
import type { Quirks } from './world/quirks.js'
import type { World } from './world/world.js'

const periodMs = 5 * minuteMs
const indexExchanges = ['Bitget', 'Binance', 'OKX', 'Bybit', 'Coinbase', 'Gate.io']

/** @param existing returns the listing that a request names, or throws a failure in the service's terms */
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

  /** Returns the draws of a list that changes now and then, each list at its own times. */
  const stageOf = (operation: Operation, symbol: string, at: TimeMs) => {
    const key = mixText(0, `${operation} ${symbol}`)
    const everyMs = quirks().termsChangeMs
    const stage = Math.floor((at + (key % everyMs)) / everyMs)
    return (place: number) => mix(key, stage, place)
  }

  /** Makes a responder with the last thirty periods of five minutes that have ended, ascending. */
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
      const limit = pageLimit(quirks(), 'history-fund-rate', limitOf(query, 100, 100, 'refuse'))
      const isFromOldest = quirks().oldestFirst.includes('history-fund-rate')
      const rows = world.fundingRates(category, symbol, at, page, limit, isFromOldest)
      return { resultList: inOrder(quirks(), 'history-fund-rate', rows, at) }
    },
    'current-fund-rate': (query: Query, at: TimeMs) =>
      world.fundingForecasts(futuresOf('current-fund-rate', query), at),
    // Requests for index components need no category, because it follows from the symbol. A given category is used.
    'index-components'(query: Query, at: TimeMs) {
      const matches = ({ category, symbol }: Listing) => category.endsWith('FUTURES') && symbol === query['symbol']
      const named = query['category'] ?? world.listings().find(matches)?.category ?? 'USDT-FUTURES'
      const { category, symbol } = futureOf('index-components', { ...query, category: named }, at)
      const { baseCoin } = existing('index-components', category, symbol, at)
      const draw = stageOf('index-components', symbol, at)
      const components = indexExchanges.filter((_, place) => place === 0 || draw(place) % 2 === 0)
      const share = Math.floor(10_000 / components.length)
      const componentList = components.map((exchange, place) => ({
        exchange,
        spotPair: `${baseCoin}USDT`,
        equivalentPrice: world.ticker(category, symbol, at)?.['indexPrice'] ?? '',
        weight: fixed(place === 0 ? 10_000 - share * (components.length - 1) : share, 4),
      }))
      return { symbol, componentList }
    },
    liquidations(query: Query, at: TimeMs) {
      const { category, symbol } = futureOf('liquidations', query, at)
      const cursor = wholeNumber(query, 'cursor') ?? null
      const limit = pageLimit(quirks(), 'liquidations', limitOf(query, 100, 100, 'refuse'))
      const isFromOldest = quirks().oldestFirst.includes('liquidations')
      const { rows, next } = world.liquidations(category, symbol, { at, cursor, limit, isFromOldest })
      const list = inOrder(quirks(), 'liquidations', rows, at)
      return { list, cursor: next === null || !quirks().liquidationsHaveCursor ? '' : String(next) }
    },
  }
}
