import type { Config } from '../config/resolve.js'
import type { ExchangeClient, Page } from '../exchange/client.js'
import type { RequestOptions } from '../exchange/sender.js'
import type { Candle } from '../market/candle.js'
import { whyNoCandles } from '../market/candleKinds.js'
import { type InstrumentKey, type TradedCategory, isTradedCategory } from '../market/category.js'
import type { Fill } from '../market/fill.js'
import type { Instrument } from '../market/instrument.js'
import type { OrderBook, RpiOrderBook, RpiSymbol } from '../market/orderBook.js'
import type { StreamName } from '../market/stream.js'
import type { Ticker } from '../market/ticker.js'
import {
  type Batch,
  type BookTarget,
  type CandleTarget,
  type CategoryTarget,
  type TradedCategoryTarget,
  isWholeList,
} from '../ledger/batch.js'
import type { Universe } from './universe/universe.js'
import { shortestPollMs } from './schedule/fillSchedule.js'

/** The event that makes the recorder request a stream. */
export type Trigger =
  /** The wall clock, for all targets at once. */
  | { readonly kind: 'cron'; readonly expression: string }
  /** A cycle of fixed length in which every target has a place of its own. */
  | { readonly kind: 'cycle'; readonly everyMs: number }
  /** The close of each target's candle. */
  | { readonly kind: 'candle-close'; readonly settleMs: number }
  /** The need to see a target's fills again before more have happened than one response shows. */
  | {
      readonly kind: 'overlap'
      readonly minPollMs: number
      readonly maxPollMs: number
      /** Largest rate that the limits allow, in requests a second. */
      readonly allowedPerSecond: number
    }

/** Chooses the instruments to cover from a ranking, busiest first. */
export type Choose = (ranked: readonly InstrumentKey[]) => readonly InstrumentKey[]

export interface StreamDefinition<Target, Row> {
  readonly name: StreamName
  isEnabled(config: Config): boolean
  trigger(config: Config): Trigger
  /** @param choose takes the instruments of the selection, the busiest first, and gives those to cover */
  targets(config: Config, universe: Universe, choose: Choose): Target[]
  fetch(client: ExchangeClient, target: Target, options: RequestOptions): Promise<Page<Row>>
  /** Updates the recorder's own knowledge of the market from a response. */
  learn?(universe: Universe, batch: Batch<Target, Row>): void
  /** Text to compare two responses by; null when a response is empty. Only for streams requested in a cycle. */
  contentOf?(rows: readonly Row[]): string | null
}

const instruments: StreamDefinition<CategoryTarget, Instrument> = {
  name: 'instruments',
  isEnabled: (config) => config.streams.instruments.enabled,
  trigger: (config) => ({ kind: 'cron', expression: config.streams.instruments.schedule }),
  targets: (config, { ownership }) =>
    config.streams.instruments.categories
      .filter((category) => ownership.hasList('instruments', category))
      .map((category) => ({ category })),
  fetch: (client, { category }, options) => client.instruments({ category }, options),
  learn: (universe, batch) => universe.setInstruments(batch.target.category, batch.rows, isWholeList(batch)),
}

const rpiSymbols: StreamDefinition<object, RpiSymbol> = {
  name: 'rpi_symbols',
  isEnabled: (config) => config.streams.rpiSymbols.enabled,
  trigger: (config) => ({ kind: 'cron', expression: config.streams.rpiSymbols.schedule }),
  targets: (_config, { ownership }) => (ownership.hasList('rpi_symbols', null) ? [{}] : []),
  fetch: (client, _target, options) => client.rpiSymbols(options),
  learn: (universe, batch) => universe.setRpiSymbols(batch.rows, isWholeList(batch)),
}

const tickers: StreamDefinition<TradedCategoryTarget, Ticker> = {
  name: 'tickers',
  isEnabled: (config) => config.streams.tickers.enabled,
  trigger: (config) => ({ kind: 'cron', expression: config.streams.tickers.schedule }),
  targets: (config, { ownership }) =>
    config.streams.tickers.categories
      .filter((category) => ownership.hasList('tickers', category))
      .map((category) => ({ category })),
  fetch: (client, { category }, options) => client.tickers({ category }, options),
  learn: (universe, { rows }) => universe.setTickers(rows),
}

