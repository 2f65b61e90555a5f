import { type Kysely, sql } from 'kysely'
import type { StreamName } from '../../market/stream.js'
import type { TimeRange } from '../../market/timeRange.js'
import type { TimeMs } from '../../market/values.js'
import { toDate } from '../../db/columns.js'
import type { Database, GapState } from '../../db/schema.js'
import { type Series, seriesColumns, seriesOf } from '../../db/series.js'

/** A gap that has just been found. */
export interface NewGap extends Series {
  readonly range: TimeRange
  readonly reason: string
  /** `lost` when it is known at once that the service cannot fill it. Default `open`. */
  readonly state?: 'open' | 'lost'
  /** Default: now, by the database's clock. */
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

/** Records a gap. The same gap found again changes nothing. Throws when the range is empty. */
export async function recordGap(db: Kysely<Database>, gap: NewGap): Promise<void> {
  const { stream, category, symbol, type, interval } = seriesColumns(gap)
  const { from, to } = gap.range
  if (!(from < to)) throw new RangeError(`a gap must begin before it ends, got ${from} to ${to}`)
  const state = gap.state ?? 'open'
  const detectedAt = gap.detectedAt === undefined ? sql`now()` : sql`${toDate(gap.detectedAt)}::timestamptz`
  await sql`
    insert into recorder.gap (stream, category, symbol, type, interval, range, reason, state, detected_at, lost_at)
    values (${stream}, ${category}, ${symbol}, ${type}, ${interval},
      tstzrange(${toDate(from)}::timestamptz, ${toDate(to)}::timestamptz), ${gap.reason}, ${state}, ${detectedAt},
      ${state === 'lost' ? detectedAt : sql`null`})
    on conflict (stream, category, symbol, type, interval, range) do nothing`.execute(db)
}

export interface GapFilter {
  readonly state?: GapState
  readonly exceptState?: GapState
  readonly stream?: StreamName
}

/** Known gaps, oldest first: all of them, or those that the filter names. There may be millions of lost ones. */
export async function listGaps(db: Kysely<Database>, { state, exceptState, stream }: GapFilter = {}): Promise<Gap[]> {
  let query = db
    .selectFrom('recorder.gap')
    .selectAll()
    .select([sql<TimeMs>`lower(range)`.as('from'), sql<TimeMs>`upper(range)`.as('to')])
    .orderBy('from')
    .orderBy('id')
  if (state !== undefined) query = query.where('state', '=', state)
  if (exceptState !== undefined) query = query.where('state', '<>', exceptState)
  if (stream !== undefined) query = query.where('stream', '=', stream)
  const rows = await query.execute()
  return rows.map((row) => ({
    id: row.id,
    ...seriesOf(row),
    range: { from: row.from, to: row.to },
    reason: row.reason,
    state: row.state,
    detectedAt: row.detected_at,
    repairedAt: row.repaired_at,
    lostAt: row.lost_at,
  }))
}
