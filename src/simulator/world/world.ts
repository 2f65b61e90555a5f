import type { Category, TradedCategory } from '../../market/category.js'
import type { TimeMs } from '../../market/values.js'
import type { Quirks } from './quirks.js'
import { type ActivityProfile, createCatalogue, defaultActivity, type Scale, type Catalogue } from './catalogue.js'
import { createCommonFactor } from './prices.js'
import { type FillRow, fillRows, type PastFillRow, pastFillRows } from './fillRows.js'
import {
  type FundingForecastRow,
  fundingForecastRow,
  testForecastRows,
  type FundingRateRow,
  fundingRateRows,
  liquidationRows,
} from './funding.js'
import { mixText, unit } from './hash.js'
import { type InstrumentRow, instrumentRow } from './instrumentRows.js'
import { isShown, isTrading, type Listing, type ListingRequest, changeTimes } from './listing.js'
import { createMarket, type Market } from './market.js'
import { createServedCandles, type ServedCandles } from './servedCandles.js'
import {
  type BookRow,
  bookRow,
  createTickerState,
  tickerRow,
  type TickerRow,
  type TickerState,
  tickerTime,
} from './tickers.js'

interface WorldOptions {
  readonly seed: number
  readonly scale: Scale
  readonly activity: Partial<ActivityProfile>
  readonly customInstruments?: readonly ListingRequest[]
  readonly quirks: () => Quirks
}

/**
 * The simulated market: what is true at any moment. Everything is computed from the seed on request, in any order. So a
 * test can say exactly what must have been recorded.
 */
export interface World extends Omit<Listings, 'need' | 'shown'>, ServedCandles {
  /** Returns rows of instruments as the operation gives them. */
  instruments(category: Category, at: TimeMs): readonly InstrumentRow[]
  instrument(category: Category, symbol: string, at: TimeMs): InstrumentRow | null
  tickers(category: TradedCategory, at: TimeMs): readonly TickerRow[]
  ticker(category: TradedCategory, symbol: string, at: TimeMs): TickerRow | null
  orderBook(category: TradedCategory, symbol: string, at: TimeMs, limit: number): BookRow
  rpiOrderBook(category: TradedCategory, symbol: string, at: TimeMs, limit: number): BookRow
  /** Returns every fill of a half-open range, oldest first. */
  fills(category: Category, symbol: string, from: TimeMs, to: TimeMs): readonly FillRow[]
  /** Returns the newest fills up to and including `at`, newest first. */
  latestFills(category: Category, symbol: string, at: TimeMs, limit: number): readonly FillRow[]
  /** Returns fills of a half-open range with ids below `idBelow`, as the history gives them, in their order. */
  pastFills(
    category: Category,
    symbol: string,
    range: Parameters<typeof pastFillRows>[1],
    limit: number,
  ): readonly PastFillRow[]
  /** Returns settled rates as the operation gives them, newest first. */
  fundingRates(
    category: Category,
    symbol: string,
    at: TimeMs,
    page: number,
    limit: number,
    isFromOldest?: boolean,
  ): readonly FundingRateRow[]
  fundingForecasts(category: Category, at: TimeMs): readonly FundingForecastRow[]
  liquidations(
    category: Category,
    symbol: string,
    page: Parameters<typeof liquidationRows>[1],
  ): ReturnType<typeof liquidationRows>
  rpiSymbols(at: TimeMs): readonly { readonly category: string; readonly symbol: string }[]
}

