import type { Kysely } from 'kysely'
import type { OrderBook, RpiOrderBook } from '../../market/orderBook.js'
import type { ColumnSpec } from '../db/columns.js'
import type { Database } from '../db/schema.js'
import { type AppendTable, appendRows } from '../db/writeRows.js'
import type { WriteResult } from '../db/writeResult.js'

interface BookColumn<Book> extends ColumnSpec {
  readonly field: keyof Book
}

const bookColumns: readonly BookColumn<OrderBook>[] = [
  { field: 'category', name: 'category', kind: 'category' },
  { field: 'symbol', name: 'symbol', kind: 'text' },
  { field: 'ts', name: 'ts', kind: 'time' },
  { field: 'bidPrices', name: 'bid_prices', kind: 'decimals' },
  { field: 'bidSizes', name: 'bid_sizes', kind: 'decimals' },
  { field: 'askPrices', name: 'ask_prices', kind: 'decimals' },
  { field: 'askSizes', name: 'ask_sizes', kind: 'decimals' },
  { field: 'receivedAt', name: 'received_at', kind: 'time' },
  { field: 'extra', name: 'extra', kind: 'json' },
]
const rpiBookColumns: readonly BookColumn<RpiOrderBook>[] = [
  ...bookColumns,
  { field: 'bidRpiSizes', name: 'bid_rpi_sizes', kind: 'decimals' },
  { field: 'askRpiSizes', name: 'ask_rpi_sizes', kind: 'decimals' },
]

function bookTable<Book extends OrderBook>(name: string, columns: readonly BookColumn<Book>[]): AppendTable<Book> {
  const fields = columns.map(({ field }) => field)
  return {
    name,
    columns,
    key: ['category', 'symbol', 'ts'],
    valueOf: (book, column) => book[fields[column] as keyof Book] as OrderBook[keyof OrderBook],
  }
}

const orderBooks = bookTable('market.order_books', bookColumns)
const rpiOrderBooks = bookTable('market.rpi_order_books', rpiBookColumns)

/** Stores snapshots. The first one stored for an instrument and moment stays. */
export async function insertOrderBooks(db: Kysely<Database>, books: readonly OrderBook[]): Promise<WriteResult> {
  return appendRows(db, orderBooks, books)
}

/** Stores snapshots with RPI sizes. The first one stored for an instrument and moment stays. */
export async function insertRpiOrderBooks(db: Kysely<Database>, books: readonly RpiOrderBook[]): Promise<WriteResult> {
  return appendRows(db, rpiOrderBooks, books)
}
