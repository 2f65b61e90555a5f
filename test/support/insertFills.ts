import type { Kysely } from 'kysely'
import type { Fill } from '../../src/market/rows.js'
import type { Database } from '../../src/db/schema.js'
import { appendRows, type WriteResult } from '../../src/db/writeRows.js'

/** Stores fills without what responses prove of them; those that are there already stay as they are. */
export async function insertFills(db: Kysely<Database>, fills: readonly Fill[]): Promise<WriteResult> {
  return appendRows(db, 'fills', fills)
}
