import { type Kysely, sql } from 'kysely'
import type { Category, InstrumentKey, TradedCategory } from '../market/category.js'
import type { StreamName } from '../market/stream.js'
import type { TimeRange } from '../market/timeRange.js'
import type { TimeMs } from '../market/values.js'
import { instant } from '../db/columns.js'
import { callFunction } from '../db/database.js'
import type { Database, GapState } from '../db/schema.js'
import { type Series, seriesValues, seriesOf } from '../db/series.js'
import { gapRange, hasVerdict, multirangeText, verdictOf } from './verdicts.js'
import { attemptsWhere, type RepairAttempts } from './wants.js'

/** A gap that has just been found. */
export interface NewGap extends Series {
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
  const at = detectedAt === undefined ? null : new Date(detectedAt)
  await callFunction(
    db,
    'recorder.note_gaps',
    ...seriesValues(gap),
    verdictOf(state),
    multirangeText([range]),
    reason,
    at,
  )
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

/** Marks open gaps of a stream that end by a time as lost, because the service gives nothing older. */
export async function loseGaps(
  db: Kysely<Database>,
  stream: StreamName,
  until: TimeMs | 'infinity',
  categories: readonly Category[] | null = null,
): Promise<void> {
  await callFunction(db, 'recorder.lose_gaps', stream, until === 'infinity' ? until : new Date(until), categories)
}

/** Marks lost gaps of a stream that end after a time as open, because the service still has that time. */
export async function reopenGaps(
  db: Kysely<Database>,
  stream: StreamName,
  since: TimeMs,
  categories: readonly Category[],
): Promise<void> {
  await callFunction(db, 'recorder.reopen_gaps', stream, new Date(since), categories)
}

/** A gap in fills, with the repairs that were tried in vain. */
export interface FillGap extends InstrumentKey, RepairAttempts {
  readonly category: TradedCategory
  readonly id: number
  readonly notedAt: TimeMs
  readonly range: TimeRange
}

/** Position in a search through the gaps: the last gap that was read. */
export interface GapPlace {
  readonly notedAt: TimeMs
  readonly id: number
}

interface GapSelection {
  readonly state: 'open' | 'lost'
  readonly categories: readonly TradedCategory[]
  /** Only gaps that end after this time are selected. */
  readonly since: TimeMs
  /** Only gaps that were found before this one are selected. */
  readonly before: GapPlace
  readonly limit: number
}

/** Reads gaps of single instruments. The gap that was found last comes first. */
export async function selectFillGaps(
  db: Kysely<Database>,
  { state, categories, since, before, limit }: GapSelection,
): Promise<FillGap[]> {
  const { rows } = await sql<Omit<FillGap, 'range'> & TimeRange>`
    with due as materialized (
      select id, noted_at, category, symbol, ${gapRange} as range from recorder.known
      where stream = 'fills' and ${hasVerdict(verdictOf(state))} and symbol <> '*' and category = any (${categories})
        and (noted_at, id) < (${instant(before.notedAt)}, ${before.id})
        and gap_until > ${instant(since)}
      order by noted_at desc, id desc limit ${limit}
    )
    select id, noted_at as "notedAt", category, symbol, lower(range) as "from", upper(range) as "to",
      w.*
    from due cross join lateral (${attemptsWhere(sql`
      w.stream = 'fills' and w.category = due.category and w.symbol = due.symbol and w.ranges && due.range`)}
    ) w order by "notedAt" desc, id desc`.execute(db)
  return rows.map(({ from, to, ...gap }) => ({ ...gap, range: { from, to } }))
}
