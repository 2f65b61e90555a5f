import type { Category, TradedCategory } from '../../market/category.js'
import { hourMs, type TimeMs } from '../../market/values.js'
import type { Quirks } from './quirks.js'
import { type BookKind, type BookRow, bookSide, bookStepMs } from './books.js'
import { type Bar, barOf, candleRow, type CandleRow, createHourCache, minutesOf } from './candles.js'
import { type ActivityProfile, createCatalogue, defaultActivity, type Scale } from './catalogue.js'
import { createCommonFactor } from './prices.js'
import { type FillRow, fillRow, indexOfId, largestShiftMs, type PastFillRow, pastFillRow } from './fillRows.js'
import {
  type FundingForecastRow,
  fundingForecastRow,
  testForecastRows,
  type FundingRateRow,
  fundingRateRows,
  liquidationRows,
} from './funding.js'
import { mix, mixText, unit } from './hash.js'
import { type InstrumentRow, instrumentRow } from './instrumentRows.js'
import { nextOpenTime, openTimeBefore, openTimeOf, type ServedSeries } from './intervals.js'
import { changeTimes, isShown, isTrading, type Listing, type ListingRequest } from './listing.js'
import { createMarket, fillAt, type Market } from './market.js'
import { earliestTraded, tradedCandles } from './sparseCandles.js'
import { createTickerState, type TickerState, tickerRow, type TickerRow, tickerTime } from './tickers.js'

interface PastFillRange {
  readonly from: TimeMs
  readonly to: TimeMs
  readonly idBelow: bigint | null
  /** The oldest fills are wanted instead of the newest. */
  readonly isFromOldest?: boolean
}

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
export interface World {
  /** Returns every instrument that ever exists. */
  readonly listings: () => readonly Listing[]
  find(category: Category, symbol: string): Listing | undefined
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
  pastFills(category: Category, symbol: string, range: PastFillRange, limit: number): readonly PastFillRow[]
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
  /** Returns every candle that opens in the half-open range, ascending, as of `at`, including the forming one. */
  candles(series: ServedSeries, from: TimeMs, to: TimeMs, at: TimeMs): readonly CandleRow[]
  rpiSymbols(at: TimeMs): readonly { readonly category: string; readonly symbol: string }[]
  /** Returns when the earliest of the `limit` most recent candles opens that open in the half-open range. */
  earliestOf(series: ServedSeries, from: TimeMs, to: TimeMs, at: TimeMs, limit: number): TimeMs
  /** Returns true if the series has no candles for intervals without a trade. */
  leavesOutSilence(series: ServedSeries): boolean
  /** Returns when the candle that holds `at` opens; `closeTime` returns when the next one does. */
  openTime(series: ServedSeries, at: TimeMs): TimeMs
  closeTime(series: ServedSeries, openTime: TimeMs): TimeMs
  /** Returns the next moment after `at` at which a row of an instrument of the category changes. */
  nextChange(category: Category, at: TimeMs): TimeMs
  /** Adds an instrument, or replaces the instrument of the same name. */
  put(request: ListingRequest): Listing
  /** Changes an instrument that exists. */
  amend(category: Category, symbol: string, change: Partial<Listing>): void
  /** Returns the number of changes made with `put` and `amend`. */
  readonly version: () => number
}

/** Instruments with at most this many fills per hour are thinly traded. Their candles may omit silent intervals. */
const quietFillsPerHour = 120

