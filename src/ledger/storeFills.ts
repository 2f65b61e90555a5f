import { type Kysely, sql } from 'kysely'
import { type Fill, fillsPerPage } from '../market/rows.js'
import type { TimeRange } from '../market/timeRange.js'
import type { Extra, TimeMs } from '../market/values.js'
import { arrayText, type ColumnValue } from '../db/columns.js'
import type { Database } from '../db/schema.js'
import type { WriteResult } from '../db/writeRows.js'
import { multirangeText } from './verdicts.js'
import { type FillBatch, missingRows, seriesKey } from './batch.js'

export interface StoredFills extends WriteResult {
  readonly gapsFound: number
  /** Number of fills that differ from the stored ones. They are kept among the rejected rows. */
  readonly conflicting: number
  /** Number of stored fills that the page lacks although it covers their time. Such a page proves nothing. */
  readonly hidden: number
}

/** Number of fills per statement. More could exceed the columnstore's limit on rows that a statement decompresses. */
export const maxFillsAtOnce = 5_000

/**
 * Stores pages of fills with what they prove and the gaps that they show, by `recorder.store_fills`. Pages of one
 * instrument are judged in their order. Beyond 5,000 fills there are several statements, so call it in a transaction.
 */
export async function storeFills(db: Kysely<Database>, batches: readonly FillBatch[]): Promise<StoredFills[]> {
  const stored: StoredFills[] = []
  for (let start = 0; start < batches.length;) {
    let fills = 0
    let end = start
    while (end < batches.length && (end === start || fills + (batches[end] as FillBatch).rows.length <= maxFillsAtOnce))
      fills += (batches[end++] as FillBatch).rows.length
    stored.push(...(await storeAtOnce(db, batches.slice(start, end))))
    start = end
  }
  return stored
}

interface Page {
  readonly batch: FillBatch
  /** The fills of the page without repeats. */
  readonly fills: readonly Fill[]
  readonly times: TimeSpan | null
  /** Place of the page among the pages of its series, from 1. */
  readonly turn: number
}

interface TimeSpan {
  readonly oldest: TimeMs
  readonly newest: TimeMs
}

interface PageResult {
  readonly page: number
  readonly inserted: number
  readonly gaps: number
  readonly hidden: number
  readonly conflicting: number
}

async function storeAtOnce(db: Kysely<Database>, batches: readonly FillBatch[]): Promise<StoredFills[]> {
  const pages = inTurns(batches)
  const fills = pages.flatMap((page) => page.fills)
  const pageOfFills = pages.flatMap((page, place) => Array<string>(page.fills.length).fill(String(place + 1)))
  const ofPages = (valueOf: (page: Page) => ColumnValue) => arrayText(pages, valueOf)
  const ofFills = (valueOf: (fill: Fill) => ColumnValue) => arrayText(fills, valueOf)
  const { rows: results } = await sql<PageResult>`
    select page, inserted, gaps, hidden, conflicting from recorder.store_fills(
      ${ofPages(({ batch }) => batch.target.category)}::market.category[],
      ${ofPages(({ batch }) => batch.target.symbol)}::text[],
      ${ofPages(({ batch }) => isFull(batch))}::boolean[],
      ${ofPages(({ batch }) => timeText(batch.requestTime))}::timestamptz[],
      ${ofPages(({ batch }) => timeText(batch.receivedAt))}::timestamptz[],
      ${ofPages(({ batch }) => unreadTimes(batch))}::tstzmultirange[],
      ${ofPages(({ times }) => times && timeText(times.oldest))}::timestamptz[],
      ${ofPages(({ times }) => times && timeText(times.newest))}::timestamptz[],
      ${ofPages((page) => page.fills.length)}::integer[],
      ${ofPages(({ turn }) => turn)}::integer[],
      ${`{${pageOfFills.join(',')}}`}::integer[],
      ${ofFills(({ ts }) => ts)}::float8[],
      ${ofFills(({ execId }) => execId)}::text[],
      ${ofFills(({ execLinkId }) => execLinkId)}::text[],
      ${ofFills(({ side }) => side)}::market.side[],
      ${ofFills(({ price }) => price)}::numeric[],
      ${ofFills(({ size }) => size)}::numeric[],
      ${ofFills(({ isRpi }) => isRpi)}::boolean[],
      ${ofFills(({ extra }) => (isEmpty(extra) ? null : extra))}::jsonb[])`.execute(db)
  const resultOf = new Map(results.map((result) => [pages[result.page - 1]?.batch, result]))
  return batches.map((batch) => {
    const { inserted, gaps, hidden, conflicting } = resultOf.get(batch) as PageResult
    return { inserted, updated: 0, unchanged: batch.rows.length - inserted, gapsFound: gaps, hidden, conflicting }
  })
}

