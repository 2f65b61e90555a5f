import type { Config } from '../../config/resolve.js'
import type { BookTarget } from '../../ledger/batch.js'
import type { OrderBook, RpiOrderBook } from '../../market/rows.js'
import { type InstrumentStream, type RowBytes, secondsPerDay, traded } from './stream.js'

type BookOptions = Config['streams']['orderBooks' | 'rpiOrderBooks']

export const orderBooks = bookStream<OrderBook>(
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

export const rpiOrderBooks = bookStream<RpiOrderBook>(
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