export function createWorld(options: WorldOptions): World {
  const activity = { ...defaultActivity, ...options.activity }
  const { quirks } = options
  const catalogue = createCatalogue(options.seed, options.scale, activity, options.customInstruments)
  const common = createCommonFactor(options.seed)
  const cache = createHourCache()
  const listings = [...catalogue.listings]
  const byKey = new Map(listings.map((listing) => [`${listing.category} ${listing.symbol}`, listing]))
  const markets = new Map<Listing, { readonly market: Market; readonly ticker: TickerState }>()
  let nextMarketId = listings.length
  let version = 0

  const stateOf = (listing: Listing) => {
    let state = markets.get(listing)
    if (!state) {
      const market = createMarket(options.seed, listing, activity.burstiness, common)
      state = { market, ticker: createTickerState() }
      markets.set(listing, state)
    }
    return state
  }
  const find = (category: Category, symbol: string): Listing | undefined => byKey.get(`${category} ${symbol}`)
  const need = (category: Category, symbol: string): Listing => {
    const listing = find(category, symbol)
    if (!listing)
      throw new Error(`the simulated market has no ${category} ${symbol}: ask world.listings() for what there is`)
    return listing
  }
  const marketOf = (category: Category, symbol: string): Market => stateOf(need(category, symbol)).market
  const shown = (category: Category, at: TimeMs): Listing[] =>
    listings.filter((listing) => listing.category === category && isShown(listing, at))
  const ticker = (listing: Listing, at: TimeMs): TickerRow | null => {
    if (!isTrading(listing, at)) return null
    const { market, ticker: state } = stateOf(listing)
    const ts = tickerTime(market, at)
    return isTrading(listing, ts) ? tickerRow(market, state, ts, quirks()) : null
  }
  const book = (category: Category, symbol: string, at: TimeMs, limit: number, kind: BookKind): BookRow => {
    const market = marketOf(category, symbol)
    const { book: trait, launchTime } = market.listing
    const now = Math.floor(at / bookStepMs) * bookStepMs
    const state = trait === 'still' || trait === 'frozen' ? launchTime : now
    const ahead = mix(market.key, 0xa4ead) % (quirks().bookTsAheadMs + 1)
    const ts = String((trait === 'frozen' ? state : now) + ahead)
    const isEmpty =
      trait === 'empty' ||
      !isTrading(market.listing, now) ||
      unit(mixText(options.seed, `book ${category} ${symbol}`)) < quirks().emptyBooks
    if (isEmpty) return { a: [], b: [], ts }
    return { a: bookSide(market, 'ask', state, limit, kind), b: bookSide(market, 'bid', state, limit, kind), ts }
  }
  const fillRows = (market: Market, from: number, to: number): FillRow[] =>
    Array.from({ length: to - from }, (_, i) => fillRow(market, fillAt(market, from + i), quirks()))
  const midnightMs = (): number => (quirks().dailyOpenAt16Utc ? -28_800_000 : 0)
  const leavesOutSilence = ({ category, symbol, type }: ServedSeries): boolean => {
    if (type !== 'market') return false
    const { candles, fillsPerHour } = need(category, symbol)
    if (candles !== 'every') return true
    const { silentInstruments } = quirks()
    const isQuiet = silentInstruments > 0 && fillsPerHour <= quietFillsPerHour
    return isQuiet && unit(mixText(options.seed, `silent ${category} ${symbol}`)) < silentInstruments
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
    version: () => version,
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
      return fillRows(market, ...market.fillRange(from, to))
    },
    latestFills(category, symbol, at, limit) {
      const market = marketOf(category, symbol)
      const [first, end] = market.fillRange(0, at + 1)
      return fillRows(market, Math.max(first, end - limit), end).toReversed()
    },
    fundingRates: (category, symbol, at, page, limit, isFromOldest = false) =>
      fundingRateRows(marketOf(category, symbol), { at, page, limit, isFromOldest }, quirks()),
    fundingForecasts: (category, at) => [
      ...shown(category, at)
        .filter((listing) => isTrading(listing, at) && listing.contract === 'perpetual')
        .map((listing) => fundingForecastRow(stateOf(listing).market, at)),
      ...testForecastRows(category, at),
    ],
    liquidations: (category, symbol, page) => liquidationRows(marketOf(category, symbol), page, quirks()),
    pastFills(category, symbol, { from, to, idBelow, isFromOldest = false }, limit) {
      const market = marketOf(category, symbol)
      const [first, end] = market.fillRange(from, to + largestShiftMs(quirks()))
      const stop = idBelow === null ? end : Math.min(end, indexOfId(market, idBelow))
      const rows: PastFillRow[] = []
      for (let place = 0; first + place < stop && rows.length < limit; place++) {
        const fill = fillAt(market, isFromOldest ? first + place : stop - 1 - place)
        const ts = Number(fillRow(market, fill, quirks()).ts)
        if (ts >= from && ts < to) rows.push(pastFillRow(market, fill, quirks()))
      }
      return rows
    },
    candles(series, from, to, at) {
      const market = marketOf(series.category, series.symbol)
      const { launchTime, offTime, candles } = market.listing
      if (candles === 'none') return []
      const midnight = midnightMs()
      if (leavesOutSilence(series)) return tradedCandles(market, series.interval, midnight, from, to, at)
      const next = (openTime: TimeMs): TimeMs => nextOpenTime(openTime, series.interval, midnight)
      const earliest = openTimeOf(launchTime, series.interval, midnight)
      const opens = openTimeOf(from, series.interval, midnight)
      const first = Math.max(opens < from ? next(opens) : opens, earliest)
      const end = Math.min(to, at + 1, offTime ?? to)
      const rows: CandleRow[] = []
      const add = (openTime: TimeMs, bar: Bar | null): void => {
        if (bar !== null) rows.push(candleRow(market, series.type, openTime, bar))
      }
      if (series.interval === '1m') {
        const length = 60_000
        // The minutes of an hour are computed together, which is cheaper than one by one.
        for (let start = first; start < end;) {
          const stop = Math.min(Math.floor(start / hourMs) * hourMs + hourMs, Math.ceil(end / length) * length)
          for (const [i, bar] of minutesOf(cache, market, series.type, start, stop, at).entries())
            add(start + i * length, bar)
          start = stop
        }
        return rows
      }
      for (let openTime = first; openTime < end; openTime = next(openTime)) {
        add(openTime, barOf(cache, market, series.type, series.interval, openTime, midnight, at))
      }
      return rows
    },
    leavesOutSilence,
    earliestOf(series, from, to, at, limit) {
      const market = marketOf(series.category, series.symbol)
      const midnight = midnightMs()
      if (leavesOutSilence(series)) return earliestTraded(market, series.interval, midnight, from, to, at, limit)
      const newest = openTimeOf(to - 1, series.interval, midnight)
      return Math.max(from, openTimeBefore(newest, series.interval, midnight, limit - 1))
    },
    rpiSymbols: (at) =>
      listings
        .filter((listing) => listing.hasRpi && isTrading(listing, at) && listing.category !== 'MARGIN')
        .map(({ category, symbol }) => ({ category: category.toLowerCase(), symbol })),
    openTime: (series, at) => openTimeOf(at, series.interval, midnightMs()),
    closeTime: (series, openTime) => nextOpenTime(openTime, series.interval, midnightMs()),
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
  }
}