/** Returns true if the service may have more fills before those of the page. */
function isFull(batch: FillBatch): boolean {
  const { rows, tooOld = 0 } = batch
  return tooOld > 0 || rows.length + missingRows(batch) >= fillsPerPage
}

/** Orders pages by turn, so that one turn has only one page of each series. */
function inTurns(batches: readonly FillBatch[]): Page[] {
  const turns = new Map<string, number>()
  const pages = batches.map((batch) => {
    const key = seriesKey(batch)
    const turn = (turns.get(key) ?? 0) + 1
    turns.set(key, turn)
    return { batch, fills: withoutRepeats(batch).rows, times: timesOf(batch.rows), turn }
  })
  return pages.toSorted((a, b) => a.turn - b.turn)
}

/**
 * Returns the milliseconds of a page's fills that are not stored, as a multirange. They could not be understood, or the
 * database refused them, so their time must not be claimed. Returns null if the time of one is unknown.
 */
function unreadTimes(batch: FillBatch): string | null {
  if (missingRows(batch) === 0) return '{}'
  const lost = batch.rejected.filter(({ isRowStored }) => isRowStored !== true)
  if (lost.length < missingRows(batch) || batch.rows.length === 0) return null
  const { oldest, newest } = timesOf(batch.rows) as TimeSpan
  const ranges: TimeRange[] = []
  for (const { raw } of lost) {
    const ts = Number(timeInText.exec(raw)?.[1] ?? Number.NaN)
    // A time outside of the times of the other fills may itself be the mistake in the row.
    if (!(ts >= oldest && ts <= newest)) return null
    ranges.push({ from: ts, to: ts + 1 })
  }
  return multirangeText(ranges)
}

function timesOf(rows: readonly Fill[]): TimeSpan | null {
  let [oldest, newest] = [Infinity, -Infinity]
  for (const { ts } of rows) {
    if (ts < oldest) oldest = ts
    if (ts > newest) newest = ts
  }
  return rows.length === 0 ? null : { oldest, newest }
}

function timeText(time: TimeMs): string {
  return new Date(time).toISOString()
}

function isEmpty(extra: Extra): boolean {
  for (const _ in extra) return false
  return true
}

const timeInText = /"ts":\s*"?(\d{13})\b/

/** All pages share one set, because one set per page would create too much garbage. */
const seen = new Set<string>()

/** Removes repeated fills from a page. `others` has the repeats that differ from the first fill with their id. */
export function withoutRepeats({ rows }: FillBatch): {
  readonly rows: readonly Fill[]
  readonly others: readonly Fill[]
} {
  const others: Fill[] = []
  seen.clear()
  for (const { execId } of rows) seen.add(execId)
  if (seen.size === rows.length) return { rows, others }
  const first = new Map<string, Fill>()
  for (const fill of rows) {
    const key = `${fill.ts} ${fill.execId}`
    const known = first.get(key)
    if (known === undefined) first.set(key, fill)
    else if (known.price !== fill.price || known.size !== fill.size || known.side !== fill.side) others.push(fill)
  }
  return { rows: [...first.values()], others }
}
