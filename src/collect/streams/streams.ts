import type { Config } from '../../config/resolve.js'
import {
  type BookTarget,
  type CandleTarget,
  type CategoryTarget,
  isWholeList,
  type TradedCategoryTarget,
} from '../../ledger/batch.js'
import { type Candle, type CandleType, type Interval, intervalMs, whyNoCandles } from '../../market/candle.js'
import { type InstrumentKey, isTradedCategory, type TradedCategory } from '../../market/category.js'
import type { Instrument, InstrumentKind } from '../../market/instrument.js'
import {
  type Fill,
  fillsPerPage,
  type OrderBook,
  type RpiOrderBook,
  type RpiSymbol,
  type Ticker,
} from '../../market/rows.js'
import { type StreamName, streamNames, streamTraits } from '../../market/stream.js'
import { hourMs, secondsPerDay, serviceMs, sum } from '../../market/values.js'
import { candlePaceLimits } from '../schedule/candleSchedule.js'
import { meanWaitMs, plannedFillsPerResponse } from '../schedule/fillShare.js'
import { expectedFillsPerSecond, fillTurnoverFactor, type PlanInstrument } from '../universe/planUniverse.js'
import { futuresStreams } from './futures.js'
import type { InstrumentStream, ListStream, RowBytes } from './stream.js'
import { byOperation, type Operation } from '../../market/operation.js'

/** A request that follows the last one sooner brings next to nothing, even for the busiest instrument. */
const shortestPollMs = 50

/** Plain tickers were measured on PostgreSQL 18 with data of the simulator. Compressed ones are an estimate. */
const tickerBytes = { plain: 232, compressed: 80 }

const instruments: ListStream<CategoryTarget, Instrument> = {
  kind: 'lists',
  name: 'instruments',
  schedule: ({ streams }) => streams.instruments.schedule,
  lists: ({ streams }) => streams.instruments.categories,
  fetch: (client, { category }, options) => client.instruments({ category }, options),
  bounded: (universe, { category }, rows) => universe.withRoom(category, rows),
  learn: (universe, batch) => universe.setInstruments(batch.target.category, batch.rows, isWholeList(batch)),
  // A row is written only when an instrument changes, which is too rare to count.
  rowsOf: () => 0,
  bytes: tickerBytes,
}

const rpiSymbols: ListStream<object, RpiSymbol> = {
  kind: 'lists',
  name: 'rpi_symbols',
  schedule: ({ streams }) => streams.instruments.schedule,
  lists: () => [null],
  fetch: (client, _target, options) => client.rpiSymbols(options),
  learn: (universe, batch) => universe.setRpiSymbols(batch.rows, isWholeList(batch)),
  rowsOf: () => 0,
  covers: ({ hasRpi }) => hasRpi,
  bytes: tickerBytes,
}

const tickers: ListStream<TradedCategoryTarget, Ticker> = {
  kind: 'lists',
  name: 'tickers',
  schedule: ({ streams }) => streams.tickers.schedule,
  lists: ({ streams }) => streams.tickers.categories,
  fetch: (client, { category }, options) => client.tickers({ category }, options),
  learn: (universe, { rows }) => universe.setTickers(rows),
  rowsOf: ({ length }) => length,
  covers: ({ category }) => isTradedCategory(category),
  bytes: tickerBytes,
  // Watched tickers are not divided among recorders: each recorder watches for its own fills.
  extraPerSecond: watchesPerSecond,
}

type BookOptions = Config['streams']['orderBooks' | 'rpiOrderBooks']

const orderBooks = bookStream<OrderBook>(
  ({ streams }) => streams.orderBooks,
  // Bytes of a level, as measured on TimescaleDB 2.29.
  { plain: 20.92, compressed: 0.88 },
  {
    name: 'order_books',
    fetch: (client, { category, symbol, depth }, options) =>
      client.orderBook({ category, symbol, limit: depth }, options),
    contentOf: (rows) => bookText(rows, ({ bidSizes, askSizes }) => [bidSizes, askSizes]),
  },
)

const rpiOrderBooks = bookStream<RpiOrderBook>(
  ({ streams }) => streams.rpiOrderBooks,
  // Plain bytes were measured on PostgreSQL 18 with data of the simulator. Compressed bytes are an estimate.
  { plain: 21.6, compressed: 1.2 },
  {
    name: 'rpi_order_books',
    covers: ({ hasRpi }) => hasRpi,
    fetch: (client, { category, symbol, depth }, options) =>
      client.rpiOrderBook({ category, symbol, limit: depth }, options),
    contentOf: (rows) =>
      bookText(rows, ({ bidSizes, askSizes, bidRpiSizes, askRpiSizes }) => [
        bidSizes,
        askSizes,
        bidRpiSizes,
        askRpiSizes,
      ]),
  },
)

