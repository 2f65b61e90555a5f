import type { Kysely } from 'kysely'
import type { Config } from '../config.js'
import type { ExchangeClient, Page, RequestOptions } from '../exchange/client.js'
import type {
  CandlePayload,
  FillPayload,
  InstrumentPayload,
  OrderBookPayload,
  RpiOrderBookPayload,
  RpiSymbolPayload,
  TickerPayload,
} from '../exchange/payloads.js'
import type { Candle, CandleSeries } from '../market/candle.js'
import { type Category, type InstrumentKey, isTradedCategory, type TradedCategory } from '../market/category.js'
import type { Fill } from '../market/fill.js'
import type { Instrument } from '../market/instrument.js'
import type { Operation } from '../market/operation.js'
import type { OrderBook, RpiOrderBook } from '../market/orderBook.js'
import type { RpiSymbol } from '../market/rpiSymbol.js'
import type { StreamName } from '../market/stream.js'
import type { Ticker } from '../market/ticker.js'
import { intervalMs } from '../market/interval.js'
import type { TimeRange } from '../market/timeRange.js'
import { normalizeCandle } from '../normalize/candles.js'
import type { AnswerContext } from '../normalize/context.js'
import { normalizeFill } from '../normalize/fills.js'
import { normalizeInstrument } from '../normalize/instruments.js'
import { normalizeOrderBook, normalizeRpiOrderBook } from '../normalize/orderBooks.js'
import { normalizeRpiSymbol } from '../normalize/rpiSymbols.js'
import { normalizeTicker } from '../normalize/tickers.js'
import { recordInstruments } from '../store/live/instruments.js'
import { insertOrderBooks, insertRpiOrderBooks } from '../store/live/orderBooks.js'
import { recordRpiSymbols } from '../store/live/rpiSymbols.js'
import type { Database } from '../store/db/schema.js'
import { insertTickers } from '../store/live/tickers.js'
import type { WriteResult } from '../store/db/writeResult.js'
import { silenceBetween } from '../market/candleSilence.js'
import { type Batch, missingRows } from './sink/batch.js'
import { storeCandles } from '../store/batch/storeCandles.js'
import { storeFills } from './sink/storeFills.js'
import type { Universe } from './universe/universe.js'

/** What makes the recorder ask for a stream. */
export type Trigger =
  /** The wall clock, for all targets at once. */
  | { readonly kind: 'cron'; readonly expression: string }
  /** A cycle of fixed length in which every target has a place of its own. */
  | { readonly kind: 'cycle'; readonly everyMs: number }
  /** The close of each target's candle. */
  | { readonly kind: 'candle-close'; readonly settleMs: number }
  /** The need to see a target's fills again before more have happened than one answer shows. */
  | {
      readonly kind: 'overlap'
      readonly minPollMs: number
      readonly maxPollMs: number
      /** Requests a second that the limits leave for it at most. */
      readonly allowedPerSecond: number
    }

/** Whom of a ranking to cover. */
export type Choose = (ranked: readonly InstrumentKey[]) => readonly InstrumentKey[]

export interface StreamDefinition<Target, Payload, Row> {
  readonly name: StreamName
  readonly operation: Operation
  /** The operation that answers for the past; null where what was missed is lost. */
  readonly history: Operation | null
  isEnabled(config: Config): boolean
  trigger(config: Config): Trigger
  /** @param choose takes the instruments of the selection, the busiest first, and gives those to cover */
  targets(config: Config, universe: Universe, choose: Choose): Target[]
  fetch(client: ExchangeClient, target: Target, options: RequestOptions): Promise<Page<Payload>>
  normalize(payload: Payload, target: Target, answer: AnswerContext): Row
  /** Called in a transaction. */
  write(db: Kysely<Database>, batch: Batch<Target, Row>): Promise<WriteResult>
  /** What the recorder itself learns from an answer, besides storing it. */
  learn?(universe: Universe, batch: Batch<Target, Row>): void
  /** What an answer says, so that two can be told apart; null when it says nothing. For streams that are asked in a cycle. */
  contentOf?(rows: readonly Row[]): string | null
}

