import { type Kysely, sql } from 'kysely'
import type { StreamName } from '../market/stream.js'
import type { TimeRange } from '../market/timeRange.js'
import type { TimeMs } from '../market/values.js'
import { toDate } from '../db/columns.js'
import { callFunction } from '../db/database.js'
import type { Database, GapState } from '../db/schema.js'
import { type Series, seriesKey, seriesOf } from '../db/series.js'
import { multirangeText, verdictOf } from './verdicts.js'

/** A gap that has just been found. */
interface NewGap extends Series {
  readonly range: TimeRange
  readonly reason: string
  /** `lost` if the service is known to be unable to fill the gap. Default `open`. */
  readonly state?: 'open' | 'lost'
  /** Time when the gap was found. Default: now, by the database's clock. */
  readonly detectedAt?: TimeMs
}

export interface Gap extends Series {
  readonly id: number
  readonly range: TimeRange
  readonly reason: string
  readonly state: GapState
  readonly detectedAt: TimeMs
  readonly repairedAt: TimeMs | null
  readonly lostAt: TimeMs | null
}

/**
 * Records a gap. A gap that is already known changes nothing. Of two gaps with the same beginning the longer one stays.
 * Throws if the range is empty.
 */
export async function recordGap(db: Kysely<Database>, gap: NewGap): Promise<void> {
  const { range, reason, state = 'open', detectedAt } = gap
  if (!(range.from < range.to))
    throw new RangeError(`a gap must begin before it ends, got ${range.from} to ${range.to}`)
  const at = detectedAt === undefined ? null : toDate(detectedAt)
  await callFunction(db, 'recorder.note_gaps', ...seriesKey(gap), verdictOf(state), multirangeText([range]), reason, at)
}

interface GapFilter {
  readonly state?: GapState
  readonly exceptState?: GapState
  readonly stream?: StreamName
}

/** Reads known gaps, oldest first. A filter narrows them, because there may be millions of lost ones. */
export async function listGaps(db: Kysely<Database>, { state, exceptState, stream }: GapFilter = {}): Promise<Gap[]> {
  const verdicts = (['open', 'lost', 'repaired'] as const)
    .filter((one) => (state === undefined || one === state) && one !== exceptState)
    .map(verdictOf)
  let query = db
    .selectFrom('recorder.known')
    .selectAll()
    .select(sql<TimeMs>`upper(ranges)`.as('to'))
    .where('verdict', 'in', verdicts)
    .orderBy('part')
    .orderBy('id')
  if (stream !== undefined) query = query.where('stream', '=', stream)
  const rows = await query.execute()
  return rows.map((row) => ({
    id: row.id,
    ...seriesOf(row),
    range: { from: row.part, to: row.to },
    reason: row.reason ?? '',
    state: row.verdict === 'missing' ? 'open' : (row.verdict as GapState),
    detectedAt: row.noted_at,
    repairedAt: row.verdict === 'repaired' ? row.settled_at : null,
    lostAt: row.verdict === 'lost' ? row.settled_at : null,
  }))
}
