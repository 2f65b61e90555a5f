import { type Kysely, sql } from 'kysely'
import type { Database } from '../../src/db/schema.js'
import type { Batch, FillBatch } from '../../src/ledger/batch.js'
import { storeBatches, type StoredBatch } from '../../src/ledger/storeBatches.js'
import type { TimeRange } from '../../src/market/timeRange.js'
import { batchOf } from './batches.js'
import { aFill, someTime } from './marketRows.js'

/** Returns the time that is so many milliseconds after the beginning of the tests' market. */
export const at = (ms: number) => someTime + ms

/** Returns a page of fills at these milliseconds, asked for long after all had settled, unless it is said otherwise. */
export function fillPage(
  times: readonly number[],
  { symbol = 'BTCUSDT', requested = Math.max(0, ...times) + 60_000 } = {},
): FillBatch {
  const rows = times.map((ms) => aFill({ symbol, execId: `id ${ms}`, ts: at(ms) })).toReversed()
  return batchOf('fills', { category: 'SPOT', symbol }, rows, at(requested)) as FillBatch
}

export const every = (stepMs: number, from: number, to: number) =>
  Array.from({ length: Math.ceil((to - from) / stepMs) }, (_, index) => from + index * stepMs)

/** Stores batches. Rejects with the first error if one of them is not stored. */
export async function storeAll(db: Kysely<Database>, batches: readonly Batch[]): Promise<StoredBatch[]> {
  const outcomes = await storeBatches(db, batches)
  return outcomes.map((outcome) => {
    if (!outcome.isStored) throw outcome.error
    return outcome
  })
}

/** Reads what is claimed of the fills of a symbol, or what is missing, in milliseconds of the tests' market. */
export async function fillRanges(
  db: Kysely<Database>,
  view: 'coverage' | 'gaps',
  symbol = 'BTCUSDT',
): Promise<[number, number][]> {
  const { rows } = await sql<TimeRange>`
    select from_time as "from", to_time as "to" from ${sql.table(`market.${view}`)}
    where stream = 'fills' and symbol = ${symbol} ${sql.raw(view === 'gaps' ? `and state <> 'repaired'` : '')}
    order by 1`.execute(db)
  return rows.map(({ from, to }) => [from - someTime, to - someTime])
}
