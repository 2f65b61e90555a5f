import { type Kysely, type RawBuilder, sql } from 'kysely'
import type { CandleType, Interval } from '../market/candle.js'
import type { Category } from '../market/category.js'
import type { StreamName } from '../market/stream.js'
import type { TimeRange } from '../market/timeRange.js'
import { dayMs, hourMs, type ServiceMs } from '../market/values.js'
import { ago, isReached, rowsFrom } from '../db/columns.js'
import { hasVerdict, multirange, multirangeText, rangesAsJson, toRanges } from './verdicts.js'
import { inTransaction } from '../db/database.js'
import { lockInTransaction, lockNames } from '../db/locks.js'
import type { Database, WantKind } from '../db/schema.js'
import { keyColumns, ofSeries, rowMs, type Series, sameSeries, seriesValues, seriesOf } from '../db/series.js'

export interface NewWant {
  readonly kind: WantKind
  readonly series: Series
  /** At least one half-open range of times. For candles these are opening times. */
  readonly ranges: readonly TimeRange[]
  /** Beginning of the requested time. Earlier rows are not needed. */
  readonly floor: ServiceMs
  /** True to read covered ranges again. */
  readonly again: boolean
  /** True if the instrument is about to be delisted. */
  readonly isUrgent: boolean
  /** True if `floor` is where the search ends, and not the launch of the instrument. */
  readonly hasOpenBeginning: boolean
  /** End of the stretch to review next. Only reviews have it. */
  readonly nextTo?: ServiceMs | null
}

export interface WantCounts {
  readonly requests: number
  /** Number of received rows. Of candles, only closed ones count. */
  readonly received: number
  readonly inserted: number
  /** Number of stored rows that had other values before. */
  readonly updated: number
}

/** Progress of a want, by what is proven of its ranges. */
export interface WantState extends WantCounts {
  readonly id: number
  readonly kind: WantKind
  readonly series: Series
  readonly isEnded: boolean
  readonly isRunning: boolean
  /** `total` is the number of rows in the want, see `rowMs`. `left` is the number of rows still to be requested. */
  readonly total: number
  readonly left: number
  /** Rows newer than this time are done; null when nothing is left. */
  readonly reachedAt: ServiceMs | null
  /** Why the last attempt was interrupted. The want is tried again. */
  readonly problem: string | null
  /** Why the service refuses a part of the want for good. */
  readonly failure: string | null
}

const rangesColumn = { name: 'ranges', kind: 'text' } as const
const columns = [
  { name: 'kind', kind: 'text' },
  ...keyColumns,
  rangesColumn,
  { name: 'floor', kind: 'time' },
  { name: 'again', kind: 'boolean' },
  { name: 'is_urgent', kind: 'boolean' },
  { name: 'has_open_beginning', kind: 'boolean' },
  { name: 'next_to', kind: 'time' },
] as const

/**
 * Proven ranges of the series of a want `w`. For a want that reads covered ranges again, only final ones. Parts that end
 * before the want are left out, because fills have a part for each 128 ranges.
 */
export const provenOfWant = sql<string>`
  coalesce((
    select range_agg(r) from recorder.ledger c cross join lateral unnest(c.ranges) as r
    where ${sameSeries('c', 'w')} and (${hasVerdict('final', 'c')}
        or not w.again and (${hasVerdict('recorded', 'c')} or ${hasVerdict('before the beginning', 'c')}))
      and c.part < upper(w.ranges) and upper(c.ranges) > lower(w.ranges)), '{}')`

/** Length of a lease on a slice. Slices of a worker that died or lost the database become free after it. */
export const sliceLeaseMs = 20_000

/** Missing ranges of a want: the wanted ranges, minus the proven ones, minus those requested in vain since. */
const missingOfWant = sql<string>`(w.ranges - w.done - ${provenOfWant})`

/**
 * Stores wants. An open repair of the same series is extended, and a backfill that asks for what is left of an open one
 * continues that. What it was asked for in vain is asked for again. Each other backfill, and each stretch of a review, is
 * a want of its own, which waits for no other. Resolves to the ids of all wants.
 */
