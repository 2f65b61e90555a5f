import type { Kysely } from 'kysely'
import type { InstrumentKey } from '../../market/category.js'
import { type Fill, fillsPerPage } from '../../market/fill.js'
import type { TimeRange } from '../../market/timeRange.js'
import { addCoverage, coveredRanges, lockCoverage, type Series } from '../proof/coverage.js'
import { insertFillPage, newestFillBefore } from '../live/fills.js'
import { fillGaps, gapEndsWithin, recordGap } from '../proof/gaps.js'
import type { Database } from '../db/schema.js'
import type { WriteResult } from '../db/writeResult.js'
import { type Batch, missingRows } from './batch.js'
import { type FillPage, judgeFills, type KnownFills } from './fillContinuity.js'

export interface StoredFills extends WriteResult {
  readonly gapsFound: number
}

/**
 * Stores a response's fills with what they prove and what they show to be lost. Call it in a transaction: a fill that is
 * stored without the judgement of its page would make the next page look as if it followed on.
 */
export async function storeFills(db: Kysely<Database>, batch: Batch<InstrumentKey, Fill>): Promise<StoredFills> {
  const { category, symbol } = batch.target
  const series: Series = { stream: 'fills', category, symbol, type: null, interval: null }
  // Two recorders may store the same instrument: one after a takeover, the other what it had spooled before.
  await lockCoverage(db, series)
  const { sharedFrom, ...result } = await insertFillPage(db, batch.rows)
  const page = pageOf(batch, sharedFrom)
  const covered = await coveredRanges(db, series, sharedFrom ?? page.times?.oldest)
  const { proven, gap } = judgeFills(await knownFills(db, series, covered, batch, page), page)
  if (proven !== null) {
    await addCoverage(db, series, [proven])
    // A response that comes late, out of a spool, may lie in what was taken for a gap.
    if (covered.some(({ from }) => from > proven.from)) await fillGaps(db, series, proven, batch.receivedAt)
  }
  if (gap !== null) {
    const reason = 'more fills happened between two responses than one response shows'
    await recordGap(db, { ...series, range: gap, reason, state: 'lost' })
  }
  return { ...result, gapsFound: gap === null ? 0 : 1 }
}

/** Asks for the rarer parts only where the verdict depends on them: behind a loss, or within a sweep. */
async function knownFills(
  db: Kysely<Database>,
  series: Series,
  covered: readonly TimeRange[],
  { rows }: Batch<InstrumentKey, Fill>,
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

function pageOf(batch: Batch<InstrumentKey, Fill>, sharedFrom: number | null): FillPage {
  const { rows, requestTime } = batch
  let oldest = Infinity
  let newest = -Infinity
  for (const { ts } of rows) {
    if (ts < oldest) oldest = ts
    if (ts > newest) newest = ts
  }
  return {
    times: rows.length === 0 ? null : { oldest, newest },
    isFull: rows.length + missingRows(batch) >= fillsPerPage,
    sharedFrom,
    requestTime,
  }
}
