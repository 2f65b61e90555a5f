import type { Kysely } from 'kysely'
import { type Ticker, type TickerField, tickerFields } from '../../market/ticker.js'
import { type ColumnSpec, snakeCase } from '../db/columns.js'
import type { Database } from '../db/schema.js'
import { type AppendTable, appendRows } from '../db/writeRows.js'
import type { WriteResult } from '../db/writeResult.js'

const columns: readonly (ColumnSpec & { readonly field: keyof Ticker })[] = [
  { field: 'category', name: 'category', kind: 'category' },
  { field: 'symbol', name: 'symbol', kind: 'text' },
  { field: 'ts', name: 'ts', kind: 'time' },
  ...(Object.keys(tickerFields) as TickerField[]).map((field) => ({
    field,
    name: snakeCase(field),
    kind: tickerFields[field],
  })),
  { field: 'receivedAt', name: 'received_at', kind: 'time' },
  { field: 'extra', name: 'extra', kind: 'json' },
]
const fields = columns.map(({ field }) => field)

const table: AppendTable<Ticker> = {
  name: 'market.tickers',
  columns,
  key: ['category', 'symbol', 'ts'],
  valueOf: (ticker, column) => ticker[fields[column] as keyof Ticker],
}

/** Stores tickers. The first one stored for an instrument and moment stays. */
export async function insertTickers(db: Kysely<Database>, tickers: readonly Ticker[]): Promise<WriteResult> {
  return appendRows(db, table, tickers)
}