export async function insertWants(db: Kysely<Database>, wants: readonly NewWant[]): Promise<number[]> {
  if (wants.length === 0) return []
  const rows = wants.map((want) => {
    const { kind, series, ranges, floor, again, isUrgent, hasOpenBeginning, nextTo = null } = want
    return [kind, ...seriesValues(series), multirangeText(ranges), floor, again, isUrgent, hasOpenBeginning, nextTo]
  })
  const source = rowsFrom(rows, columns, (row, column) => row[column] ?? null)
  return inTransaction(db, async (trx) => {
    await lockInTransaction(trx, lockNames.wants)
    await trx
      .deleteFrom('recorder.want')
      .where('ended_at', '<', ago(7 * dayMs))
      .execute()
    const { rows } = await sql<{ id: number }>`
      with source as materialized (
        select s.*, s.ranges::tstzmultirange as wanted, (
          select min(w.id) from recorder.want w
          where w.ended_at is null and w.kind = s.kind and w.again = s.again and ${sameSeries('w', 's')}
            and (s.kind = 'repair' or s.kind = 'backfill' and w.again or w.ranges @> s.ranges::tstzmultirange)
            and (s.kind <> 'backfill' or s.ranges::tstzmultirange @> ${missingOfWant})
        ) as known
        from ${source} as s
      ), grown as (
        update recorder.want w set ranges = w.ranges + s.added, floor = least(w.floor, s.floor), failure = null,
          done = w.done - s.added * case when w.again then w.refused else w.done end, refused = w.refused - s.added,
          requested_at = case w.kind when 'backfill' then now() else w.requested_at end,
          is_urgent = w.is_urgent or s.is_urgent, has_open_beginning = w.has_open_beginning or s.has_open_beginning
        from (
          select known, range_agg(r) as added, min(floor) as floor, bool_or(is_urgent) as is_urgent,
            bool_or(has_open_beginning) as has_open_beginning
          from source cross join lateral unnest(wanted) as r where known is not null group by known
        ) s
        where w.id = s.known and w.kind <> 'review'
      ), inserted as (
        insert into recorder.want (kind, stream, category, symbol, type, interval, ranges, floor, again, is_urgent,
          has_open_beginning, next_to)
        select kind, stream, category, symbol, type, interval, wanted, floor, again, is_urgent, has_open_beginning, next_to
        from source where known is null order by ordinality
        returning id
      )
      select id from inserted union select known from source where known is not null order by 1`.execute(trx)
    return rows.map(({ id }) => id)
  })
}

/** Ends wants whose ranges are neither missing nor being fetched, for one series or for all. */
export async function endWants(trx: Kysely<Database>, series?: Series): Promise<void> {
  let query = trx
    .updateTable('recorder.want as w')
    .set(({ fn }) => ({ ended_at: fn('now') }))
    .where('w.ended_at', 'is', null)
    .where(({ fn }) => fn<boolean>('isempty', [missingOfWant]))
    .where(({ exists, not, selectFrom }) =>
      not(
        exists(
          selectFrom('recorder.slice as s')
            .innerJoin('recorder.want as o', 'o.id', 's.want_id')
            .select('s.id')
            .where(sameSeries('o', 'w'))
            .whereRef('s.ranges', '&&', 'w.ranges'),
        ),
      ),
    )
  if (series !== undefined) query = query.where(ofSeries(series, 'w'))
  await query.execute()
}

/** Selects backfills to end. A backfill must match every given field. */
interface CancelFilter {
  readonly stream?: StreamName
  readonly categories?: readonly Category[]
  readonly intervals?: readonly Interval[]
  readonly types?: readonly CandleType[]
  readonly isSymbol: (symbol: string) => boolean
}

