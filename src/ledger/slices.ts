import { type ExpressionBuilder, type Kysely, sql } from 'kysely'
import type { TimeRange } from '../market/timeRange.js'
import type { TimeMs } from '../market/values.js'
import { byUrgency, endWants, provenOfWant, type WantCounts, type WantKind } from './wants.js'
import { inFuture, instant } from '../db/columns.js'
import { multirangeText, rangesAsJson, toRanges } from './verdicts.js'
import { inTransaction } from '../db/database.js'
import { lockInTransaction, lockNames } from '../db/locks.js'
import type { Database, SeriesColumns } from '../db/schema.js'
import { ofSeries, type Series, sameSeries, seriesOf } from '../db/series.js'

/** A want, and what of it is missing and not being fetched by anybody. */
export interface OpenWant {
  readonly kind: WantKind
  readonly series: Series
  readonly ranges: readonly TimeRange[]
  readonly hasOpenBeginning: boolean
}

/** Some minutes' work: a part of a want that one worker fetches, and nobody else. */
export interface Slice extends OpenWant {
  readonly id: number
  readonly wantId: number
  readonly floor: TimeMs
  readonly again: boolean
  readonly nextTo: TimeMs | null
  /** All that was missing of the want and not being fetched when it was taken. */
  readonly missing: readonly TimeRange[]
}

export interface SliceResult extends WantCounts {
  /**
   * Ranges that the wants of the series do not request again, whatever the result. Empty if the work was interrupted.
   * `series` stands for the whole series, which the service does not have.
   */
  readonly done: readonly TimeRange[] | 'series'
  /** Why it was broken off; then it is tried again after some seconds. */
  readonly problem?: string
  /** Why the service refuses it for good. */
  readonly failure?: string
}

const retryAfterMs = 5_000
/** A worker that dies holds up its slices for so long; one that the database does not hear of for so long loses them. */
const leaseEnd = inFuture(20_000)

/**
 * Returns true if anything is wanted or being fetched. Otherwise there is no slice or want to take, extend or end.
 * A worker that is idle for most of the day then needs only this one statement.
 */
export async function isWorkLeft(db: Kysely<Database>): Promise<boolean> {
  const { isLeft } = await db
    .selectNoFrom(({ exists, or, selectFrom }) =>
      or([
        exists(selectFrom('recorder.want').select('id').where('ended_at', 'is', null)),
        exists(selectFrom('recorder.slice').select('id')),
      ]).as('isLeft'),
    )
    .executeTakeFirstOrThrow()
  return isLeft === true
}

/**
 * Leases the most urgent part of what is missing to a worker; null when nothing is to be done. A slice whose lease has ended is
 * missing again.
 *
 * @param worker a name that no other worker has
 * @param cut the part of a want's missing ranges that makes a slice
 * @param kind `events`: rows with times of their own, of which one slice of a series is taken at a time
 */
export async function takeSlice(
  db: Kysely<Database>,
  worker: string,
  cut: (want: OpenWant) => readonly TimeRange[],
  kind: 'candles' | 'events' = 'candles',
): Promise<Slice | null> {
  return inTransaction(db, async (trx) => {
    await lockInTransaction(trx, lockNames.wants)
    await trx
      .deleteFrom('recorder.slice')
      .where(({ eb, fn }) => eb('leased_until', '<=', fn<TimeMs>('now')))
      .execute()
    const { rows } = await sql<
      SeriesColumns & Omit<Slice, 'id' | 'series' | 'ranges' | 'missing'> & { ranges: [TimeMs, TimeMs][] }
    >`
      with taken as materialized (
        select w.stream, w.category, w.symbol, w.type, w.interval, range_agg(r) as ranges
        from recorder.slice s join recorder.want w on w.id = s.want_id cross join lateral unnest(s.ranges) as r
        group by 1, 2, 3, 4, 5
      ), ordered as (
        -- What is proven is looked up in this order, until something is missing: not for all that anybody wants.
        select w.*, w.ranges - w.done - coalesce(t.ranges, '{}') as rest
        from recorder.want w
        left join taken t on ${sameSeries('t', 'w')}
        where w.ended_at is null and w.retry_at <= now()
          and (w.interval <> '') = ${kind === 'candles'}::boolean and (w.interval <> '' or t.ranges is null)
        order by ${byUrgency("w.ranges - w.done - coalesce(t.ranges, '{}')")}
      )
      select id as "wantId", kind, stream, category, symbol, type, interval, floor, again, has_open_beginning as "hasOpenBeginning",
        next_to as "nextTo", ${rangesAsJson('missing')} as ranges
      from ordered w cross join lateral (select w.rest - ${provenOfWant} as missing) as m
      where not isempty(missing) limit 1`.execute(trx)
    const [row] = rows
    if (row === undefined) return null
    const { stream, category, symbol, type, interval, ...want } = row
    const series = seriesOf({ stream, category, symbol, type, interval })
    const open = { ...want, series, ranges: toRanges(row.ranges) }
    const ranges = cut(open)
    const { id } = await trx
      .insertInto('recorder.slice')
      .values({ want_id: row.wantId, ranges: multirangeText(ranges), leased_by: worker, leased_until: leaseEnd })
      .returning('id')
      .executeTakeFirstOrThrow()
    return { ...open, id, ranges, missing: open.ranges }
  })
}