export function createWorld(options: WorldOptions): World {
  const activity = { ...defaultActivity, ...options.activity }
  const { seed, quirks } = options
  const common = createCommonFactor(seed)
  const { need, shown, ...listings } = createListings(
    createCatalogue(seed, options.scale, activity, options.customInstruments),
  )
  const markets = new Map<Listing, { readonly market: Market; readonly ticker: TickerState }>()
  const stateOf = (listing: Listing) => {
    let state = markets.get(listing)
    if (!state) {
      const market = createMarket(seed, listing, activity.burstiness, common)
      state = { market, ticker: createTickerState() }
      markets.set(listing, state)
    }
    return state
  }
  const marketOf = (category: Category, symbol: string): Market => stateOf(need(category, symbol)).market
  const ticker = (listing: Listing, at: TimeMs): TickerRow | null => {
    if (!isTrading(listing, at)) return null
    const { market, ticker: state } = stateOf(listing)
    const ts = tickerTime(market, at)
    return isTrading(listing, ts) ? tickerRow(market, state, ts, quirks()) : null
  }
  const book = (category: Category, symbol: string, at: TimeMs, limit: number, kind: 'plain' | 'rpi'): BookRow => {
    const isEmpty = unit(mixText(seed, `book ${category} ${symbol}`)) < quirks().emptyBooks
    return bookRow(marketOf(category, symbol), at, { limit, kind, isEmpty, aheadMs: quirks().bookTsAheadMs })
  }

  return {
    ...listings,
    ...createServedCandles(seed, marketOf, quirks),
    instruments: (category, at) => shown(category, at).map((listing) => instrumentRow(listing, at, quirks())),
    instrument(category, symbol, at) {
      const listing = need(category, symbol)
      return isShown(listing, at) ? instrumentRow(listing, at, quirks()) : null
    },
    tickers: (category, at) =>
      shown(category, at)
        .map((listing) => ticker(listing, at))
        .filter((row) => row !== null),
    ticker: (category, symbol, at) => ticker(need(category, symbol), at),
    orderBook: (category, symbol, at, limit) => book(category, symbol, at, limit, 'plain'),
    rpiOrderBook: (category, symbol, at, limit) => book(category, symbol, at, limit, 'rpi'),
    fills(category, symbol, from, to) {
      const market = marketOf(category, symbol)
      return fillRows(market, ...market.fillRange(from, to), quirks())
    },
    latestFills(category, symbol, at, limit) {
      const market = marketOf(category, symbol)
      const [first, end] = market.fillRange(0, at + 1)
      return fillRows(market, Math.max(first, end - limit), end, quirks()).toReversed()
    },
    pastFills: (category, symbol, range, limit) => pastFillRows(marketOf(category, symbol), range, limit, quirks()),
    fundingRates: (category, symbol, at, page, limit, isFromOldest = false) =>
      fundingRateRows(marketOf(category, symbol), { at, page, limit, isFromOldest }, quirks()),
    fundingForecasts: (category, at) => [
      ...shown(category, at)
        .filter((listing) => isTrading(listing, at) && listing.contract === 'perpetual')
        .map((listing) => fundingForecastRow(stateOf(listing).market, at)),
      ...testForecastRows(category, at),
    ],
    liquidations: (category, symbol, page) => liquidationRows(marketOf(category, symbol), page, quirks()),
    rpiSymbols: (at) =>
      listings
        .listings()
        .filter((listing) => listing.hasRpi && isTrading(listing, at) && listing.category !== 'MARGIN')
        .map(({ category, symbol }) => ({ category: category.toLowerCase(), symbol })),
  }
}

/** The instruments of a world. Tests list more of them, and change them. */
interface Listings {
  /** Returns every instrument that ever exists. */
  listings(): readonly Listing[]
  find(category: Category, symbol: string): Listing | undefined
  /** Returns an instrument. Throws if there is none of the name. */
  need(category: Category, symbol: string): Listing
  /** Returns the instruments of a category that the service lists at a time. */
  shown(category: Category, at: TimeMs): readonly Listing[]
  /** Returns the next moment after `at` at which a row of an instrument of the category changes. */
  nextChange(category: Category, at: TimeMs): TimeMs
  /** Adds an instrument, or replaces the instrument of the same name. */
  put(request: ListingRequest): Listing
  /** Changes an instrument that exists. */
  amend(category: Category, symbol: string, change: Partial<Listing>): void
  /** Returns the number of changes made with `put` and `amend`. */
  version(): number
}

function createListings(catalogue: Catalogue): Listings {
  const listings = [...catalogue.listings]
  const byKey = new Map(listings.map((listing) => [`${listing.category} ${listing.symbol}`, listing]))
  let nextMarketId = listings.length
  let version = 0
  const find = (category: Category, symbol: string): Listing | undefined => byKey.get(`${category} ${symbol}`)
  const need = (category: Category, symbol: string): Listing => {
    const listing = find(category, symbol)
    if (listing) return listing
    throw new Error(`the simulated market has no ${category} ${symbol}: ask world.listings() for what there is`)
  }
  const replace = (old: Listing | undefined, listing: Listing): void => {
    if (old) listings[listings.indexOf(old)] = listing
    else listings.push(listing)
    byKey.set(`${listing.category} ${listing.symbol}`, listing)
    version++
  }
  return {
    listings: () => listings,
    find,
    need,
    shown: (category, at) => listings.filter((listing) => listing.category === category && isShown(listing, at)),
    nextChange(category, at) {
      let next = Number.POSITIVE_INFINITY
      for (const listing of listings) {
        if (listing.category !== category) continue
        for (const time of changeTimes(listing)) if (time > at && time < next) next = time
      }
      return next
    },
    put(request) {
      const old = find(request.category, request.symbol)
      const listing = catalogue.complete(request, old?.marketId ?? nextMarketId++)
      replace(old, listing)
      return listing
    },
    amend(category, symbol, change) {
      const old = need(category, symbol)
      replace(old, { ...old, ...change })
    },
    version: () => version,
  }
}
