import { type Kysely, sql } from 'kysely'
import { type ColumnSpec, rowsFrom } from '../../db/columns.js'
import { isFailedCheck } from '../../db/databaseError.js'
import type { Database } from '../../db/schema.js'
import { insertingFills } from '../live/fills.js'
import type { FillBatch } from './batch.js'
import { judgeFills } from './fillContinuity.js'
import { pageOf, type StoredFills } from './storeFills.js'

const columns: readonly ColumnSpec[] = [
  { name: 'category', kind: 'category' },
  { name: 'symbol', kind: 'text' },
  { name: 'fills', kind: 'integer' },
  { name: 'proven_from', kind: 'time' },
  { name: 'proven_to', kind: 'time' },
]
const fields = ['category', 'symbol', 'fills', 'from', 'to'] as const

/**
 * Stores those of the responses that are the first of their instrument, of which nothing is stored and nothing proven: in one
 * statement, where judging a page takes nine. A new recorder has a thousand of them in its first minutes. Nothing is done of the
 * others, and of all of them where another writer stores one at the same time.
 *
 * @param batches rows and nothing else, of several instruments, each at most once
 */
export async function storeBeginningPages(
  db: Kysely<Database>,
  batches: readonly FillBatch[],
): Promise<Map<FillBatch, StoredFills>> {
  const stored = new Map<FillBatch, StoredFills>()
  const pages = batches.flatMap((batch) => {
    if (batch.rows.length === 0) return []
    const { proven } = judgeFills({ covered: [], gapEnds: [], storedUntil: null }, pageOf(batch, null))
    const fills = new Set(batch.rows.map(({ execId, ts }) => `${ts} ${execId}`)).size
    return [{ batch, ...batch.target, fills, from: proven?.from ?? null, to: proven?.to ?? null }]
  })
  if (pages.length === 0) return stored
  const rows = pages.flatMap(({ batch }) => batch.rows)
  // The row of the first part is the lock of a series (coverage.ts): whoever is about to store its first fills has it before, and
  // of two the second one does nothing here. What is there is looked up one by one, as planners without statistics would not do by
  // themselves.
  const statement = sql<{ place: number; inserted: number }>`
    with page as materialized (
      select * from ${rowsFrom(pages, columns, (row, column) => row[fields[column] as (typeof fields)[number]])} as pages
    ), beginning as (
      insert into recorder.coverage (stream, category, symbol, type, interval, ranges)
      select 'fills', category, symbol, '', '',
        case when proven_to is null then '{}' else tstzmultirange(tstzrange(proven_from, proven_to)) end
      from page p
      where (select 1 from recorder.coverage c where c.stream = 'fills' and c.category = p.category and c.symbol = p.symbol
          and c.type = '' and c.interval = '' limit 1) is null
        and (select 1 from market.fills f where f.category = p.category and f.symbol = p.symbol limit 1) is null
      order by category, symbol
      on conflict do nothing
      returning category, symbol
    ), inserted as (
      ${insertingFills(rows, sql`join beginning using (category, symbol)`)} returning category, symbol
    ), counted as (
      select category, symbol, count(*) as count from inserted group by category, symbol
    )
    select p.ordinality::int as place, i.count::int as inserted, 1 / (coalesce(i.count, 0) = p.fills)::int as is_sound
    from page p join beginning using (category, symbol) left join counted i using (category, symbol)`
  try {
    for (const { place, inserted } of (await statement.execute(db)).rows) {
      const { batch } = pages[place - 1] as (typeof pages)[number]
      stored.set(batch, { inserted, updated: 0, unchanged: batch.rows.length - inserted, gapsFound: 0 })
    }
  } catch (error) {
    // Some were stored in the meantime, by somebody who does not prove what he stores.
    if (!isFailedCheck(error)) throw error
  }
  return stored
}