/**
 * Extends the leases of a worker, and gives up those of slices that it does not work on any more but could not settle. Resolves to
 * the ids of those that it still has: others were cancelled, or somebody else has them by now.
 */
export async function extendLeases(
  db: Kysely<Database>,
  worker: string,
  working: readonly Slice[],
): Promise<ReadonlySet<number>> {
  const ids = working.map(({ id }) => id)
  const kept = await db
    .with('released', (query) =>
      query
        .deleteFrom('recorder.slice')
        .where('leased_by', '=', worker)
        .where(({ eb, fn, val }) => eb('id', '<>', fn<number>('all', [val(ids)]))),
    )
    .updateTable('recorder.slice')
    .set({ leased_until: leaseEnd })
    .where('leased_by', '=', worker)
    .where(({ eb, fn, val }) => eb('id', '=', fn.any(val(ids))))
    .returning('id')
    .execute()
  return new Set(kept.map(({ id }) => id))
}

/** Ends wants that others have satisfied. */
export async function endSatisfiedWants(db: Kysely<Database>): Promise<void> {
  await inTransaction(db, async (trx) => {
    await lockInTransaction(trx, lockNames.wants)
    await endWants(trx)
  })
}

/** Releases a slice and records the result for all wants that it was a part of. Call it in the transaction that stores its outcome. */
export async function settleSlice(trx: Kysely<Database>, slice: Slice, result: SliceResult): Promise<void> {
  const { done, requests, received, inserted, updated, problem = null, failure = null } = result
  const ranges = done === 'series' ? '{(,)}' : multirangeText(done)
  await lockInTransaction(trx, lockNames.wants)
  const released = await trx
    .deleteFrom('recorder.slice')
    .where('id', '=', slice.id)
    .returning('taken_at')
    .executeTakeFirst()
  // The lease has ended, and somebody else has the slice by now.
  if (released === undefined) return
  const isOfTime = (eb: ExpressionBuilder<Database, 'recorder.want'>) =>
    eb.and([
      eb('ranges', '&&', ranges),
      eb.or([eb.not('again'), eb.and([eb.val(slice.again), eb('requested_at', '<=', instant(released.taken_at))])]),
    ])
  await trx
    .updateTable('recorder.want')
    .set(({ eb, fn, val }) => ({
      done: eb('done', '+', eb('ranges', '*', val(ranges))),
      requests: eb('requests', '+', requests),
      received: eb('received', '+', received),
      inserted: eb('inserted', '+', inserted),
      updated: eb('updated', '+', updated),
      problem,
      failure: fn.coalesce(val(failure), 'failure'),
      ...(problem === null ? {} : { retry_at: inFuture(retryAfterMs) }),
    }))
    .where(ofSeries(slice.series))
    .where('ended_at', 'is', null)
    .where((eb) => eb.or([eb('id', '=', slice.wantId), isOfTime(eb)]))
    .execute()
  await endWants(trx, slice.series)
}
