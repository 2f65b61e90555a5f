import type { Kysely } from 'kysely'
import type { InstrumentKey } from '../market/category.js'
import type { Fill } from '../market/fill.js'
import type { TimeMs } from '../market/values.js'
import type { ColumnSpec } from './columns.js'
import type { Database } from './schema.js'
import { type AppendTable, appendRows } from './writeRows.js'
import type { WriteResult } from './writeResult.js'

const columns: readonly (ColumnSpec & { readonly field: keyof Fill })[] = [
  { field: 'category', name: 'category', kind: 'category' },
  { field: 'symbol', name: 'symbol', kind: 'text' },
  { field: 'ts', name: 'ts', kind: 'time' },
  { field: 'execId', name: 'exec_id', kind: 'text' },
  { field: 'execLinkId', name: 'exec_link_id', kind: 'text' },
  { field: 'side', name: 'side', kind: 'side' },
  { field: 'price', name: 'price', kind: 'decimal' },
  { field: 'size', name: 'size', kind: 'decimal' },
  { field: 'isRpi', name: 'is_rpi', kind: 'boolean' },
  { field: 'receivedAt', name: 'received_at', kind: 'time' },
  { field: 'extra', name: 'extra', kind: 'json' },
]
const fields = columns.map(({ field }) => field)

const table: AppendTable<Fill> = {
  name: 'market.fills',
  columns,
  key: ['category', 'symbol', 'ts', 'exec_id'],
  valueOf: (fill, column) => fill[fields[column] as keyof Fill],
}

/** Stores fills; those that are there already stay as they are. */
export async function insertFills(db: Kysely<Database>, fills: readonly Fill[]): Promise<WriteResult> {
  return appendRows(db, table, fills)
}

/** The newest stored fills of an instrument, newest first. */
export async function latestFills(
  db: Kysely<Database>,
  { category, symbol }: InstrumentKey,
  limit: number,
): Promise<{ ts: TimeMs; execId: string }[]> {
  return db
    .selectFrom('market.fills')
    .select(['ts', 'exec_id as execId'])
    .where('category', '=', category)
    .where('symbol', '=', symbol)
    .orderBy('ts', 'desc')
    .orderBy('exec_id', 'desc')
    .limit(limit)
    .execute()
}
