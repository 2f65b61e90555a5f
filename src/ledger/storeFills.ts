import { type Kysely, sql } from 'kysely'
import { type Fill, rejectedRow } from '../market/rows.js'
import { normalized, type Ranges } from '../market/timeRange.js'
import { addMs, type Extra, type MachineMs, type ServiceMs } from '../market/values.js'
import { arrayText, type ColumnValue } from '../db/columns.js'
import type { Database } from '../db/schema.js'
import type { WriteResult } from '../db/writeRows.js'
import { runOf } from './run.js'
import { multirangeText } from './verdicts.js'
import { type FillBatch, missingRows, seriesKey, unreadTimes } from './batch.js'

export interface StoredFills extends WriteResult {
  readonly gapsFound: number
  /** Number of fills that differ from the stored ones. They are kept among the rejected rows. */
  readonly conflicting: number
  /** Number of stored fills that the page lacks although it covers their time. Such a page proves nothing. */
  readonly storedFillsLeftOut: number
}

/**
 * Stores pages of fills with what they prove and the gaps that they show, by `recorder.store_fills`. Throws if two pages
 * are of the same instrument, because each is judged by what is stored before the call.
 */
export async function storeFills(db: Kysely<Database>, batches: readonly FillBatch[]): Promise<StoredFills[]> {
  if (new Set(batches.map(seriesKey)).size < batches.length)
    throw new RangeError('two pages of one instrument must be stored one after the other')
  const pages = batches.map((batch) => {
    const { rows } = withoutRepeats(batch)
    return { batch, fills: rows, run: runOf(rows.map(({ ts }) => ts)) }
  })
  const fills = pages.flatMap((page) => page.fills)
  const pageOfFills = pages.flatMap((page, place) => Array<string>(page.fills.length).fill(String(place + 1)))
  const ofPages = (valueOf: (page: (typeof pages)[number]) => ColumnValue) => arrayText(pages, valueOf)
  const ofFills = (valueOf: (fill: Fill) => ColumnValue) => arrayText(fills, valueOf)
  const { rows: stored } = await sql<StoredFills>`
    select inserted, 0 as updated, gaps as "gapsFound", left_out as "storedFillsLeftOut", conflicting from recorder.store_fills(
      ${ofPages(({ batch }) => batch.target.category)}::market.category[],
      ${ofPages(({ batch }) => batch.target.symbol)}::text[],
      ${ofPages(({ batch }) => timeText(batch.requestTime))}::timestamptz[],
      ${ofPages(({ batch }) => timeText(batch.receivedAt))}::timestamptz[],
      ${ofPages(({ batch }) => batch.after ?? null)}::text[],
      ${ofPages(({ batch }) => unreadText(batch))}::tstzmultirange[],
      ${ofPages(({ run }) => run && timeText(run.oldest))}::timestamptz[],
      ${ofPages(({ run }) => run && timeText(run.newest))}::timestamptz[],
      ${ofPages(({ run }) => run && timeText(run.edge))}::timestamptz[],
      ${ofPages(({ run }) => run && `${run.disorderMs} ms`)}::interval[],
      ${ofPages((page) => page.fills.length)}::integer[],
      ${`{${pageOfFills.join(',')}}`}::integer[],
      ${ofFills(({ ts }) => ts)}::float8[],
      ${ofFills(({ execId }) => execId)}::text[],
      ${ofFills(({ execLinkId }) => execLinkId)}::text[],
      ${ofFills(({ side }) => side)}::market.side[],
      ${ofFills(({ price }) => price)}::numeric[],
      ${ofFills(({ size }) => size)}::numeric[],
      ${ofFills(({ isRpi }) => isRpi)}::boolean[],
      ${ofFills(({ extra }) => (isEmpty(extra) ? null : extra))}::jsonb[])
    order by page`.execute(db)
  return stored
}

function unreadText(batch: FillBatch): string | null {
  const unread = unreadFills(batch)
  return unread && multirangeText(unread)
}

/**
 * Returns the milliseconds of a page's fills that are not stored. They could not be understood, or the database refused
 * them, so their time must not be claimed. Returns null if the time of one is unknown.
 */
export function unreadFills(batch: Pick<FillBatch, 'rows' | 'rejected' | 'unkept'>): Ranges | null {
  const times = unreadTimes(
    batch.rejected,
    batch.rows.map(({ ts }) => ts),
  )
  return times.length < missingRows(batch) ? null : normalized(times.map((ts) => ({ from: ts, to: addMs(ts, 1) })))
}

function timeText(time: ServiceMs | MachineMs): string {
  return new Date(time).toISOString()
}

function isEmpty(extra: Extra): boolean {
  for (const _ in extra) return false
  return true
}

/** Moves repeated fills with different values to the rejected rows. A response may contain a fill twice. */
export function repeatsRejected<P extends Pick<FillBatch, 'rows' | 'rejected'>>(
  page: P,
  request: Parameters<typeof rejectedRow>[0],
): P {
  const { rows, others } = withoutRepeats(page)
  if (others.length === 0) return page
  const reason = 'a fill stands in a response twice, with different values'
  const dropped = new Set(others)
  const times = new Map(others.map(({ execId, ts }) => [execId, ts]))
  // The first one is stored. Where the times differ, its own is in doubt, too.
  const doubted = rows.filter(({ execId, ts }) => (times.get(execId) ?? ts) !== ts)
  const rejected = [...doubted, ...others].map((fill) => rejectedRow(request, reason, JSON.stringify(fill)))
  return { ...page, rows: page.rows.filter((fill) => !dropped.has(fill)), rejected: [...page.rejected, ...rejected] }
}

/** All pages share one set, because one set per page would create too much garbage. */
const seen = new Set<string>()

/** Removes repeated fills from a page. `others` has the repeats that differ from the first fill with their id. */
function withoutRepeats({ rows }: Pick<FillBatch, 'rows'>): {
  readonly rows: readonly Fill[]
  readonly others: readonly Fill[]
} {
  const others: Fill[] = []
  seen.clear()
  for (const { execId } of rows) seen.add(execId)
  if (seen.size === rows.length) return { rows, others }
  const first = new Map<string, Fill>()
  const isOther = (one: Fill, two: Fill) =>
    one.price !== two.price || one.size !== two.size || one.side !== two.side || one.ts !== two.ts
  for (const fill of rows) {
    const known = first.get(fill.execId)
    if (known === undefined) first.set(fill.execId, fill)
    else if (isOther(known, fill)) others.push(fill)
  }
  return { rows: [...first.values()], others }
}
