import type { Operation } from '../market/operation.js'
import type { TimeMs } from '../market/values.js'
import { futuresData } from './futures.js'
import { candlePage, fillPage, pastFillPage, takeTurns } from './pages.js'
import {
  candleQueryOf,
  categoryOf,
  limitOf,
  type PastFillsOperation,
  pastFillsQueryOf,
  type Query,
  requireListing,
  ServiceFailure,
  symbolOf,
  tradedCategoryOf,
} from './parameters.js'
import type { Quirks } from './world/quirks.js'
import type { BookRow } from './world/tickers.js'
import { historySymbol } from './world/fillRows.js'
import { isShown, type Listing } from './world/listing.js'
import type { World } from './world/world.js'
import type { Category, TradedCategory } from '../market/category.js'

type Responder = (operation: Operation, query: Query, at: TimeMs) => Promise<ResponseData>

/**
 * Creates a function that responds to the operations from the world. It throws failures in the service's terms as a
 * ServiceFailure. Long responses are computed in slices, so that other requests are not held up.
 */
export function createResponder(world: World, quirks: () => Quirks): Responder {
  const pages = createCachedPages(world, quirks)
  const isEmptyAtFirst = createEmptyAtFirst(quirks)

  return async (operation, query, at) => {
    const full = await response(world, quirks(), pages, operation, query, at)
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

function response(
  world: World,
  quirks: Quirks,
  pages: CachedPages,
  operation: Operation,
  query: Query,
  at: TimeMs,
): ResponseData | Promise<ResponseData> {
  switch (operation) {
    case 'instruments': {
      const category = categoryOf(operation, query, quirks)
      if (!query['symbol']) return pages.instruments(category, at)
      const { symbol } = requireListing(world, operation, category, query['symbol'], at)
      return plain([world.instrument(category, symbol, at)])
    }
    case 'rpi-symbols':
      return plain(world.rpiSymbols(at))
    case 'tickers': {
      const category = tradedCategoryOf(operation, query, quirks)
      if (!query['symbol']) return pages.tickers(category, at)
      const { symbol } = requireListing(world, operation, category, query['symbol'], at)
      const row = world.ticker(category, symbol, at)
      return plain(row ? [row] : [])
    }
    case 'orderbook':
    case 'rpi-orderbook':
      return book(world, quirks, operation, query, at)
    case 'fills': {
      const category = categoryOf(operation, query, quirks)
      const { symbol } = requireListing(world, operation, category, symbolOf(query), at)
      return plain(fillPage(world, quirks, category, symbol, at, limitOf(query, 100, 100, 'cut')))
    }
    case 'candles':
    case 'history-candles':
      return candles(world, quirks, operation, query, at)
    case 'futures-fills-history':
    case 'spot-fills-history':
      return pastFills(world, quirks, operation, query, at)
    default:
      return plain(futuresData(world, quirks, operation, query, at))
  }
}

function book(
  world: World,
  quirks: Quirks,
  operation: 'orderbook' | 'rpi-orderbook',
  query: Query,
  at: TimeMs,
): ResponseData {
  const category = tradedCategoryOf(operation, query, quirks)
  const { symbol } = requireListing(world, operation, category, symbolOf(query), at)
  const limit = limitOf(query, 5, 1_000, 'cut')
  if (operation === 'orderbook') {
    const data = world.orderBook(category, symbol, at, limit)
    return { data, text: bookText(data, false) }
  }
  const data = world.rpiOrderBook(category, symbol, at, limit)
  return { data, text: bookText(data, quirks.rpiBookAsStrings) }
}

function pastFills(
  world: World,
  quirks: Quirks,
  operation: PastFillsOperation,
  query: Query,
  at: TimeMs,
): ResponseData {
  const request = pastFillsQueryOf(operation, query, at)
  const matches = (listing: Listing) =>
    listing.category === request.category && historySymbol(listing) === request.symbol
  const named = world.listings().find(matches)?.symbol ?? ''
  const { symbol } = requireListing(world, operation, request.category, named, at)
  return plain(pastFillPage(world, quirks, operation, { ...request, symbol }, at))
}

async function candles(
  world: World,
  quirks: Quirks,
  operation: 'candles' | 'history-candles',
  query: Query,
  at: TimeMs,
): Promise<ResponseData> {
  const request = candleQueryOf(operation, query, quirks)
  const listing = requireListing(world, operation, request.category, request.symbol, at)
  const sinceLaunch = at - listing.launchTime
  if (sinceLaunch >= 0 && sinceLaunch < quirks.zeroByteCandlesAfterListingMs) return { data: [], text: null }
  return plain(await candlePage(world, quirks, operation, request, at, listing))
}

/** Creates a function that tells if a request is one of the first of its kind, which have empty responses. */
function createEmptyAtFirst(quirks: () => Quirks): (operation: Operation, query: Query) => boolean {
  const emptyResponses = new Map<string, number>()
  return (operation, query) => {
    const { emptyAtFirst } = quirks()
    if (!emptyAtFirst?.operations.includes(operation)) return false
    const key = `${operation} ${JSON.stringify(Object.entries(query).toSorted(([a], [b]) => (a < b ? -1 : 1)))}`
    const given = emptyResponses.get(key) ?? 0
    if (given >= emptyAtFirst.responses) return false
    emptyResponses.set(key, given + 1)
    return true
  }
}

function plain(data: unknown): ResponseData {
  return { data, text: JSON.stringify(data) }
}

function emptyBook(book: BookRow): ResponseData {
  return plain({ a: [], b: [], ts: book.ts })
}

/** Whole lists of a category. They are long, so several requests share one. */
interface CachedPages {
  instruments(category: Category, at: TimeMs): ResponseData
  tickers(category: TradedCategory, at: TimeMs): Promise<ResponseData>
}

/** A page that is valid in a half-open range of time, as long as the stamp is the same. */
interface InstrumentPage {
  readonly page: ResponseData
  readonly stamp: string
  readonly from: TimeMs
  readonly until: TimeMs
}

function createCachedPages(world: World, quirks: () => Quirks): CachedPages {
  const instrumentPages = new Map<Category, InstrumentPage>()
  const tickerPages = new Map<TradedCategory, { readonly page: Promise<ResponseData>; readonly stamp: string }>()
  let lastTickerPage: Promise<unknown> = Promise.resolve()
  let quirkStamp = { quirks: quirks(), number: 0 }
  const stampOf = (): string => {
    if (quirks() !== quirkStamp.quirks) quirkStamp = { quirks: quirks(), number: quirkStamp.number + 1 }
    return `${quirkStamp.number}:${world.version()}`
  }
  return {
    instruments(category, at) {
      const known = instrumentPages.get(category)
      const stamp = stampOf()
      if (known && known.stamp === stamp && at >= known.from && at < known.until) return known.page
      const data = world.instruments(category, at)
      const page = { data, text: Buffer.from(JSON.stringify(data)) }
      instrumentPages.set(category, { page, stamp, from: at, until: world.nextChange(category, at) })
      return page
    },
    tickers(category, at) {
      const stamp = `${stampOf()}:${Math.floor(at / 500)}`
      const known = tickerPages.get(category)
      if (known?.stamp === stamp) return known.page
      // Only one page is computed at a time, because slices of several would add up within a turn of the event loop.
      const page = lastTickerPage.then(() => tickerPage(world, category, at))
      lastTickerPage = page.catch(() => undefined)
      tickerPages.set(category, { page, stamp })
      return page
    },
  }
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

/** The `data` of a response, as values and as the JSON text that is sent. Null text is a body of zero bytes. */
export interface ResponseData {
  readonly data: unknown
  readonly text: string | Buffer | null
}

/** Returns a book as JSON text. Its numbers are passed on as text, because no number type holds all their digits. */
function bookText(book: BookRow, asStrings: boolean): string {
  return `{"a":${levelsText(book.a, asStrings)},"b":${levelsText(book.b, asStrings)},"ts":"${book.ts}"}`
}

/** Returns one side of a book as JSON text. */
function levelsText(levels: BookRow['a'], asStrings: boolean): string {
  if (asStrings) return JSON.stringify(levels)
  return `[${levels.map((level) => `[${level.join(',')}]`).join(',')}]`
}

/** How one row of a page is spoiled: a field of the wrong type, a missing field, or a text that is no number. */
type BrokenKind = 'type' | 'missing' | 'nonsense'

/** Names of two fields of each operation: one that identifies a row, and one that is a number or a known word. */
const fields: Readonly<Partial<Record<Operation, readonly [identity: string, value: string]>>> = {
  instruments: ['symbol', 'pricePrecision'],
  'rpi-symbols': ['symbol', 'category'],
  tickers: ['symbol', 'lastPrice'],
  fills: ['execId', 'price'],
  candles: ['0', '1'],
  'history-candles': ['0', '1'],
  'futures-fills-history': ['tradeId', 'price'],
  'spot-fills-history': ['tradeId', 'price'],
}

/** Returns a copy of the page with its middle row broken. In an order book, the best ask is broken. */
function brokenData(operation: Operation, kind: BrokenKind, response: ResponseData): ResponseData {
  const names = fields[operation]
  if (!names) return brokenBook(response.data as BookRow, kind)
  const rows = response.data as readonly (Readonly<Record<string, unknown>> | readonly unknown[])[]
  const middle = Math.floor(rows.length / 2)
  const data = rows.map((row, index) => (index === middle ? brokenRow(row, kind, names) : row))
  return { data, text: JSON.stringify(data) }
}

function brokenRow(
  row: Readonly<Record<string, unknown>> | readonly unknown[],
  kind: BrokenKind,
  [identity, value]: readonly [string, string],
): unknown {
  if (kind === 'missing') {
    if (Array.isArray(row)) return row.slice(0, 3)
    return Object.fromEntries(Object.entries(row).filter(([name]) => name !== identity))
  }
  const change = kind === 'type' ? { [identity]: { unexpected: true } } : { [value]: '1.2.3' }
  return Object.assign(structuredClone(row), change)
}

function brokenBook(book: BookRow, kind: BrokenKind): ResponseData {
  if (kind === 'missing') {
    const data = { a: book.a, b: book.b }
    return { data, text: `{"a":${levelsText(book.a, false)},"b":${levelsText(book.b, false)}}` }
  }
  const broken = kind === 'type' ? [true, null] : ['1.2.3', 'many']
  const a = [broken, ...book.a.slice(1)]
  const rest = book.a.slice(1).map((level) => `,[${level.join(',')}]`)
  const text = `{"a":[${JSON.stringify(broken)}${rest.join('')}],"b":${levelsText(book.b, false)},"ts":"${book.ts}"}`
  return { data: { ...book, a }, text }
}