/** @param level bytes of one level of a book */
function bookStream<Book extends OrderBook>(
  optionsOf: (config: Config) => BookOptions,
  level: RowBytes,
  own: Pick<InstrumentStream<BookTarget, Book>, 'name' | 'fetch' | 'contentOf' | 'covers'>,
): InstrumentStream<BookTarget, Book> {
  return {
    kind: 'instruments',
    trigger: (config) => ({ kind: 'cycle', everyMs: optionsOf(config).everySeconds * 1000 }),
    select: (config) => optionsOf(config).select,
    targetsOf: (config, keys) => traded(keys).map((key) => ({ depth: optionsOf(config).depth, ...key })),
    costOf: (config) => () => 1 / optionsOf(config).everySeconds,
    rowsPerDayOf: (config) => () => secondsPerDay / optionsOf(config).everySeconds,
    bytes(config) {
      const levels = 2 * optionsOf(config).depth
      return { plain: level.plain * levels, compressed: level.compressed * levels }
    },
    ...own,
  }
}

/** Returns the levels of a book as text; null if it has none. Its time is left out, because a new time is no news. */
function bookText<Book extends OrderBook>(
  [book]: readonly Book[],
  sizesOf: (book: Book) => readonly (readonly string[])[],
): string | null {
  if (book === undefined || (book.bidPrices.length === 0 && book.askPrices.length === 0)) return null
  return [book.bidPrices, book.askPrices, ...sizesOf(book)].map((values) => values.join(' ')).join('|')
}

const candles: InstrumentStream<CandleTarget, Candle> = {
  kind: 'instruments',
  name: 'candles',
  trigger: ({ streams: { candles: settings } }) => ({
    kind: 'candle-close',
    settleMs: settings.settleMs,
    // Candles of longer intervals are requested every hour, because it is not known at which hour they close.
    shortestMs: Math.min(hourMs, ...settings.intervals.map((interval) => intervalMs[interval])),
  }),
  select: ({ streams }) => streams.candles.select,
  targetsOf(config, keys, universe) {
    const { settleMs } = config.streams.candles
    const candlesOf = candlesByKind(config)
    return traded(keys).flatMap(({ category, symbol }) =>
      candlesOf(universe.find({ category, symbol })?.kind ?? 'other').map(({ type, interval }) => ({
        category,
        symbol,
        type,
        interval,
        settleMs,
        limit: 3,
      })),
    )
  },
  async fetch(client, { category, symbol, type, interval, limit, settleMs }, options) {
    const page = await client.candles({ category, symbol, type, interval, limit, settleMs }, options)
    // More than was asked for may lie anywhere. Each such candle would be a piece of time of its own.
    const times = page.rows.map(({ openTime }) => openTime).toSorted((a, b) => b - a)
    const oldest = times[limit - 1] ?? serviceMs(0)
    return { ...page, rows: page.rows.filter(({ openTime }) => openTime >= oldest) }
  },
  costOf(config) {
    const candlesOf = candlesByKind(config)
    return (instrument) => {
      const fillsPerSecond = expectedFillsPerSecond(instrument)
      return sum(
        candlesOf(instrument.kind).map(({ type, interval }) => {
          const { everyMs, maxMs } = candlePaceLimits(interval)
          // Index, mark and premium candles move without a trade.
          const activeShare = type === 'market' ? -Math.expm1((-fillsPerSecond * everyMs) / 1000) : 1
          return (activeShare * 1000) / everyMs + ((1 - activeShare) * 1000) / maxMs
        }),
      )
    }
  },
  rowsPerDayOf(config) {
    const candlesOf = candlesByKind(config)
    return ({ kind }) => sum(candlesOf(kind).map(({ interval }) => (secondsPerDay * 1000) / intervalMs[interval]))
  },
  // Bytes of a row, as measured on TimescaleDB 2.29.
  bytes: () => ({ plain: 192, compressed: 31.5 }),
}