const orderBooks: StreamDefinition<BookTarget, OrderBook> = {
  name: 'order_books',
  isEnabled: (config) => config.streams.orderBooks.enabled,
  trigger: (config) => ({ kind: 'cycle', everyMs: config.streams.orderBooks.everySeconds * 1000 }),
  targets: ({ streams: { orderBooks: settings } }, universe, choose) =>
    traded(choose(universe.select(settings.select))).map((key) => ({ depth: settings.depth, ...key })),
  fetch: (client, { category, symbol, depth }, options) =>
    client.orderBook({ category, symbol, limit: depth }, options),
  contentOf: (rows) => bookText(rows, ({ bidSizes, askSizes }) => [bidSizes, askSizes]),
}

const rpiOrderBooks: StreamDefinition<BookTarget, RpiOrderBook> = {
  name: 'rpi_order_books',
  isEnabled: (config) => config.streams.rpiOrderBooks.enabled,
  trigger: (config) => ({ kind: 'cycle', everyMs: config.streams.rpiOrderBooks.everySeconds * 1000 }),
  targets: ({ streams: { rpiOrderBooks: settings } }, universe, choose) =>
    traded(choose(universe.selectWithRpi(settings.select))).map((key) => ({ depth: settings.depth, ...key })),
  fetch: (client, { category, symbol, depth }, options) =>
    client.rpiOrderBook({ category, symbol, limit: depth }, options),
  contentOf: (rows) =>
    bookText(rows, ({ bidSizes, askSizes, bidRpiSizes, askRpiSizes }) => [
      bidSizes,
      askSizes,
      bidRpiSizes,
      askRpiSizes,
    ]),
}

const fills: StreamDefinition<InstrumentKey, Fill> = {
  name: 'fills',
  isEnabled: (config) => config.streams.fills.enabled,
  trigger: ({ streams: { fills: settings }, exchange }) => ({
    kind: 'overlap',
    minPollMs: shortestPollMs,
    maxPollMs: settings.maxPollSeconds * 1000,
    allowedPerSecond: exchange.limits.perSecond.fills / (1 + exchange.latencyJitterMs / 1000),
  }),
  targets: (config, universe, choose) =>
    choose(universe.select(config.streams.fills.select)).map(({ category, symbol }) => ({ category, symbol })),
  fetch: (client, { category, symbol }, options) => client.fills({ category, symbol }, options),
}

const candles: StreamDefinition<CandleTarget, Candle> = {
  name: 'candles',
  isEnabled: (config) => config.streams.candles.enabled,
  trigger: (config) => ({ kind: 'candle-close', settleMs: config.streams.candles.settleMs }),
  targets: ({ streams: { candles: settings } }, universe, choose) =>
    traded(choose(universe.select(settings.select))).flatMap((key) => {
      const kind = universe.kindOf(key) ?? 'other'
      return settings.types.flatMap((type) =>
        settings.intervals
          .filter((interval) => whyNoCandles(kind, type, interval) === null)
          .map((interval) => ({ type, interval, settleMs: settings.settleMs, limit: 3, ...key })),
      )
    }),
  fetch: (client, { category, symbol, type, interval, limit, settleMs }, options) =>
    client.candles({ category, symbol, type, interval, limit, settleMs }, options),
}

/** The levels of a book as text; null when it has none. When it was made is no news. */
function bookText<Book extends OrderBook>(
  [book]: readonly Book[],
  sizesOf: (book: Book) => readonly (readonly string[])[],
): string | null {
  if (book === undefined || (book.bidPrices.length === 0 && book.askPrices.length === 0)) return null
  return [book.bidPrices, book.askPrices, ...sizesOf(book)].map((values) => values.join(' ')).join('|')
}

/** How each stream is asked for. How it is stored stands in `ledger/writers.ts`, what it demands in `plan/planDemand.ts`. */
export const streams = {
  instruments,
  rpi_symbols: rpiSymbols,
  tickers,
  order_books: orderBooks,
  rpi_order_books: rpiOrderBooks,
  fills,
  candles,
} as const satisfies Record<StreamName, unknown>

export type AnyStream = StreamDefinition<unknown, unknown>

/** The entry that a stored name stands for; its target and rows are those that the same entry made. */
export function streamNamed(name: StreamName): AnyStream {
  return streams[name]
}

function traded(keys: readonly InstrumentKey[]): { category: TradedCategory; symbol: string }[] {
  return keys.flatMap(({ category, symbol }) => (isTradedCategory(category) ? [{ category, symbol }] : []))
}
