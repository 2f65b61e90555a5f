import { type Kysely, sql } from 'kysely'
import type { InstrumentKey } from '../../market/category.js'
import type { Fill } from '../../market/fill.js'
import type { TimeMs } from '../../market/values.js'
import { type ColumnSpec, rowsFrom } from '../../db/columns.js'
import { isDuplicateError, isFailedCheck } from '../../db/databaseError.js'
import type { Database } from '../../db/schema.js'
import { insertingFills } from '../live/fills.js'
import type { FillBatch } from './batch.js'
import type { NewestPages } from './newestPages.js'
import { ownStretchFrom } from './fillContinuity.js'
import { pageOf, type StoredFills } from './storeFills.js'

interface Page extends InstrumentKey {
  readonly batch: FillBatch
  readonly oldest: TimeMs
  readonly newest: TimeMs
  readonly ownFrom: TimeMs
  readonly unknown: readonly Fill[]
  readonly knownUntil: TimeMs
}

const columns: readonly ColumnSpec[] = [
  { name: 'category', kind: 'category' },
  { name: 'symbol', kind: 'text' },
  { name: 'oldest', kind: 'time' },
  { name: 'newest', kind: 'time' },
  { name: 'own_from', kind: 'time' },
  { name: 'known_until', kind: 'time' },
]
const fields = ['category', 'symbol', 'oldest', 'newest', 'ownFrom', 'knownUntil'] as const

/**
 * Stores those of the responses that follow on from what is proven, which most do: in one statement, where judging a page takes
 * six. A response follows on where its oldest fill lies in the newest proven stretch: all of that millisecond is stored, so the
 * response adds the time from the end of the stretch to its newest fill, and there is no gap. Nothing is done of the others, and
 * of all of them where another writer was at work on one at the same time or a fill turned up in what was proven.
 *
 * @param batches rows and nothing else, of several instruments, each at most once
 * @param newestPages what is known to be stored does not travel to the database again
 */
export async function storeFollowingPages(
  db: Kysely<Database>,
  batches: readonly FillBatch[],
  newestPages: NewestPages,
): Promise<Map<FillBatch, StoredFills>> {
  const stored = new Map<FillBatch, StoredFills>()
  const pages = batches.flatMap((batch): Page[] => {
    const { category, symbol } = batch.target
    const { times, isFull } = pageOf(batch, null)
    if (times === null) return []
    const { rows: unknown, knownUntil } = newestPages.unknownOf(batch)
    if (unknown.length === 0) {
      // All of it was stored and proven with the response before: there is nothing to say to the database.
      stored.set(batch, { inserted: 0, updated: 0, unchanged: batch.rows.length, gapsFound: 0 })
      return []
    }
    return [{ batch, category, symbol, ...times, ownFrom: ownStretchFrom(times.oldest, isFull), unknown, knownUntil }]
  })
  if (pages.length === 0) return stored
  const rows = pages.flatMap(({ unknown }) => unknown)
  const areNew = pages.every(({ knownUntil }) => knownUntil > -Infinity)
  const page = rowsFrom(pages, columns, (row, column) => row[fields[column] as (typeof fields)[number]])
  // The row of the first part is the lock of a series (coverage.ts). What was there when the statement began is judged, so what is
  // changed must still be that: `proven` finds the end of the stretch where it was, or everything is undone. Rows are looked up one
  // by one, as planners without statistics would not do by themselves.
  const statement = sql<{ place: number; inserted: number }>`
    with following as materialized (
      select page.*, last.part, last.until
      from (select * from ${page} as pages order by category, symbol) as page
      cross join lateral (
        select from recorder.coverage
        where stream = 'fills' and category = page.category and symbol = page.symbol and type = '' and interval = ''
          and part = '-infinity'
        for update
      ) first
      cross join lateral (
        select part, ranges, upper(ranges) as until from recorder.coverage
        where stream = 'fills' and category = page.category and symbol = page.symbol and type = '' and interval = ''
        order by part desc limit 1
      ) last
      where page.oldest < last.until and page.known_until <= last.until
        and tstzrange(least(page.own_from, page.oldest), last.until) <@ last.ranges
    ), inserted as (
      ${insertingFills(rows, sql`join following using (category, symbol)`, areNew)} returning category, symbol, ts
    ), counted as (
      select category, symbol, count(*) as count, min(ts) as oldest from inserted group by category, symbol
    ), proven as (
      insert into recorder.coverage as c (stream, category, symbol, type, interval, part, ranges)
      select 'fills', category, symbol, '', '', part, tstzmultirange(tstzrange(until, newest))
      from following where newest > until order by category, symbol
      on conflict (stream, category, symbol, type, interval, part) do update
        set ranges = c.ranges + excluded.ranges, updated_at = now() where upper(c.ranges) = lower(excluded.ranges)
      returning c.category, c.symbol
    )
    select f.ordinality::int as place, coalesce(i.count, 0) as inserted,
      1 / (coalesce(i.oldest >= f.until, true) and (f.newest <= f.until or p.symbol is not null))::int as is_sound
    from following f left join counted i using (category, symbol) left join proven p using (category, symbol)`
  try {
    for (const { place, inserted } of (await statement.execute(db)).rows) {
      const { batch } = pages[place - 1] as Page
      stored.set(batch, { inserted, updated: 0, unchanged: batch.rows.length - inserted, gapsFound: 0 })
    }
  } catch (error) {
    // A fill that was taken for new is there: another recorder has stored it.
    if (!isFailedCheck(error) && !(areNew && isDuplicateError(error))) throw error
  }
  return stored
}