/** Finds the types and intervals of the configuration that instruments of each kind have. */
function candlesByKind({ streams: { candles: settings } }: Config) {
  const found = new Map<InstrumentKind, readonly { readonly type: CandleType; readonly interval: Interval }[]>()
  return (kind: InstrumentKind) => {
    const known =
      found.get(kind) ??
      settings.types.flatMap((type) =>
        settings.intervals
          .filter((interval) => whyNoCandles(kind, type, interval) === null)
          .map((interval) => ({ type, interval })),
      )
    found.set(kind, known)
    return known
  }
}

const fills: InstrumentStream<InstrumentKey, Fill> = {
  kind: 'instruments',
  name: 'fills',
  trigger: (config) => ({
    kind: 'overlap',
    minPollMs: shortestPollMs,
    maxPollMs: config.streams.fills.maxPollSeconds * 1000,
    allowedPerSecond: safeRates(config).perSecond.fills,
  }),
  select: ({ streams }) => streams.fills.select,
  targetsOf: (_config, keys) => keys.map(({ category, symbol }) => ({ category, symbol })),
  fetch: (client, { category, symbol }, options) => client.fills({ category, symbol }, options),
  costOf:
    ({ streams }) =>
    (instrument) =>
      requestsPerSecond(expectedFillsPerSecond(instrument), streams.fills.maxPollSeconds),
  rowsPerDayOf: () => (instrument) => expectedFillsPerSecond(instrument) * secondsPerDay,
  // Compressed bytes were measured on TimescaleDB 2.29, plain bytes on PostgreSQL 18 with data of the simulator.
  bytes: () => ({ plain: 232, compressed: 52 }),
  sharesRequests: fillsPerPage,
}

interface FillsDemand {
  /** Requests per second that lose next to nothing. */
  readonly neededPerSecond: number
  /** Bounds of `neededPerSecond`, by the uncertainty of the rates that are computed from turnover. */
  readonly neededRange: { readonly least: number; readonly most: number }
  readonly fillsPerDay: number
  /** Number of instruments whose rate was recorded. The others' rates are computed from turnover. */
  readonly measured: number
}

/** Requests and rows that recording the fills of these instruments takes. */
export function fillsDemand(instruments: readonly PlanInstrument[], maxPollSeconds: number): FillsDemand {
  const rates = instruments.map((instrument) => ({
    rate: expectedFillsPerSecond(instrument),
    isMeasured: instrument.measuredFillsPerSecond !== null,
  }))
  const needed = (factor: number) =>
    sum(rates.map(({ rate, isMeasured }) => requestsPerSecond(isMeasured ? rate : rate * factor, maxPollSeconds)))
  return {
    neededPerSecond: needed(1),
    neededRange: { least: needed(1 / fillTurnoverFactor), most: needed(fillTurnoverFactor) },
    fillsPerDay: sum(rates.map(({ rate }) => rate)) * secondsPerDay,
    measured: rates.filter(({ isMeasured }) => isMeasured).length,
  }
}

/** Follows the schedule: a request is sent when a response is worth it, or after the mean longest wait. */
function requestsPerSecond(fillsPerSecond: number, maxPollSeconds: number): number {
  const waitSeconds = meanWaitMs(fillsPerSecond / 1000, maxPollSeconds * 1000) / 1000
  return 1 / Math.max(shortestPollMs / 1000, Math.min(plannedFillsPerResponse / fillsPerSecond, waitSeconds))
}

/** Defines how each stream is requested, what it covers and what that costs. Other traits are in `market/stream.ts`. */
export const streams = {
  instruments,
  rpi_symbols: rpiSymbols,
  tickers,
  order_books: orderBooks,
  rpi_order_books: rpiOrderBooks,
  fills,
  candles,
  ...futuresStreams,
} as const satisfies Readonly<Record<StreamName, unknown>>

export type AnyStream = ListStream<unknown, unknown> | InstrumentStream<InstrumentKey, unknown>

/** Looks up a stream by its name. A batch is read by the stream that made it, so the types of its rows agree. */
export function streamNamed(name: StreamName): AnyStream {
  return streams[name]
}

export function enabledStreams({ streams: options }: Config): AnyStream[] {
  return streamNames.filter((name) => options[streamTraits[name].options].enabled).map(streamNamed)
}

/** Keeps the instruments that have a market of their own. Margin trades on the spot books. */
function traded(keys: readonly InstrumentKey[]): { category: TradedCategory; symbol: string }[] {
  return keys.flatMap(({ category, symbol }) => (isTradedCategory(category) ? [{ category, symbol }] : []))
}

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
