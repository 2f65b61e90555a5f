import { type Kysely, sql } from 'kysely'
import { type CandleSeries, intervalMs } from '../market/candle.js'
import type { TimeRange } from '../market/timeRange.js'
import type { TimeMs } from '../market/values.js'
import { rowsFrom } from '../db/columns.js'
import { is, multirangeText, rangesAsJson, toRanges } from './verdicts.js'
import { inTransaction } from '../db/database.js'
import { lockInTransaction, lockNames } from '../db/locks.js'
import type { Database } from '../db/schema.js'
import { ofCandles, sameCandleStream, sameCandles } from '../db/series.js'

/** `review`: a second look at known ranges, with the budget that the other kinds leave. */
export type WantKind = 'repair' | 'backfill' | 'review'

export interface NewWant {
  readonly kind: WantKind
  readonly series: CandleSeries
  /** Opening times, half-open; at least one range. */
  readonly ranges: readonly TimeRange[]
  /** Beginning of the requested time. Earlier candles are not needed. */
  readonly floor: TimeMs
  /** True to read covered ranges again. */
  readonly again: boolean
  /** The instrument is about to be delisted. */
  readonly isUrgent: boolean
  /** The floor is where we stop looking, not where the instrument was launched. */
  readonly hasOpenBeginning: boolean
  /** Review: the end of the stretch that is next. */
  readonly nextTo?: TimeMs | null
}

export interface WantCounts {
  readonly requests: number
  /** Closed candles received. */
  readonly candles: number
  readonly inserted: number
  /** Stored candles that had other values before. */
  readonly updated: number
}

/** How far a want has come, from what is proven of it. */
export interface WantState extends WantCounts {
  readonly id: number
  readonly kind: WantKind
  readonly series: CandleSeries
  readonly isEnded: boolean
  readonly isRunning: boolean
  /** `total` counts the candles of the want, and `left` those still to be requested. */
  readonly total: number
  readonly left: number
  /** Candles newer than this time are done; null when nothing is left. */
  readonly reachedAt: TimeMs | null
  /** Why the last attempt was broken off, to be repeated. */
  readonly problem: string | null
  /** Why the service refuses some of it for good. */
  readonly failure: string | null
}

const columns = [
  { name: 'kind', kind: 'text' },
  { name: 'category', kind: 'category' },
  { name: 'symbol', kind: 'text' },
  { name: 'type', kind: 'candle_type' },
  { name: 'interval', kind: 'candle_interval' },
  { name: 'ranges', kind: 'text' },
  { name: 'floor', kind: 'time' },
  { name: 'again', kind: 'boolean' },
  { name: 'is_urgent', kind: 'boolean' },
  { name: 'has_open_beginning', kind: 'boolean' },
  { name: 'next_to', kind: 'time' },
] as const

/** Proven ranges of the series of a want `w`; empty for a want that reads covered ranges again. */
export const provenOfWant = sql`
  case when w.again then '{}' else
    coalesce((select c.ranges from recorder.known c where ${sameCandleStream('c', 'w')} and ${is('recorded', 'c')}), '{}')
    + coalesce((select e.ranges from recorder.known e where ${sameCandleStream('e', 'w')} and ${is('before the beginning', 'e')}), '{}') end`

/** Missing ranges of a want: the wanted ranges, minus the proven ones, minus those requested in vain since. */
const missingOfWant = sql`(w.ranges - w.done - ${provenOfWant})`

/**
 * Stores what is wanted. An open want of the same kind and series grows by it, so that a series is never wanted twice; stretches of
 * a review are wants of their own. Resolves to the ids of all of them.
 */
