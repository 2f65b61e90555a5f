import type { Category, TradedCategory } from '../market/category.js'
import type { Operation } from '../market/operation.js'
import type { TimeMs } from '../market/values.js'
import { bookText, brokenData, type ResponseData } from './responseData.js'
import { createFutures } from './futures.js'
import { fillPage, pastFillPage } from './fillPages.js'
import { candlePage } from './pages.js'
import {
  candleQueryOf,
  categoryOf,
  limitOf,
  type PastFillsOperation,
  pastFillsQueryOf,
  type Query,
  ServiceFailure,
  symbolOf,
  tradedCategoryOf,
} from './parameters.js'
import type { Quirks } from './world/quirks.js'
import { takeTurns } from './turns.js'
import type { BookRow } from './world/books.js'
import { historySymbol } from './world/fillRows.js'
import { isRemoved, isShown, type Listing } from './world/listing.js'
import type { World } from './world/world.js'

/** A page that is valid in a half-open range of time, as long as the stamp is the same. */
interface CachedPage {
  readonly page: ResponseData
  readonly stamp: string
  readonly from: TimeMs
  readonly until: TimeMs
}

type Responder = (operation: Operation, query: Query, at: TimeMs) => Promise<ResponseData>

/**
 * Creates a function that responds to the operations from the world. It throws failures in the service's terms as a
 * ServiceFailure. Long responses are computed in slices, so that other requests are not held up.
 */
