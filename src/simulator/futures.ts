import type { TradedCategory } from '../market/category.js'
import type { Operation } from '../market/operation.js'
import { minuteMs, type TimeMs } from '../market/values.js'
import {
  limitOf,
  type PastFillsOperation,
  type Query,
  requireListing,
  ServiceFailure,
  symbolOf,
  tradedCategoryOf,
  wholeNumber,
} from './parameters.js'
import { inOrder, pageLimit } from './pages.js'
import { fixed, mix, mixText } from './world/hash.js'
import type { Listing } from './world/listing.js'
import type { Quirks } from './world/quirks.js'
import type { World } from './world/world.js'

const periodMs = 5 * minuteMs
const indexExchanges = ['Bitget', 'Binance', 'OKX', 'Bybit', 'Coinbase', 'Gate.io']

type FuturesOperation = Exclude<
  Operation,
  | 'instruments'
  | 'rpi-symbols'
  | 'tickers'
  | 'orderbook'
  | 'rpi-orderbook'
  | 'fills'
  | 'candles'
  | 'history-candles'
  | PastFillsOperation
>

/** Returns the data of a response that only futures have. Throws failures in the service's terms. */
export function futuresData(
  world: World,
  quirks: Quirks,
  operation: FuturesOperation,
  query: Query,
  at: TimeMs,
): unknown {
  const category = futuresCategory(world, quirks, operation, query)
  if (operation === 'current-fund-rate') return world.fundingForecasts(category, at)
  const listing = requireListing(world, operation, category, symbolOf(query), at)
  switch (operation) {
    case 'futures-active-buy-sell':
      return periods(operation, listing, query, at, (draw) => ({
        buyVolume: fixed(draw(0) % 9_000_000, 3),
        sellVolume: fixed(draw(1) % 9_000_000, 3),
      }))
    case 'futures-long-short':
      return periods(operation, listing, query, at, (draw) => ratios(draw, ''))
    case 'futures-account-long-short':
      return periods(operation, listing, query, at, (draw) => ratios(draw, 'Account'))
    case 'futures-position-long-short':
      return periods(operation, listing, query, at, (draw) => ratios(draw, 'Position'))
    case 'history-fund-rate':
      return settledRates(world, quirks, category, listing.symbol, query, at)
    case 'index-components':
      return { symbol: listing.symbol, componentList: indexComponents(world, quirks, category, listing, at) }
    case 'liquidations':
      return liquidations(world, quirks, category, listing.symbol, query, at)
  }
}

/** Requests for index components need no category, because it follows from the symbol. A given category is used. */
function futuresCategory(world: World, quirks: Quirks, operation: FuturesOperation, query: Query): TradedCategory {
  const matches = ({ category, symbol }: Listing) => category.endsWith('FUTURES') && symbol === query['symbol']
  const named =
    operation === 'index-components'
      ? { category: world.listings().find(matches)?.category ?? 'USDT-FUTURES', ...query }
      : query
  const category = tradedCategoryOf(operation, named, quirks)
  if (category === 'SPOT') throw new ServiceFailure('400172', 'Parameter category verification failed')
  return category
}

type Draw = (place: number) => number

/** Returns the last thirty periods of five minutes that have ended, ascending. */
function periods(
  operation: Operation,
  { symbol }: Listing,
  query: Query,
  at: TimeMs,
  rowOf: (draw: Draw) => object,
): object[] {
  if (query['period'] !== '5m') throw new ServiceFailure('400172', 'Parameter period verification failed')
  const newest = Math.floor(at / periodMs) - 1
  return Array.from({ length: 30 }, (_, index) => {
    const period = newest - 29 + index
    const key = mixText(period, `${operation} ${symbol}`)
    return { ...rowOf((place) => mix(key, place)), ts: String(period * periodMs) }
  })
}

function ratios(draw: Draw, of: string): object {
  const long = 3_000 + (draw(0) % 4_000)
  return {
    [`long${of}Ratio`]: fixed(long, 4),
    [`short${of}Ratio`]: fixed(10_000 - long, 4),
    [`longShort${of}Ratio`]: (long / (10_000 - long)).toFixed(4),
  }
}

/** Returns how many rows a page of the past may have, and from which end it is taken. */
function pageOf(quirks: Quirks, operation: 'history-fund-rate' | 'liquidations', query: Query) {
  return {
    limit: pageLimit(quirks, operation, limitOf(query, 100, 100, 'refuse')),
    isFromOldest: quirks.oldestFirst.includes(operation),
  }
}

function settledRates(
  world: World,
  quirks: Quirks,
  category: TradedCategory,
  symbol: string,
  query: Query,
  at: TimeMs,
): object {
  const page = Math.max(1, wholeNumber(query, 'cursor') ?? 1)
  const { limit, isFromOldest } = pageOf(quirks, 'history-fund-rate', query)
  const rows = world.fundingRates(category, symbol, at, page, limit, isFromOldest)
  return { resultList: inOrder(quirks, 'history-fund-rate', rows, at) }
}

/** Returns the components of an index. They change now and then, those of each index at their own times. */
function indexComponents(
  world: World,
  { termsChangeMs }: Quirks,
  category: TradedCategory,
  { symbol, baseCoin }: Listing,
  at: TimeMs,
): object[] {
  const key = mixText(0, `index-components ${symbol}`)
  const stage = Math.floor((at + (key % termsChangeMs)) / termsChangeMs)
  const components = indexExchanges.filter((_, place) => place === 0 || mix(key, stage, place) % 2 === 0)
  const share = Math.floor(10_000 / components.length)
  return components.map((exchange, place) => ({
    exchange,
    spotPair: `${baseCoin}USDT`,
    equivalentPrice: world.ticker(category, symbol, at)?.['indexPrice'] ?? '',
    weight: fixed(place === 0 ? 10_000 - share * (components.length - 1) : share, 4),
  }))
}

function liquidations(
  world: World,
  quirks: Quirks,
  category: TradedCategory,
  symbol: string,
  query: Query,
  at: TimeMs,
): object {
  const cursor = wholeNumber(query, 'cursor') ?? null
  const { rows, next } = world.liquidations(category, symbol, { at, cursor, ...pageOf(quirks, 'liquidations', query) })
  const list = inOrder(quirks, 'liquidations', rows, at)
  return { list, cursor: next === null || !quirks.liquidationsHaveCursor ? '' : String(next) }
}