export async function insertWants(db: Kysely<Database>, wants: readonly NewWant[]): Promise<number[]> {
  if (wants.length === 0) return []
  const source = rowsFrom(wants, columns, (want, column) => {
    const { kind, series, ranges, floor, again, isUrgent, hasOpenBeginning, nextTo = null } = want
    const { category, symbol, type, interval } = series
    const text = multirangeText(ranges)
    const values = [kind, category, symbol, type, interval, text, floor, again, isUrgent, hasOpenBeginning, nextTo]
    return values[column] as string | number | boolean | null
  })
  return inTransaction(db, async (trx) => {
    await lockInTransaction(trx, lockNames.candleWants)
    await sql`delete from recorder.candle_want where ended_at < now() - interval '7 days'`.execute(trx)
    const { rows } = await sql<{ id: number }>`
      with source as materialized (
        select s.*, s.ranges::tstzmultirange as wanted, (
          select min(w.id) from recorder.candle_want w
          where w.ended_at is null and w.kind = s.kind and w.again = s.again and ${sameCandles('w', 's')}
            and (s.kind <> 'review' or w.ranges @> s.ranges::tstzmultirange)
        ) as known
        from ${source} as s
      ), grown as (
        update recorder.candle_want w set ranges = w.ranges + s.added, floor = least(w.floor, s.floor),
          is_urgent = w.is_urgent or s.is_urgent, has_open_beginning = w.has_open_beginning or s.has_open_beginning
        from (
          select known, range_agg(r) as added, min(floor) as floor, bool_or(is_urgent) as is_urgent,
            bool_or(has_open_beginning) as has_open_beginning
          from source cross join lateral unnest(wanted) as r where known is not null group by known
        ) s
        where w.id = s.known and not w.ranges @> s.added
      ), inserted as (
        insert into recorder.candle_want (kind, category, symbol, type, interval, ranges, floor, again, is_urgent,
          has_open_beginning, next_to)
        select kind, category, symbol, type, interval, wanted, floor, again, is_urgent, has_open_beginning, next_to
        from source where known is null order by ordinality
        returning id
      )
      select id from inserted union select known from source where known is not null order by 1`.execute(trx)
    return rows.map(({ id }) => id)
  })
}

/** Ends the wants, of a series or of all, of which nothing is missing and nothing is being fetched. */
export async function endWants(trx: Kysely<Database>, series?: CandleSeries): Promise<void> {
  const isMeant = series === undefined ? sql`true` : ofCandles(series, 'w')
  await sql`
    update recorder.candle_want w set ended_at = now()
    where w.ended_at is null and ${isMeant} and isempty(${missingOfWant})
      and not exists (
        select from recorder.candle_slice s join recorder.candle_want o on o.id = s.want_id
        where ${sameCandles('o', 'w')} and s.ranges && w.ranges)`.execute(trx)
}

/** Selects backfills to end: those that match every given field. */
interface CancelFilter {
  readonly categories?: readonly string[]
  readonly intervals?: readonly string[]
  readonly types?: readonly string[]
  readonly isSymbol: (symbol: string) => boolean
}

/** Ends open backfills and stops the workers on them. Resolves to their series. */
export async function cancelBackfills(db: Kysely<Database>, filter: CancelFilter): Promise<CandleSeries[]> {
  return inTransaction(db, async (trx) => {
    await lockInTransaction(trx, lockNames.candleWants)
    const { rows: open } = await sql<CandleSeries & { id: number }>`
      select id, category, symbol, type, interval from recorder.candle_want
      where kind = 'backfill' and ended_at is null order by id`.execute(trx)
    const isMeant = (names: readonly string[] | undefined, name: string) => names === undefined || names.includes(name)
    const meant = open.filter(
      ({ category, symbol, type, interval }) =>
        isMeant(filter.categories, category) &&
        isMeant(filter.types, type) &&
        isMeant(filter.intervals, interval) &&
        filter.isSymbol(symbol),
    )
    const ids = meant.map(({ id }) => id)
    await sql`delete from recorder.candle_slice where want_id = any (${ids}::bigint[])`.execute(trx)
    await sql`
      update recorder.candle_want set ended_at = now(), problem = 'cancelled' where id = any (${ids}::bigint[])`.execute(
      trx,
    )
    return meant.map(({ category, symbol, type, interval }) => ({ category, symbol, type, interval }))
  })
}

