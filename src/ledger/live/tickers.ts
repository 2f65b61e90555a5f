import type { Kysely } from 'kysely'
import { type Ticker, tickerFields } from '../../market/ticker.js'
import type { Database } from '../../db/schema.js'
import { appendRows, rowTable } from '../../db/writeRows.js'
import type { WriteResult } from '../../db/writeResult.js'

const table = rowTable<Ticker>('market.tickers', ['category', 'symbol', 'ts'], {
  category: 'category',
  symbol: 'text',
  ts: 'time',
  ...tickerFields,
  receivedAt: 'time',
  extra: 'json',
})

/** Stores tickers. The first one stored for an instrument and moment stays. */
export async function insertTickers(db: Kysely<Database>, tickers: readonly Ticker[]): Promise<WriteResult> {
  return appendRows(db, table, tickers)
}
