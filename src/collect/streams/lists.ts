import type { Instrument } from '../../market/instrument.js'
import type { RpiSymbol, Ticker } from '../../market/rows.js'
import { isTradedCategory } from '../../market/category.js'
import { type CategoryTarget, isWholeList, type TradedCategoryTarget } from '../../ledger/batch.js'
import { watchesPerSecond } from './rates.js'
import type { ListStream } from './stream.js'

/** Plain tickers were measured on PostgreSQL 18 with data of the simulator. Compressed ones are an estimate. */
const tickerBytes = { plain: 232, compressed: 80 }

export const instruments: ListStream<CategoryTarget, Instrument> = {
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

export const rpiSymbols: ListStream<object, RpiSymbol> = {
  kind: 'lists',
  name: 'rpi_symbols',
  schedule: ({ streams }) => streams.rpiSymbols.schedule,
  lists: () => [null],
  fetch: (client, _target, options) => client.rpiSymbols(options),
  learn: (universe, batch) => universe.setRpiSymbols(batch.rows, isWholeList(batch)),
  rowsOf: () => 0,
  covers: ({ hasRpi }) => hasRpi,
  bytes: tickerBytes,
}

export const tickers: ListStream<TradedCategoryTarget, Ticker> = {
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
