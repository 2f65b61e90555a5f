import type { Kysely } from 'kysely'
import type { Fill } from '../../src/market/fill.js'
import type { Database } from '../../src/db/schema.js'
import type { WriteResult } from '../../src/db/writeResult.js'
import { type FillPageResult, insertFillPages } from '../../src/ledger/live/fills.js'

/** Stores fills without what responses prove of them; those that are there already stay as they are. */
export async function insertFills(db: Kysely<Database>, fills: readonly Fill[]): Promise<WriteResult> {
  const [result] = await insertFillPages(db, [fills])
  const { inserted, updated, unchanged } = result as FillPageResult
  return { inserted, updated, unchanged }
}
