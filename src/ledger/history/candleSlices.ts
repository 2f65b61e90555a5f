import { hostname } from 'node:os'
import { type Kysely, sql } from 'kysely'
import type { CandleSeries } from '../../market/candle.js'
import type { TimeRange } from '../../market/timeRange.js'
import type { TimeMs } from '../../market/values.js'
import { byUrgency, endWants, provenOfWant, type WantCounts, type WantKind } from './candleWants.js'
import { toDate } from '../../db/columns.js'
import { multirange, rangesAsJson, toRanges } from '../proof/coverage.js'
import { openDatabase, type RecorderDatabase } from '../../db/database.js'
import { lockNames } from '../../db/locks/names.js'
import { lockInTransaction } from '../../db/locks/rowLock.js'
import { holds, lockSessionName } from '../../db/locks/sessionLock.js'
import type { Database } from '../../db/schema.js'
import { ofCandles, sameCandles } from '../../db/series.js'

/** A want, and what of it is missing and not being fetched by anybody. */
export interface OpenWant {
  readonly kind: WantKind
  readonly series: CandleSeries
  readonly ranges: readonly TimeRange[]
  readonly hasOpenBeginning: boolean
}

/** Some minutes' work: a part of a want that one worker fetches, and nobody else. */
export interface CandleSlice extends OpenWant {
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
   * What is not asked for again in the wants of the series, whatever came of it: nothing when it was broken off, `series` for all of
   * one that the service does not have.
   */
  readonly done: readonly TimeRange[] | 'series'
  /** Why it was broken off; then it is tried again after some seconds. */
  readonly problem?: string
  /** Why the service refuses it for good. */
  readonly failure?: string
}

const retryAfterSeconds = 5

/** Lets a worker take slices. They are its own for as long as its session with the database lasts, and the server ends it with the process. */
export class SliceSession {
  /** One connection: what it takes, it holds. */
  readonly #session: RecorderDatabase
  /** Slices that had no session at the last look. */
  #lost: ReadonlySet<number> = new Set()

  constructor(url: string) {
    this.#session = openDatabase({ url, poolSize: 1, applicationName: lockSessionName('candle slices') })
  }

