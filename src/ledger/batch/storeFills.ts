import type { Kysely } from 'kysely'
import { type Fill, fillsPerPage } from '../../market/fill.js'
import { subtract, type TimeRange } from '../../market/timeRange.js'
import type { TimeMs } from '../../market/values.js'
import type { Series } from '../../db/series.js'
import { addLockedCoverages, lockCoverage } from '../proof/coverage.js'
import { type FillPageResult, insertFillPages, newestFillBefore } from '../live/fills.js'
import { closeGaps, gapEndsWithin, recordGap } from '../proof/gaps.js'
import type { Database } from '../../db/schema.js'
import type { WriteResult } from '../../db/writeResult.js'
import { type FillBatch, missingRows } from './batch.js'
import { type FillPage, judgeFills, type KnownFills } from './fillContinuity.js'

export interface StoredFills extends WriteResult {
  readonly gapsFound: number
}

/** Of the gap before a page that does not follow on, as market.gaps shows it. */
export const lostFillsReason = 'more fills happened between two responses than one response shows'

/** Stores a response's fills with what they prove and what they show to be lost. Call it in a transaction. */
export async function storeFills(db: Kysely<Database>, batch: FillBatch): Promise<StoredFills> {
  const [stored] = await storeFillPages(db, [batch])
  if (stored === undefined) throw new Error('a page was not stored')
  return stored
}

/**
 * The same for responses of several instruments, each at most once, in as many statements as one takes. In a transaction: a
 * fill that is stored without the judgement of its page would make the next page look as if it followed on.
 */
export async function storeFillPages(db: Kysely<Database>, batches: readonly FillBatch[]): Promise<StoredFills[]> {
  // Two recorders may store the same instrument: one after a takeover, the other what it had spooled before.
  const wanted = batches.map(({ target: { category, symbol }, rows }) => ({
    series: { stream: 'fills', category, symbol, type: null, interval: null } as const,
    since: rows.length === 0 ? null : timesOf(rows).oldest,
  }))
  const covered = await lockCoverage(db, wanted)
  const results = await insertFillPages(
    db,
    batches.map(({ rows }) => rows),
  )
  const claims: { readonly series: Series; readonly ranges: readonly TimeRange[] }[] = []
  const stored: StoredFills[] = []
  for (const [index, batch] of batches.entries()) {
    const { series } = wanted[index] as (typeof wanted)[number]
    const { sharedFrom, ...result } = results[index] as FillPageResult
    const known = covered[index] ?? []
    const page = pageOf(batch, sharedFrom)
    const { proven, gap } = judgeFills(await knownFills(db, series, known, batch, page), page)
    const unread = unreadTimes(batch)
    if (proven !== null && unread !== 'unknown') {
      const missing = unread.filter(({ from }) => from >= proven.from && from < proven.to)
      const ranges = subtract([proven], missing)
      claims.push({ series, ranges })
      // A response that comes late, out of a spool, may lie in what was taken for a gap.
      if (known.some(({ from }) => from > proven.from))
        for (const range of ranges) await closeGaps(db, series, range, batch.receivedAt)
      const reason = 'a fill could not be understood; see recorder.rejected_row'
      for (const range of missing) await recordGap(db, { ...series, range, reason, state: 'lost' })
    }
    if (gap !== null) {
      await recordGap(db, { ...series, range: gap, reason: lostFillsReason, state: 'lost' })
    }
    stored.push({ gapsFound: gap === null ? 0 : 1, ...result })
  }
  await addLockedCoverages(db, claims)
  return stored
}

/** Asks for the rarer parts only where the verdict depends on them: behind a loss, or within a sweep. */
async function knownFills(
  db: Kysely<Database>,
  series: Series,
  covered: readonly TimeRange[],
  { rows }: FillBatch,
  { sharedFrom, times }: FillPage,
): Promise<KnownFills> {
  if (times === null) return { covered, gapEnds: [], storedUntil: null }
  if (sharedFrom === null) {
    return { covered, gapEnds: [], storedUntil: await newestFillBefore(db, series, times.oldest, rows) }
  }
  const isInside = covered.some(({ from, to }) => from - 1 <= sharedFrom && sharedFrom < to)
  const gapEnds = isInside ? [] : await gapEndsWithin(db, series, { from: sharedFrom, to: sharedFrom + 1 })
  return { covered, gapEnds, storedUntil: null }
}

/** @param sharedFrom see FillPage */
export function pageOf(batch: FillBatch, sharedFrom: TimeMs | null): FillPage {
  const { rows, requestTime } = batch
  return {
    times: rows.length === 0 ? null : timesOf(rows),
    isFull: rows.length + missingRows(batch) >= fillsPerPage,
    sharedFrom,
    requestTime,
  }
}

/**
 * The milliseconds of the fills of a response that are not stored, because they could not be understood or the database refused
 * them; `unknown` where even the time of one cannot be told. Nothing may be claimed of them.
 */
function unreadTimes(batch: FillBatch): readonly TimeRange[] | 'unknown' {
  if (missingRows(batch) === 0) return []
  const lost = batch.rejected.filter(({ isRowStored }) => isRowStored !== true)
  if (lost.length < missingRows(batch) || batch.rows.length === 0) return 'unknown'
  const { oldest, newest } = timesOf(batch.rows)
  const ranges: TimeRange[] = []
  for (const { raw } of lost) {
    const ts = Number(timeInText.exec(raw)?.[1] ?? Number.NaN)
    // A time that is not among those of the others may be what is wrong with the row.
    if (!(ts >= oldest && ts <= newest)) return 'unknown'
    ranges.push({ from: ts, to: ts + 1 })
  }
  return ranges
}

const timeInText = /"ts":\s*"?(\d{13})\b/

function timesOf(rows: readonly Fill[]): { readonly oldest: TimeMs; readonly newest: TimeMs } {
  let [oldest, newest] = [Infinity, -Infinity]
  for (const { ts } of rows) {
    if (ts < oldest) oldest = ts
    if (ts > newest) newest = ts
  }
  return { oldest, newest }
}
