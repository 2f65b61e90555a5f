import { type Kysely, type RawBuilder, sql } from 'kysely'
import type { CandleType, Interval } from '../../market/candle.js'
import type { Category } from '../../market/category.js'
import type { StreamName } from '../../market/stream.js'
import type { TimeRange } from '../../market/timeRange.js'
import type { TimeMs } from '../../market/values.js'
import type { Database, SeriesColumns } from '../db/schema.js'

/** What coverage and gaps are kept for: a stream of an instrument, and for candles their type and interval. */
export interface Series {
  readonly stream: StreamName
  readonly category: Category
  readonly symbol: string
  /** null for streams other than candles, as is `interval`. */
  readonly type: CandleType | null
  readonly interval: Interval | null
}

export function seriesColumns({ stream, category, symbol, type, interval }: Series): SeriesColumns {
  return { stream, category, symbol, type: type ?? '', interval: interval ?? '' }
}

/** Adds proven ranges. Call it in the transaction that writes their rows, so that a claim is never without them. */
export async function addCoverage(db: Kysely<Database>, series: Series, ranges: readonly TimeRange[]): Promise<void> {
  await addCoverages(db, [{ series, ranges }])
}

/** The same for several series, each at most once, in one statement. */
export async function addCoverages(
  db: Kysely<Database>,
  claims: readonly { readonly series: Series; readonly ranges: readonly TimeRange[] }[],
): Promise<void> {
  const proven = claims
    .map(({ series, ranges }) => ({ series, ranges: ranges.filter(({ from, to }) => from < to) }))
    .filter(({ ranges }) => ranges.length > 0)
  if (proven.length === 0) return
  await sql`
    insert into recorder.coverage as c (stream, category, symbol, type, interval, ranges)
    select stream, category, symbol, type, interval, ranges::tstzmultirange
    from unnest(${seriesArrays(proven.map(({ series }) => series))},
      ${proven.map(({ ranges }) => multirangeText(ranges))}::text[]) as k (stream, category, symbol, type, interval, ranges)
    order by stream, category, symbol, type, interval
    on conflict (stream, category, symbol, type, interval) do update
      set ranges = c.ranges + excluded.ranges, updated_at = now()
      where not c.ranges @> excluded.ranges`.execute(db)
}

/** One array for each column that names a series. */
function seriesArrays(series: readonly Series[]): RawBuilder<unknown> {
  const keys = series.map(seriesColumns)
  const names = ['stream', 'category', 'symbol', 'type', 'interval'] as const
  return sql.join(
    names.map(
      (name) => sql`${keys.map((key) => key[name])}::${sql.raw(name === 'category' ? 'market.category' : 'text')}[]`,
    ),
  )
}

/**
 * Makes other transactions wait that read the coverage of these series to change it; ends with the transaction. Resolves to
 * what is proven of each, ascending: the ranges that end later than its `since`, and the one before them.
 *
 * @param wanted each series at most once
 */
export async function lockCoverage(
  db: Kysely<Database>,
  wanted: readonly { readonly series: Series; readonly since: TimeMs | null }[],
): Promise<TimeRange[][]> {
  const since = wanted.map(({ since: time }) => (time === null ? '-infinity' : new Date(time).toISOString()))
  const keys = sql`unnest(${seriesArrays(wanted.map(({ series }) => series))}, ${since}::timestamptz[])
    with ordinality as k (stream, category, symbol, type, interval, since, place)`
  const lockRows = async () => {
    // In one order everywhere, so that two transactions never wait for each other.
    const { rows } = await sql<{ place: number; ranges: readonly (readonly [TimeMs, TimeMs])[] }>`
      select k.place::int, ${rangesAsJson(sql`(
        select range_agg(r) from unnest(c.ranges) as r
        where upper(r) >= coalesce(
          (select max(upper(before)) from unnest(c.ranges) as before where upper(before) <= k.since), '-infinity'))`)} as ranges
      from ${keys} join recorder.coverage c using (stream, category, symbol, type, interval)
      order by c.stream, c.category, c.symbol, c.type, c.interval
      for update of c`.execute(db)
    return rows
  }
  let rows = await lockRows()
  if (rows.length < wanted.length) {
    // Of some nothing is proven yet: a row that says so.
    await sql`
      insert into recorder.coverage (stream, category, symbol, type, interval, ranges)
      select stream, category, symbol, type, interval, '{}' from ${keys}
      order by stream, category, symbol, type, interval
      on conflict do nothing`.execute(db)
    rows = await lockRows()
  }
  const byPlace = new Map(rows.map(({ place, ranges }) => [place, toRanges(ranges)]))
  return wanted.map((_, index) => byPlace.get(index + 1) ?? [])
}

export function multirange(ranges: readonly TimeRange[]) {
  return sql`${multirangeText(ranges)}::tstzmultirange`
}

/** A multirange as the server reads it. */
export function multirangeText(ranges: readonly TimeRange[]): string {
  const text = ranges.map(({ from, to }) => `[${new Date(from).toISOString()},${new Date(to).toISOString()})`)
  return `{${text.join(',')}}`
}

/** The ranges of a multirange, ascending, as `toRanges` takes them. */
export function rangesAsJson(ranges: RawBuilder<unknown>): RawBuilder<unknown> {
  const ms = (bound: RawBuilder<unknown>) => sql`(extract(epoch from ${bound}) * 1000)::bigint`
  return sql`(select coalesce(json_agg(json_build_array(${ms(sql`lower(r)`)}, ${ms(sql`upper(r)`)}) order by r), '[]')
    from unnest(${ranges}) as r)`
}

export function toRanges(pairs: readonly (readonly [TimeMs, TimeMs])[]): TimeRange[] {
  return pairs.map(([from, to]) => ({ from, to }))
}