export interface CategoryTarget {
  readonly category: Category
}
export interface TradedCategoryTarget {
  readonly category: TradedCategory
}
export interface BookTarget {
  readonly category: TradedCategory
  readonly symbol: string
  readonly depth: number
}
export interface CandleTarget extends CandleSeries {
  readonly settleMs: number
  /** How many of the newest candles to ask for. */
  readonly limit: number
}

const instruments: StreamDefinition<CategoryTarget, InstrumentPayload, Instrument> = {
  name: 'instruments',
  operation: 'instruments',
  history: null,
  isEnabled: (config) => config.streams.instruments.enabled,
  trigger: (config) => ({ kind: 'cron', expression: config.streams.instruments.schedule }),
  targets: (config) => config.streams.instruments.categories.map((category) => ({ category })),
  fetch: (client, { category }, options) => client.instruments({ category }, options),
  normalize: (payload) => normalizeInstrument(payload),
  write: (db, batch) =>
    recordInstruments(db, batch.target.category, batch.rows, batch.requestTime, { complete: isWholeList(batch) }),
  learn: (universe, { target, rows }) => universe.setInstruments(target.category, rows),
}

const rpiSymbols: StreamDefinition<object, RpiSymbolPayload, RpiSymbol> = {
  name: 'rpi_symbols',
  operation: 'rpi-symbols',
  history: null,
  isEnabled: (config) => config.streams.rpiSymbols.enabled,
  trigger: (config) => ({ kind: 'cron', expression: config.streams.rpiSymbols.schedule }),
  targets: () => [{}],
  fetch: (client, _target, options) => client.rpiSymbols(options),
  normalize: (payload) => normalizeRpiSymbol(payload),
  write: (db, batch) => recordRpiSymbols(db, batch.rows, batch.requestTime, { complete: isWholeList(batch) }),
  learn: (universe, { rows }) => universe.setRpiSymbols(rows),
}

const tickers: StreamDefinition<TradedCategoryTarget, TickerPayload, Ticker> = {
  name: 'tickers',
  operation: 'tickers',
  history: null,
  isEnabled: (config) => config.streams.tickers.enabled,
  trigger: (config) => ({ kind: 'cron', expression: config.streams.tickers.schedule }),
  targets: (config) => config.streams.tickers.categories.map((category) => ({ category })),
  fetch: (client, { category }, options) => client.tickers({ category }, options),
  normalize: (payload, { category }, answer) => normalizeTicker(payload, category, answer),
  write: (db, { rows }) => insertTickers(db, rows),
  learn: (universe, { rows }) => universe.setTickers(rows),
}

const orderBooks: StreamDefinition<BookTarget, OrderBookPayload, OrderBook> = {
  name: 'order_books',
  operation: 'orderbook',
  history: null,
  isEnabled: (config) => config.streams.orderBooks.enabled,
  trigger: (config) => ({ kind: 'cycle', everyMs: config.streams.orderBooks.everySeconds * 1000 }),
  targets: ({ streams: { orderBooks: settings } }, universe, choose) =>
    traded(choose(universe.select(settings.select))).map((key) => ({ ...key, depth: settings.depth })),
  fetch: (client, { category, symbol, depth }, options) =>
    client.orderBook({ category, symbol, limit: depth }, options),
  normalize: (payload, target, answer) => normalizeOrderBook(payload, target, answer),
  write: (db, { rows }) => insertOrderBooks(db, rows),
  contentOf: (rows) => bookText(rows, ({ bidSizes, askSizes }) => [bidSizes, askSizes]),
}

const rpiOrderBooks: StreamDefinition<BookTarget, RpiOrderBookPayload, RpiOrderBook> = {
  name: 'rpi_order_books',
  operation: 'rpi-orderbook',
  history: null,
  isEnabled: (config) => config.streams.rpiOrderBooks.enabled,
  trigger: (config) => ({ kind: 'cycle', everyMs: config.streams.rpiOrderBooks.everySeconds * 1000 }),
  targets: ({ streams: { rpiOrderBooks: settings } }, universe, choose) =>
    traded(choose(universe.selectWithRpi(settings.select))).map((key) => ({ ...key, depth: settings.depth })),
  fetch: (client, { category, symbol, depth }, options) =>
    client.rpiOrderBook({ category, symbol, limit: depth }, options),
  normalize: (payload, target, answer) => normalizeRpiOrderBook(payload, target, answer),
  write: (db, { rows }) => insertRpiOrderBooks(db, rows),
  contentOf: (rows) =>
    bookText(rows, ({ bidSizes, askSizes, bidRpiSizes, askRpiSizes }) => [
      bidSizes,
      askSizes,
      bidRpiSizes,
      askRpiSizes,
    ]),
}

