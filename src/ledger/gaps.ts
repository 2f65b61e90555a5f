import { type Kysely, sql } from 'kysely'
import type { StreamName } from '../market/stream.js'
import type { TimeRange } from '../market/timeRange.js'
import type { TimeMs } from '../market/values.js'
import { instant, toDate } from '../db/columns.js'
import { callFunction } from '../db/database.js'
import type { Database, GapState } from '../db/schema.js'
import { type Series, instrumentStream, ofSeries, seriesColumns, seriesOf } from '../db/series.js'
import { gapRange, multirange, multirangeText, verdictOf } from './verdicts.js'
import type { Category } from '../market/category.js'

/** A gap that has just been found. */
interface NewGap extends Series {
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

/**
 * Records a gap. The same gap found again changes nothing, and of two with the same beginning the longer one stays. Throws when the
 * range is empty.
 */
export async function recordGap(db: Kysely<Database>, gap: NewGap): Promise<void> {
  const { stream, category, symbol, type, interval } = seriesColumns(gap)
  const { range, reason, state = 'open', detectedAt } = gap
  if (!(range.from < range.to))
    throw new RangeError(`a gap must begin before it ends, got ${range.from} to ${range.to}`)
  const series = [stream, category, symbol, type, interval]
  const at = detectedAt === undefined ? null : toDate(detectedAt)
  await callFunction(db, 'recorder.note_gaps', ...series, verdictOf(state), multirangeText([range]), reason, at)
}

interface GapFilter {
  readonly state?: GapState
  readonly exceptState?: GapState
  readonly stream?: StreamName
}

/** Known gaps, oldest first: all of them, or those that the filter names. There may be millions of lost ones. */
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

/** A gap in fills that turned out to be none. */
interface EmptyGap {
  readonly category: Category
  readonly symbol: string
  readonly range: TimeRange
}

interface JudgedGaps {
  /** Those in which nothing was lost. They are still there. */
  readonly empty: readonly EmptyGap[]
  /** The last gap that was looked at; null when there is none after it to look at. */
  readonly last: number | null
}

/**
 * Judges gaps in fills that nobody has judged yet, in the order of their numbers: nothing was lost in one whose every minute
 * has a closed candle with exactly the volume of the stored fills. Two responses may adjoin without sharing a fill, which looks
 * like a gap. The others are marked as judged, so that each is compared once, however many there are. A gap waits while a minute
 * has no closed candle, and while fills of its minutes may still be on their way to the database.
 *
 * @param since those found earlier have waited for their candles for long enough
 * @param after the number after which to begin
 */
export async function judgeFillGaps(
  db: Kysely<Database>,
  { since, after, limit }: { readonly since: TimeMs; readonly after: number; readonly limit: number },
): Promise<JudgedGaps> {
  const { rows } = await sql<{
    id: number
    category: Category
    symbol: string
    from: TimeMs
    to: TimeMs
    isEmpty: boolean
  }>`
    with due as materialized (
      select id, category, symbol, ${gapRange} as range,
        -- Longer ones are not two responses that adjoin.
        noted_at < ${instant(since)} or gap_until - part >= interval '1 hour' as is_given_up
      from recorder.known
      where stream = 'fills' and verdict in ('missing', 'lost') and judged_at is null and id > ${after}
      order by id limit ${limit}
    ), looked as materialized (
      select due.*, coalesce(m.is_empty, false) as is_empty,
        due.is_given_up or (m.has_candles and not m.is_empty and coalesce(
          (select upper(v.ranges) from recorder.known v
            where v.stream = 'fills' and v.category = due.category and v.symbol = due.symbol and v.type = '' and v.interval = ''
              and v.verdict = 'recorded' and not isempty(v.ranges)
            order by v.part desc limit 1)
          >= m.ends_at, false)) as is_judged
      from due left join lateral (
        select bool_and(c.volume is not null) as has_candles, bool_and(c.volume is not null and c.volume = f.size) as is_empty,
          max(minute) + interval '1 minute' as ends_at
        from generate_series(
          date_trunc('minute', lower(due.range), 'UTC'), upper(due.range) - interval '1 millisecond', interval '1 minute'
        ) as minute
        left join lateral (
          -- Sizes of coin futures are in the quote coin.
          select case when due.category = 'COIN-FUTURES' then quote_turnover else base_volume end as volume
          from market.candles
          where category = due.category and symbol = due.symbol and type = 'market' and interval = '1m'
            and open_time = minute and is_closed
        ) c on true
        left join lateral (
          select coalesce(sum(size), 0) as size from market.fills
          where category = due.category and symbol = due.symbol and ts >= minute and ts < minute + interval '1 minute'
            -- Without a candle there is nothing to compare with.
            and c.volume is not null
        ) f on true
        where not due.is_given_up
      ) m on true
    ), judged as (
      update recorder.known g set judged_at = now() from looked
      where g.id = looked.id and g.stream = 'fills' and g.category = looked.category and g.symbol = looked.symbol
        and g.type = '' and g.interval = '' and g.verdict in ('missing', 'lost') and g.part = lower(looked.range) and looked.is_judged
    )
    select id, category, symbol, lower(range) as "from", upper(range) as "to", is_empty as "isEmpty"
    from looked order by id`.execute(db)
  return {
    empty: rows
      .filter(({ isEmpty }) => isEmpty)
      .map(({ category, symbol, from, to }) => ({ category, symbol, range: { from, to } })),
    last: rows.length < limit ? null : (rows.at(-1)?.id ?? null),
  }
}

/** Takes a gap back. */
export async function removeGap(db: Kysely<Database>, { range, ...instrument }: EmptyGap): Promise<void> {
  await db
    .deleteFrom('recorder.known')
    .where(ofSeries(instrumentStream('fills', instrument)))
    .where('verdict', 'in', ['missing', 'lost'])
    .where('part', '=', instant(range.from))
    .where('ranges', '=', multirange([range]))
    .execute()
}
