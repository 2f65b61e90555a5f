import type { Kysely } from 'kysely'
import type { Fill } from '../../src/market/rows.js'
import type { Database } from '../../src/db/schema.js'
import { appendRows, rowTable, type WriteResult } from '../../src/db/writeRows.js'

const table = rowTable<Fill>('market.fills', ['category', 'symbol', 'ts', 'exec_id'], {
  category: 'category',
  symbol: 'text',
  ts: 'time',
  execId: 'text',
  execLinkId: 'text',
  side: 'side',
  price: 'decimal',
  size: 'decimal',
  isRpi: 'boolean',
  receivedAt: 'time',
  extra: 'json',
})

/** Stores fills without what responses prove of them; those that are there already stay as they are. */
export async function insertFills(db: Kysely<Database>, fills: readonly Fill[]): Promise<WriteResult> {
  return appendRows(db, table, fills)
}