/** Ends open backfills and takes their slices from the workers. What is not fetched is a gap. Resolves to their series. */
export async function cancelBackfills(db: Kysely<Database>, filter: CancelFilter): Promise<Series[]> {
  return inTransaction(db, async (trx) => {
    await lockInTransaction(trx, lockNames.wants)
    const open = await trx
      .selectFrom('recorder.want')
      .select(['id', 'stream', 'category', 'symbol', 'type', 'interval'])
      .where('kind', '=', 'backfill')
      .where('ended_at', 'is', null)
      .orderBy('id')
      .execute()
    const matches = (names: readonly string[] | undefined, name: string) => names === undefined || names.includes(name)
    const meant = open.filter(
      ({ stream, category, symbol, type, interval }) =>
        (filter.stream === undefined || filter.stream === stream) &&
        matches(filter.categories, category) &&
        matches(filter.types, type) &&
        matches(filter.intervals, interval) &&
        filter.isSymbol(symbol),
    )
    const ids = meant.map(({ id }) => id)
    await trx
      .deleteFrom('recorder.slice')
      .where(({ eb, fn, val }) => eb('want_id', '=', fn.any(val(ids))))
      .execute()
    await trx
      .updateTable('recorder.want')
      .set(({ fn }) => ({ ended_at: fn('now'), problem: 'cancelled' }))
      .where(({ eb, fn, val }) => eb('id', '=', fn.any(val(ids))))
      .execute()
    // The repair finds what lies between claims of candles.
    await sql`
      select recorder.miss_fills(category, symbol, ranges, 'history') from recorder.want
      where id = any(${ids}) and stream = 'fills'
      order by category::text collate "C", symbol collate "C"`.execute(trx)
    return meant.map(seriesOf)
  })
}

/** Reads the wants with these ids, or up to `limit` that are open or failed lately, the most urgent first. */
export async function wantStates(
  db: Kysely<Database>,
  which: { readonly ids: readonly number[] } | { readonly limit: number },
): Promise<WantState[]> {
  const wants = db
    .selectFrom('recorder.want as w')
    .selectAll('w')
    .select(sql<string>`case when w.ended_at is null then ${missingOfWant} else '{}' end`.as('missing'))
  const chosen =
    'ids' in which
      ? wants.where(({ eb, fn, val }) => eb('w.id', '=', fn.any(val(which.ids)))).orderBy('w.id')
      : wants
          .where('w.kind', '<>', 'review')
          .where(({ eb, and, or }) =>
            or([
              eb('w.ended_at', 'is', null),
              and([eb('w.failure', 'is not', null), eb('w.ended_at', '>', ago(12 * hourMs))]),
            ]),
          )
          .orderBy(({ eb }) => eb('w.ended_at', 'is not', null))
          .orderBy(byUrgency('w.ranges'))
          .limit(which.limit)
  const rows = await db
    .selectFrom(chosen.as('w'))
    .select(['id', 'kind', 'stream', 'category', 'symbol', 'type', 'interval', 'problem', 'failure'])
    .select(['requests', 'received', 'inserted', 'updated'])
    .select(({ eb, exists, fn, not, selectFrom }) => [
      eb('ended_at', 'is not', null).as('isEnded'),
      fn<ServiceMs | null>('upper', ['missing']).as('reachedAt'),
      lengthOf('ranges').as('totalMs'),
      lengthOf('missing').as('leftMs'),
      exists(
        selectFrom('recorder.slice as s')
          .select('s.id')
          .whereRef('s.want_id', '=', 'w.id')
          .where(not(isReached('s.leased_until', sliceLeaseMs))),
      ).as('isRunning'),
    ])
    .execute()
  return rows.map(({ stream, category, symbol, type, interval, totalMs, leftMs, isEnded, isRunning, ...state }) => {
    const series = { stream, category, symbol, type, interval }
    const [total, left] = [totalMs, leftMs].map((ms) => Math.ceil(ms / rowMs(series))) as [number, number]
    return { ...state, series, isEnded: isEnded === true, isRunning: isRunning === true, total, left }
  })
}

/** Returns SQL for the total length of the ranges of a multirange, in milliseconds. */
function lengthOf(column: string): RawBuilder<number> {
  return sql`coalesce(
    (select sum(extract(epoch from upper(r) - lower(r)) * 1000) from unnest(${sql.ref(column)}) as r), 0)::bigint`
}

