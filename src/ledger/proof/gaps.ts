import { type Kysely, sql } from 'kysely'
import type { StreamName } from '../../market/stream.js'
import type { TimeRange } from '../../market/timeRange.js'
import type { TimeMs } from '../../market/values.js'
import { toDate } from '../../db/columns.js'
import type { Database, GapState } from '../../db/schema.js'
import { ofSeries, type Series, seriesColumns, seriesOf } from '../../db/series.js'

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

/** Takes a range out of the gaps of a series, because its rows came after all: a gap that is filled wholly is repaired. */
export async function closeGaps(db: Kysely<Database>, series: Series, filled: TimeRange, at: TimeMs): Promise<void> {
  const range = sql`tstzrange(${toDate(filled.from)}::timestamptz, ${toDate(filled.to)}::timestamptz)`
  // What is left of a gap may be two gaps; each keeps what is known of the one it was.
  await sql`
    with touched as (
      select * from recorder.gap
      where ${ofSeries(series)} and range && ${range} and state <> 'repaired'
    ), repaired as (
      update recorder.gap g set state = 'repaired', repaired_at = ${toDate(at)}::timestamptz, lost_at = null
      from touched t where g.id = t.id and t.range <@ ${range}
    ), cut as (
      delete from recorder.gap g using touched t where g.id = t.id and not t.range <@ ${range}
    )
    insert into recorder.gap (stream, category, symbol, type, interval, range, reason, state, detected_at, lost_at)
    select t.stream, t.category, t.symbol, t.type, t.interval, rest, t.reason, t.state, t.detected_at, t.lost_at
    from touched t cross join lateral unnest(tstzmultirange(t.range) - tstzmultirange(${range})) as rest
    where not t.range <@ ${range}
    on conflict (stream, category, symbol, type, interval, range) do nothing`.execute(db)
}

/** Where known gaps of a series end, ascending: those ends that lie in the range, both of its limits included. */
export async function gapEndsWithin(db: Kysely<Database>, series: Series, range: TimeRange): Promise<TimeMs[]> {
  const { rows } = await sql<{ end: TimeMs }>`
    select distinct upper(range) as "end" from recorder.gap
    where ${ofSeries(series)} and state <> 'repaired'
      and upper(range) between ${toDate(range.from)}::timestamptz and ${toDate(range.to)}::timestamptz
    order by 1`.execute(db)
  return rows.map(({ end }) => end)
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
