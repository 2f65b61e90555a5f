import type { Kysely } from 'kysely'
import { type Candle, intervalMs } from '../../market/candle.js'
import type { Fill } from '../../market/fill.js'
import type { Instrument } from '../../market/instrument.js'
import type { InstrumentKey } from '../../market/category.js'
import type { OrderBook, RpiOrderBook, RpiSymbol } from '../../market/orderBook.js'
import type { StreamName } from '../../market/stream.js'
import type { Ticker } from '../../market/ticker.js'
import type { TimeRange } from '../../market/timeRange.js'
import { silenceBetween } from '../../market/candleGrid.js'
import type { Database } from '../../db/schema.js'
import type { WriteResult } from '../../db/writeResult.js'
import { recordInstruments } from '../live/instruments.js'
import { insertOrderBooks, insertRpiOrderBooks } from '../live/orderBooks.js'
import { recordRpiSymbols } from '../live/rpiSymbols.js'
import { insertTickers } from '../live/tickers.js'
import { type Batch, isWholeList, missingRows } from './batch.js'
import { storeCandles } from './storeCandles.js'
import { storeFills } from './storeFills.js'
import type { BookTarget, CandleTarget, CategoryTarget, TradedCategoryTarget } from './targets.js'

/** Stores the rows of a batch of its stream; called in a transaction. */
type Writer<Target, Row> = (db: Kysely<Database>, batch: Batch<Target, Row>) => Promise<WriteResult>

interface Writers {
  readonly instruments: Writer<CategoryTarget, Instrument>
  readonly rpi_symbols: Writer<object, RpiSymbol>
  readonly tickers: Writer<TradedCategoryTarget, Ticker>
  readonly order_books: Writer<BookTarget, OrderBook>
  readonly rpi_order_books: Writer<BookTarget, RpiOrderBook>
  readonly fills: Writer<InstrumentKey, Fill>
  readonly candles: Writer<CandleTarget, Candle>
}

const writers: Writers = {
  instruments: (db, batch) =>
    recordInstruments(db, batch.target.category, batch.rows, batch.requestTime, { complete: isWholeList(batch) }),
  rpi_symbols: (db, batch) => recordRpiSymbols(db, batch.rows, batch.requestTime, { complete: isWholeList(batch) }),
  tickers: (db, { rows }) => insertTickers(db, rows),
  order_books: (db, { rows }) => insertOrderBooks(db, rows),
  rpi_order_books: (db, { rows }) => insertRpiOrderBooks(db, rows),
  fills: storeFills,
  candles: (db, batch) => storeCandles(db, batch.rows, silenceOf(batch)),
}

/** The writer of a stream: target and rows of a batch are those that the same stream made, also after a time on disk. */
export function writerOf(stream: StreamName): Writer<unknown, unknown> {
  return writers[stream] as Writer<unknown, unknown>
}

/** What a response left out between two of its candles. A response that is not whole says nothing by what it lacks. */
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