/**
 * Returns SQL that orders wants `w` by urgency. Repairs come before backfills, and backfills before reviews.
 * Instruments about to be delisted come next. A backfill then goes before those that were asked for earlier, because
 * somebody waits for it. Newer candles come before older ones.
 */
export function byUrgency(ranges: string): RawBuilder<unknown> {
  return sql.raw(
    `array_position(array['repair', 'backfill', 'review'], w.kind), not w.is_urgent,
     case w.kind when 'backfill' then w.requested_at end desc, upper(${ranges}) desc, w.id`,
  )
}

/** Counts the open wants of a kind. */
export async function countOpenWants(db: Kysely<Database>, kind: WantKind): Promise<number> {
  const { count } = await db
    .selectFrom('recorder.want')
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .where('kind', '=', kind)
    .where('ended_at', 'is', null)
    .executeTakeFirstOrThrow()
  return count
}

/** How often something was wanted as a repair lately. */
export interface RepairAttempts {
  readonly attempts: number
  /** Time since the last want ended, in milliseconds, by the database's clock; null while one is open. */
  readonly sinceMs: number | null
}

/**
 * Returns SQL that counts the repairs `w` under a condition, as one row of `RepairAttempts`. It counts wants and not
 * requests. A repair grows while it is open, it also ends if nothing could be requested, and is deleted a week later. An
 * end ahead counts like one as long ago, because the database's clock was set back since.
 */
export function attemptsWhere(condition: RawBuilder<unknown>): RawBuilder<RepairAttempts> {
  return sql`
    select count(*) as attempts, case when bool_and(ended_at is not null) then (min(abs(extract(epoch from now() - ended_at))) * 1000)::float8 end as "sinceMs"
    from recorder.want w where w.kind = 'repair' and ${condition}`
}

/** Counts how often each of the ranges of a series was wanted as a repair. */
export async function repairAttempts(
  db: Kysely<Database>,
  series: Series,
  ranges: readonly TimeRange[],
): Promise<(TimeRange & RepairAttempts)[]> {
  const { rows } = await sql<TimeRange & RepairAttempts>`
    select lower(r) as "from", upper(r) as "to", w.* from unnest(${multirange(ranges)}) as r
    cross join lateral (${attemptsWhere(sql`${ofSeries(series, 'w')} and w.ranges && r`)}) w
    order by r`.execute(db)
  return rows
}

interface RangeOutcome extends TimeRange {
  readonly verdict: 'before the beginning' | 'unanswered' | 'missing' | 'lost'
  /** The recorded reason of a gap. */
  readonly reason: string | null
}

/**
 * Reads known facts about ranges of each series, other than stored candles, in the order of `wanted`. One statement
 * serves all series.
 */
export async function rangeOutcomes(
  db: Kysely<Database>,
  wanted: readonly { readonly series: Series; readonly missing: readonly TimeRange[] }[],
): Promise<RangeOutcome[][]> {
  const results = wanted.map((): RangeOutcome[] => [])
  if (wanted.length === 0) return results
  const keys = wanted.map(({ series, missing }) => [...seriesValues(series), multirangeText(missing)])
  const source = rowsFrom(keys, [...keyColumns, rangesColumn], (key, column) => key[column] ?? null)
  const { rows } = await sql<
    { place: number; ranges: [ServiceMs, ServiceMs][] } & Pick<RangeOutcome, 'verdict' | 'reason'>
  >`
    with source as materialized (select *, ranges::tstzmultirange as wanted from ${source} as s)
    select place, verdict, reason, ${rangesAsJson('known')} as ranges
    from (
      select ordinality as place, t.verdict, t.reason, t.ranges * wanted as known
      from source s join recorder.ledger t on ${sameSeries('t', 's')}
        and t.verdict in ('before the beginning', 'unanswered', 'missing', 'lost')
    ) as found where not isempty(known)
    order by place, lower(known)`.execute(db)
  for (const { place, ranges, ...outcome } of rows) {
    results[place - 1]?.push(...toRanges(ranges).map((range) => ({ ...range, ...outcome })))
  }
  return results
}