const fills: StreamDefinition<InstrumentKey, FillPayload, Fill> = {
  name: 'fills',
  operation: 'fills',
  history: null,
  isEnabled: (config) => config.streams.fills.enabled,
  trigger: ({ streams: { fills: settings }, exchange }) => ({
    kind: 'overlap',
    minPollMs: settings.minPollSeconds * 1000,
    maxPollMs: settings.maxPollSeconds * 1000,
    allowedPerSecond: exchange.limits.perSecond.fills / (1 + exchange.latencyJitterMs / 1000),
  }),
  targets: (config, universe, choose) =>
    choose(universe.select(config.streams.fills.select)).map(({ category, symbol }) => ({ category, symbol })),
  fetch: (client, { category, symbol }, options) => client.fills({ category, symbol }, options),
  normalize: (payload, target, answer) => normalizeFill(payload, target, answer),
  write: (db, batch) => storeFills(db, batch),
}

const candles: StreamDefinition<CandleTarget, CandlePayload, Candle> = {
  name: 'candles',
  operation: 'candles',
  history: 'history-candles',
  isEnabled: (config) => config.streams.candles.enabled,
  trigger: (config) => ({ kind: 'candle-close', settleMs: config.streams.candles.settleMs }),
  targets: ({ streams: { candles: settings } }, universe, choose) =>
    traded(choose(universe.select(settings.select))).flatMap((key) =>
      settings.types.flatMap((type) =>
        settings.intervals.map((interval) => ({ ...key, type, interval, settleMs: settings.settleMs, limit: 3 })),
      ),
    ),
  fetch: (client, { category, symbol, type, interval, limit }, options) =>
    client.candles({ category, symbol, type, interval, limit }, options),
  normalize: (payload, target, answer) => normalizeCandle(payload, target, answer, target.settleMs),
  write: (db, batch) => storeCandles(db, batch.rows, silenceOf(batch)),
}

/** The levels of a book as text; null when it has none. When it was made is no news. */
function bookText<Book extends OrderBook>(
  [book]: readonly Book[],
  sizesOf: (book: Book) => readonly (readonly string[])[],
): string | null {
  if (book === undefined || (book.bidPrices.length === 0 && book.askPrices.length === 0)) return null
  return [book.bidPrices, book.askPrices, ...sizesOf(book)].map((values) => values.join(' ')).join('|')
}

/** Every stream, declared once: pollers, storage and documentation go by this list. */
export const streams = {
  instruments,
  rpi_symbols: rpiSymbols,
  tickers,
  order_books: orderBooks,
  rpi_order_books: rpiOrderBooks,
  fills,
  candles,
} as const satisfies Record<StreamName, unknown>

export type AnyStream = StreamDefinition<unknown, unknown, unknown>

/** The entry that a stored name stands for; its target and rows are those that the same entry made. */
export function streamNamed(name: StreamName): AnyStream {
  return streams[name]
}

/** What an answer left out between two of its candles. An answer that is not whole says nothing by what it lacks. */
function silenceOf(batch: Batch<CandleTarget, Candle>): readonly TimeRange[] {
  const { target, rows, requestTime, isPart, silence } = batch
  // Premium, mark and index candles are not made of trades: where they lack, it is for another reason.
  if (target.type !== 'market') return []
  if (silence !== undefined) return silence
  if (isPart || missingRows(batch) > 0) return []
  const bounds = { lengthMs: intervalMs[target.interval], settledUntil: requestTime - target.settleMs }
  return silenceBetween(
    rows.map(({ openTime }) => openTime),
    bounds,
  )
}

/** Whether what is not in the batch is gone. An empty list is taken for a fault of the service, not for the end of trading. */
function isWholeList(batch: Batch): boolean {
  return batch.rows.length > 0 && missingRows(batch) === 0 && !batch.isPart
}

function traded(keys: readonly InstrumentKey[]): { category: TradedCategory; symbol: string }[] {
  return keys.flatMap(({ category, symbol }) => (isTradedCategory(category) ? [{ category, symbol }] : []))
}
