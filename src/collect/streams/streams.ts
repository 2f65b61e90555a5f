import type { Config } from '../../config/resolve.js'
import { type InstrumentKey, isTradedCategory } from '../../market/category.js'
import { type StreamName, streamNames, streamTraits } from '../../market/stream.js'
import { orderBooks, rpiOrderBooks } from './books.js'
import { candles } from './candles.js'
import { fills } from './fills.js'
import { futuresStreams } from './futures.js'
import type { InstrumentStream, ListStream } from './stream.js'
import type { Instrument } from '../../market/instrument.js'
import type { RpiSymbol, Ticker } from '../../market/rows.js'
import { type CategoryTarget, isWholeList, type TradedCategoryTarget } from '../../ledger/batch.js'
import { watchesPerSecond } from './rates.js'

export type AnyStream = ListStream<unknown, unknown> | InstrumentStream<InstrumentKey, unknown>

/** Looks up a stream by its name. A batch is read by the stream that made it, so the types of its rows agree. */
export function streamNamed(name: StreamName): AnyStream {
  return streams[name]
}

export function enabledStreams({ streams: options }: Config): AnyStream[] {
  return streamNames.filter((name) => options[streamTraits[name].options].enabled).map(streamNamed)
}

/** Plain tickers were measured on PostgreSQL 18 with data of the simulator. Compressed ones are an estimate. */
const tickerBytes = { plain: 232, compressed: 80 }

const instruments: ListStream<CategoryTarget, Instrument> = {
  kind: 'lists',
  name: 'instruments',
  schedule: ({ streams }) => streams.instruments.schedule,
  lists: ({ streams }) => streams.instruments.categories,
  fetch: (client, { category }, options) => client.instruments({ category }, options),
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