  /**
   * Whether anything is wanted or being fetched, by anybody. While it is not, there is nothing to take, to hold or to tidy: one
   * statement instead of theirs, for a worker that has nothing to do for most of the day.
   */
  async isNeeded(): Promise<boolean> {
    const { rows } = await sql<{ needed: boolean }>`
      select exists (select from recorder.candle_want where ended_at is null)
        or exists (select from recorder.candle_slice) as needed`.execute(this.#session.db)
    return rows[0]?.needed ?? true
  }

  /**
   * Takes the most urgent part of what is missing; null when nothing is to be done.
   *
   * @param cut the part of a want's missing ranges that makes a slice
   */
  async take(cut: (want: OpenWant) => readonly TimeRange[]): Promise<CandleSlice | null> {
    return this.#session.db.transaction().execute(async (trx) => {
      await lockInTransaction(trx, lockNames.candleWants)
      const { rows } = await sql<
        CandleSeries & Omit<CandleSlice, 'id' | 'series' | 'ranges' | 'missing'> & { ranges: [TimeMs, TimeMs][] }
      >`
        with taken as materialized (
          select w.category, w.symbol, w.type, w.interval, range_agg(r) as ranges
          from recorder.candle_slice s join recorder.candle_want w on w.id = s.want_id cross join lateral unnest(s.ranges) as r
          group by 1, 2, 3, 4
        ), ordered as (
          -- What is proven is looked up in this order, until something is missing: not for all that anybody wants.
          select w.*, w.ranges - w.done - coalesce(t.ranges, '{}') as rest
          from recorder.candle_want w
          left join taken t on ${sameCandles('t', 'w')}
          where w.ended_at is null and w.retry_at <= now()
          order by ${byUrgency(sql`w.ranges - w.done - coalesce(t.ranges, '{}')`)}
        )
        select id as "wantId", kind, category, symbol, type, interval, floor, again, has_open_beginning as "hasOpenBeginning",
          next_to as "nextTo", ${rangesAsJson(sql`missing`)} as ranges
        from ordered w cross join lateral (select w.rest - ${provenOfWant} as missing) as m
        where not isempty(missing) limit 1`.execute(trx)
      const [row] = rows
      if (row === undefined) return null
      const { category, symbol, type, interval, ...want } = row
      const open = { ...want, series: { category, symbol, type, interval }, ranges: toRanges(row.ranges) }
      const ranges = cut(open)
      const inserted = await sql<{ id: number }>`
        insert into recorder.candle_slice (want_id, ranges, pid, login, session, holder)
        select ${row.wantId}, ${multirange(ranges)}, pid, usesysid, application_name, ${`${hostname()} ${process.pid}`}
        from pg_stat_activity where pid = pg_backend_pid()
        returning id`.execute(trx)
      return { ...open, id: inserted.rows[0]?.id ?? 0, ranges, missing: open.ranges }
    })
  }

  /**
   * To be called every second: slices stay this worker's when its connection broke and was made anew. Those that it does not work
   * on any more, but could not settle, are released.
   */
  async hold(working: readonly CandleSlice[]): Promise<void> {
    const { db } = this.#session
    const ids = working.map(({ id }) => id)
    // The settings so that the server notices within seconds that this host cannot be reached any more, and ends the session.
    await sql`
      with own as (select id from recorder.candle_slice where session = current_setting('application_name')),
      released as (delete from recorder.candle_slice s using own where s.id = own.id and s.id <> all (${ids}::bigint[])),
      kept as (
        update recorder.candle_slice s set pid = pg_backend_pid() from own
        where s.id = own.id and s.id = any (${ids}::bigint[]) and s.pid <> pg_backend_pid())
      select set_config('tcp_keepalives_idle', '3', false), set_config('tcp_keepalives_interval', '3', false),
        set_config('tcp_keepalives_count', '3', false)`.execute(db)
  }

  /**
   * Puts in order what others have left: slices whose worker has died are released, seen at two calls so that one whose connection
   * breaks can make it anew; and wants end that others have satisfied. Resolves to how many slices those are.
   */
  async tidy(): Promise<number> {
    const { db } = this.#session
    const { rows } = await sql<{ id: number }>`
      select id from recorder.candle_slice slice where not ${sql.raw(holds('slice'))}`.execute(db)
    const twice = rows.map(({ id }) => id).filter((id) => this.#lost.has(id))
    this.#lost = new Set(rows.map(({ id }) => id))
    return db.transaction().execute(async (trx) => {
      await lockInTransaction(trx, lockNames.candleWants)
      const { numAffectedRows = 0n } = await sql`
        delete from recorder.candle_slice slice
        where id = any (${twice}::bigint[]) and not ${sql.raw(holds('slice'))}`.execute(trx)
      await endWants(trx)
      return Number(numAffectedRows)
    })
  }

  close(): Promise<void> {
    return this.#session.close()
  }
}

/** Releases a slice and records the result for all wants that it was a part of. Call it in the transaction that stores its outcome. */
export async function settleSlice(trx: Kysely<Database>, slice: CandleSlice, result: SliceResult): Promise<void> {
  const { done, requests, candles, inserted, updated, problem = null, failure = null } = result
  const ranges = done === 'series' ? sql`'{(,)}'::tstzmultirange` : multirange(done)
  await lockInTransaction(trx, lockNames.candleWants)
  const released = await trx
    .deleteFrom('recorder.candle_slice')
    .where('id', '=', slice.id)
    .returning('taken_at')
    .executeTakeFirst()
  // Somebody else has it by now, because the database took this worker for dead.
  if (released === undefined) return
  await sql`
    update recorder.candle_want set done = done + ranges * ${ranges}, requests = requests + ${requests},
      candles = candles + ${candles}, inserted = inserted + ${inserted}, updated = updated + ${updated},
      problem = ${problem}, failure = coalesce(${failure}, failure),
      retry_at = case when ${problem}::text is null then retry_at else now() + make_interval(secs => ${retryAfterSeconds}) end
    where ${ofCandles(slice.series)} and ended_at is null
      and (id = ${slice.wantId} or ranges && ${ranges}
        and (not again or ${slice.again} and requested_at <= ${toDate(released.taken_at)}::timestamptz))`.execute(trx)
  await endWants(trx, slice.series)
}