/** The wants with these ids; or at most `limit` that are open or have failed in the last hours, the most urgent first. */
export async function wantStates(
  db: Kysely<Database>,
  which: { readonly ids: readonly number[] } | { readonly limit: number },
): Promise<WantState[]> {
  const filter =
    'ids' in which
      ? sql`where w.id = any (${[...which.ids]}::bigint[]) order by w.id`
      : sql`where w.kind <> 'review' and (w.ended_at is null or w.failure is not null and w.ended_at > now() - interval '12 hours')
          order by w.ended_at is not null, ${byUrgency(sql`w.ranges`)} limit ${which.limit}`
  const length = (ranges: ReturnType<typeof sql>) => sql`
    coalesce((select sum(extract(epoch from upper(r) - lower(r)) * 1000) from unnest(${ranges}) as r), 0)::bigint`
  const { rows } = await sql<
    CandleSeries & Omit<WantState, 'series' | 'total' | 'left'> & { totalMs: number; leftMs: number }
  >`
    select id, kind, category, symbol, type, interval, ended_at is not null as "isEnded", problem, failure, requests, candles,
      inserted, updated, upper(missing) as "reachedAt", ${length(sql`ranges`)} as "totalMs", ${length(sql`missing`)} as "leftMs",
      exists (select from recorder.candle_slice s where s.want_id = w.id and s.leased_until > now()) as "isRunning"
    from (
      select w.*, case when w.ended_at is null then ${missingOfWant} else '{}' end as missing
      from recorder.candle_want w ${filter}
    ) as w`.execute(db)
  return rows.map(({ category, symbol, type, interval, totalMs, leftMs, ...state }) => ({
    ...state,
    series: { category, symbol, type, interval },
    total: Math.ceil(totalMs / intervalMs[interval]),
    left: Math.ceil(leftMs / intervalMs[interval]),
  }))
}

/** Repairs go before backfills and these before reviews, instruments about to be delisted before others, newer candles before older ones. */
export function byUrgency(ranges: ReturnType<typeof sql>) {
  return sql`array_position(array['repair', 'backfill', 'review'], w.kind), not w.is_urgent, upper(${ranges}) desc, w.id`
}

/** How many wants of a kind are open. */
export async function countOpenWants(db: Kysely<Database>, kind: WantKind): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    select count(*) from recorder.candle_want where kind = ${kind} and ended_at is null`.execute(db)
  return rows[0]?.count ?? 0
}

/** How often a range was wanted as a repair in the last days, and when the last of these ended; null while it is open. */
export async function earlierRepairs(
  db: Kysely<Database>,
  series: CandleSeries,
  range: TimeRange,
): Promise<{ readonly count: number; readonly endedAt: TimeMs | null }> {
  const { rows } = await sql<{ count: number; endedAt: TimeMs | null }>`
    select count(*), case when bool_and(ended_at is not null) then max(ended_at) end as "endedAt"
    from recorder.candle_want
    where ${ofCandles(series)} and kind = 'repair' and ranges && ${multirangeText([range])}::tstzmultirange`.execute(db)
  return rows[0] ?? { count: 0, endedAt: null }
}

interface RangeOutcome extends TimeRange {
  /** `empty`: before the series begins. `unanswered`: asked for, and nothing can be claimed. `gap`: the service does not give it. */
  readonly what: 'empty' | 'unanswered' | 'gap'
  /** Recorded reason of a gap. */
  readonly reason: string | null
}

/**
 * Reads known facts about ranges of each series, other than stored candles, in the order of `wanted`. One statement
 * serves all series.
 */
export async function rangeOutcomes(
  db: Kysely<Database>,
  wanted: readonly { readonly series: CandleSeries; readonly missing: readonly TimeRange[] }[],
): Promise<RangeOutcome[][]> {
  const results = wanted.map((): RangeOutcome[] => [])
  if (wanted.length === 0) return results
  const source = rowsFrom(wanted, columns.slice(1, 6), ({ series, missing }, column) => {
    const { category, symbol, type, interval } = series
    return [category, symbol, type, interval, multirangeText(missing)][column] ?? ''
  })
  const { rows } = await sql<{ place: number; ranges: [TimeMs, TimeMs][] } & Pick<RangeOutcome, 'what' | 'reason'>>`
    with source as materialized (select *, ranges::tstzmultirange as wanted from ${source} as s)
    select place, what, reason, ${rangesAsJson(sql`known`)} as ranges
    from (
      select ordinality as place, case t.verdict when 'missing' then 'gap' when 'unanswered' then 'unanswered' else 'empty' end as what,
        t.reason, t.ranges * wanted as known
      from source s join recorder.known t on ${sameCandleStream('t', 's')}
        and t.verdict in ('before the beginning', 'unanswered', 'missing')
    ) as found where not isempty(known)
    order by place, lower(known)`.execute(db)
  for (const { place, what, reason, ranges } of rows) {
    results[place - 1]?.push(...toRanges(ranges).map((range) => ({ ...range, what, reason })))
  }
  return results
}