export function createResponder(world: World, quirks: () => Quirks): Responder {
  const instrumentPages = new Map<Category, CachedPage>()
  const tickerPages = new Map<TradedCategory, { readonly page: Promise<ResponseData>; readonly stamp: string }>()
  let lastTickerPage: Promise<unknown> = Promise.resolve()
  const emptyResponses = new Map<string, number>()
  let quirkStamp = { quirks: quirks(), number: 0 }

  const stampOf = (): string => {
    if (quirks() !== quirkStamp.quirks) quirkStamp = { quirks: quirks(), number: quirkStamp.number + 1 }
    return `${quirkStamp.number}:${world.version()}`
  }

  const existing = (operation: Operation, category: Category, symbol: string, at: TimeMs): Listing => {
    const listing = world.find(category, symbol)
    if (listing && isRemoved(listing, at)) throw new ServiceFailure('40309', 'The symbol has been removed')
    if (!listing || !isShown(listing, at)) {
      throw new ServiceFailure(operation === 'orderbook' ? '25100' : '40034', `Parameter ${symbol} does not exist`)
    }
    if (listing.failsWith !== null) throw new ServiceFailure(listing.failsWith, `${symbol} cannot be answered for`)
    return listing
  }

  const instruments = (query: Query, at: TimeMs): ResponseData => {
    const category = categoryOf('instruments', query, quirks())
    if (query['symbol']) {
      const { symbol } = existing('instruments', category, query['symbol'], at)
      return plain([world.instrument(category, symbol, at)])
    }
    const known = instrumentPages.get(category)
    const stamp = stampOf()
    if (known && known.stamp === stamp && at >= known.from && at < known.until) return known.page
    const data = world.instruments(category, at)
    const page = { data, text: Buffer.from(JSON.stringify(data)) }
    instrumentPages.set(category, { page, stamp, from: at, until: world.nextChange(category, at) })
    return page
  }

  const tickers = (query: Query, at: TimeMs): ResponseData | Promise<ResponseData> => {
    const category = tradedCategoryOf('tickers', query, quirks())
    if (query['symbol']) {
      const { symbol } = existing('tickers', category, query['symbol'], at)
      const row = world.ticker(category, symbol, at)
      return plain(row ? [row] : [])
    }
    const stamp = `${stampOf()}:${Math.floor(at / 500)}`
    const known = tickerPages.get(category)
    if (known?.stamp === stamp) return known.page
    // Only one page is computed at a time, because slices of several would add up within a turn of the event loop.
    const page = lastTickerPage.then(() => tickerPage(world, category, at))
    lastTickerPage = page.catch(() => undefined)
    tickerPages.set(category, { page, stamp })
    return page
  }

  const book = (kind: 'plain' | 'rpi', query: Query, at: TimeMs): ResponseData => {
    const operation = kind === 'rpi' ? 'rpi-orderbook' : 'orderbook'
    const category = tradedCategoryOf(operation, query, quirks())
    const { symbol } = existing(operation, category, symbolOf(query), at)
    const limit = limitOf(query, 5, 1_000, 'cut')
    const data =
      kind === 'rpi' ? world.rpiOrderBook(category, symbol, at, limit) : world.orderBook(category, symbol, at, limit)
    return { data, text: bookText(data, kind === 'rpi' && quirks().rpiBookAsStrings) }
  }

  const fills = (query: Query, at: TimeMs): ResponseData => {
    const category = categoryOf('fills', query, quirks())
    const { symbol } = existing('fills', category, symbolOf(query), at)
    return plain(fillPage(world, quirks(), category, symbol, at, limitOf(query, 100, 100, 'cut')))
  }

  const pastFills = (operation: PastFillsOperation, query: Query, at: TimeMs): ResponseData => {
    const request = pastFillsQueryOf(operation, query, at)
    const matches = (listing: Listing) =>
      listing.category === request.category && historySymbol(listing) === request.symbol
    const { symbol } = existing(operation, request.category, world.listings().find(matches)?.symbol ?? '', at)
    return plain(pastFillPage(world, quirks(), operation, { ...request, symbol }, at))
  }

  const futures = createFutures(world, quirks, existing)

  const candles = async (operation: 'candles' | 'history-candles', query: Query, at: TimeMs): Promise<ResponseData> => {
    const request = candleQueryOf(operation, query, quirks())
    const listing = existing(operation, request.category, request.symbol, at)
    const sinceLaunch = at - listing.launchTime
    if (sinceLaunch >= 0 && sinceLaunch < quirks().zeroByteCandlesAfterListingMs) return { data: [], text: null }
    return plain(await candlePage(world, quirks(), operation, request, at, listing))
  }

  const response = (operation: Operation, query: Query, at: TimeMs): ResponseData | Promise<ResponseData> => {
    switch (operation) {
      case 'instruments':
        return instruments(query, at)
      case 'rpi-symbols':
        return plain(world.rpiSymbols(at))
      case 'tickers':
        return tickers(query, at)
      case 'orderbook':
        return book('plain', query, at)
      case 'rpi-orderbook':
        return book('rpi', query, at)
      case 'fills':
        return fills(query, at)
      case 'candles':
      case 'history-candles':
        return candles(operation, query, at)
      case 'futures-fills-history':
      case 'spot-fills-history':
        return pastFills(operation, query, at)
      default:
        return plain(futures[operation](query, at))
    }
  }

  const isEmptyAtFirst = (operation: Operation, query: Query): boolean => {
    const { emptyAtFirst } = quirks()
    if (!emptyAtFirst?.operations.includes(operation)) return false
    const key = `${operation} ${JSON.stringify(Object.entries(query).toSorted(([a], [b]) => (a < b ? -1 : 1)))}`
    const given = emptyResponses.get(key) ?? 0
    if (given >= emptyAtFirst.responses) return false
    emptyResponses.set(key, given + 1)
    return true
  }

  return async (operation, query, at) => {
    const full = await response(operation, query, at)
    if (full.text !== null && isEmptyAtFirst(operation, query)) {
      return operation.endsWith('orderbook') ? emptyBook(full.data as BookRow) : plain([])
    }
    const { brokenRows, errorsForEmpty } = quirks()
    if (errorsForEmpty?.operations.includes(operation) && (full.data as readonly unknown[]).length === 0)
      throw new ServiceFailure(errorsForEmpty.code, 'No data')
    return full.text !== null && brokenRows?.operations.includes(operation)
      ? brokenData(operation, brokenRows.kind, full)
      : full
  }
}

function plain(data: unknown): ResponseData {
  return { data, text: JSON.stringify(data) }
}

function emptyBook(book: BookRow): ResponseData {
  return plain({ a: [], b: [], ts: book.ts })
}

/** Resolves to all tickers of a category. It may have thousands, so other requests get their turn in between. */
async function tickerPage(world: World, category: TradedCategory, at: TimeMs): Promise<ResponseData> {
  const rows: unknown[] = []
  const texts: string[] = []
  const giveTurn = takeTurns()
  for (const listing of world.listings()) {
    if (listing.category !== category || !isShown(listing, at)) continue
    const row = world.ticker(category, listing.symbol, at)
    if (!row) continue
    rows.push(row)
    texts.push(JSON.stringify(row))
    await giveTurn()
  }
  return { data: rows, text: Buffer.from(`[${texts.join(',')}]`) }
}
