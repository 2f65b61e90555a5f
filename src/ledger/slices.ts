import { type ExpressionBuilder, type Kysely, sql } from 'kysely'
import type { StreamName } from '../market/stream.js'
import type { TimeRange } from '../market/timeRange.js'
import type { ServiceMs } from '../market/values.js'
import { byUrgency, endWants, provenOfWant, sliceLeaseMs, type WantCounts } from './wants.js'
import { inFuture, instant, isReached } from '../db/columns.js'
import { multirangeText, rangesAsJson, toRanges } from './verdicts.js'
import { inTransaction } from '../db/database.js'
import { lockInTransaction, lockNames } from '../db/locks.js'
import type { Database, WantKind } from '../db/schema.js'
import { ofSeries, type Series, sameSeries } from '../db/series.js'

/** A want with the ranges that are missing and that no worker fetches yet. */
export interface OpenWant {
  readonly kind: WantKind
  readonly series: Series
  readonly ranges: readonly TimeRange[]
  readonly hasOpenBeginning: boolean
}

/** A part of a want that one worker alone fetches. It takes some minutes. */
export interface Slice extends OpenWant {
  readonly id: number
  readonly wantId: number
  readonly floor: ServiceMs
  readonly again: boolean
  readonly nextTo: ServiceMs | null
  /** All ranges that were missing when the slice was taken and that no worker fetched. */
  readonly missing: readonly TimeRange[]
}

export interface SliceResult extends WantCounts {
  /**
   * Ranges that wants of the series need not request again, even if rows are still missing. Empty if the work was
   * interrupted. `series` stands for the whole series, because the service does not have it.
   */
  readonly done: readonly TimeRange[] | 'series'
  /** The part of `done` that the service refused. With a `failure`, that is all of it. */
  readonly refused?: readonly TimeRange[]
  /** Why the work was interrupted. The want is tried again after some seconds. */
  readonly problem?: string
  /** Why the service refuses the slice for good. */
  readonly failure?: string
}

const retryAfterMs = 5_000
const leaseEnd = inFuture(sliceLeaseMs)

/**
 * Returns true if a want or a slice is open. Otherwise there is nothing to take, extend or end. A worker that is idle
 * for most of the day then needs only this one statement.
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
 * Leases a part of the most urgent want to a worker. Resolves to null if no range is missing. A slice becomes free when
 * its lease ends.
 *
 * @param worker a name that no other worker has
 * @param cut returns the part of a want's missing ranges that makes a slice
 * @param streams the streams to choose from. A series of events, which has no interval, is in one slice at a time.
 */
export async function takeSlice(
  db: Kysely<Database>,
  worker: string,
  cut: (want: OpenWant) => readonly TimeRange[],
  streams: readonly StreamName[],
): Promise<Slice | null> {
  return inTransaction(db, async (trx) => {
    await lockInTransaction(trx, lockNames.wants)
    await trx.deleteFrom('recorder.slice').where(isReached('leased_until', sliceLeaseMs)).execute()
    const { rows } = await sql<
      Series & Omit<Slice, 'id' | 'series' | 'ranges' | 'missing'> & { ranges: [ServiceMs, ServiceMs][] }
    >`
      with taken as materialized (
        select w.stream, w.category, w.symbol, w.type, w.interval, range_agg(r) as ranges
        from recorder.slice s join recorder.want w on w.id = s.want_id cross join lateral unnest(s.ranges) as r
        group by 1, 2, 3, 4, 5
      ), ordered as (
        -- Looks up what is proven in this order, until something is missing. Doing so for all wants takes longer.
        select w.*, w.ranges - w.done - coalesce(t.ranges, '{}') as rest
        from recorder.want w
        left join taken t on ${sameSeries('t', 'w')}
        where w.ended_at is null and ${isReached('w.retry_at', retryAfterMs)}
          and w.stream = any(${streams}::text[]) and (w.interval <> '' or t.ranges is null)
        order by ${byUrgency("w.ranges - w.done - coalesce(t.ranges, '{}')")}
      )
      select id as "wantId", kind, stream, category, symbol, type, interval, floor, again, has_open_beginning as "hasOpenBeginning",
        next_to as "nextTo", ${rangesAsJson('missing')} as ranges
      from ordered w cross join lateral (select w.rest - ${provenOfWant} as missing) as m
      where not isempty(missing) limit 1`.execute(trx)
    const [row] = rows
    if (row === undefined) return null
    const { stream, category, symbol, type, interval, ...want } = row
    const series = { stream, category, symbol, type, interval }
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
 * Extends the leases of a worker. Releases its other slices, which it could not settle. Resolves to the ids of the
 * slices that it still holds. A missing id was cancelled or belongs to another worker now.
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

/** Ends wants whose ranges are recorded by now. */
export async function endSatisfiedWants(db: Kysely<Database>): Promise<void> {
  await inTransaction(db, async (trx) => {
    await lockInTransaction(trx, lockNames.wants)
    await endWants(trx)
  })
}

/** Releases a slice and adds its result to all wants that need its ranges, in the transaction of its rows. */
export async function settleSlice(trx: Kysely<Database>, slice: Slice, result: SliceResult): Promise<void> {
  const { done, refused = [], requests, received, inserted, updated, problem = null, failure = null } = result
  const ranges = done === 'series' ? '{(,)}' : multirangeText(done)
  const inVain = failure === null ? multirangeText(refused) : ranges
  await lockInTransaction(trx, lockNames.wants)
  const released = await trx
    .deleteFrom('recorder.slice')
    .where('id', '=', slice.id)
    .returning('taken_at')
    .executeTakeFirst()
  // The slice is gone: its lease ended, or its want was cancelled.
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
      refused: eb('refused', '+', eb.parens(eb('ranges', '*', val(inVain)), '-', eb.ref('done'))),
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

/** Reads what is left of wants to read proven ranges again: the service refused it, or the want ended or was stopped. */
export async function unreadRanges(
  db: Kysely<Database>,
  wantIds: readonly number[],
): Promise<{ readonly series: Series; readonly unread: TimeRange[] }[]> {
  const { rows } = await sql<Series & { unread: [ServiceMs, ServiceMs][] }>`
    select stream, category, symbol, type, interval, ${rangesAsJson('unread')} as unread
    from recorder.want w cross join lateral (select w.ranges - (w.done - w.refused) - ${provenOfWant} as unread) as u
    where again and id = any(${wantIds}::bigint[])`.execute(db)
  return rows.map(({ unread, ...series }) => ({ series, unread: toRanges(unread) }))
}
