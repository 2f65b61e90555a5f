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
  const proven = ranges.filter(({ from, to }) => from < to)
  if (proven.length === 0) return
  const { stream, category, symbol, type, interval } = seriesColumns(series)
  await sql`
    insert into recorder.coverage as c (stream, category, symbol, type, interval, ranges)
    values (${stream}, ${category}, ${symbol}, ${type}, ${interval}, ${multirange(proven)})
    on conflict (stream, category, symbol, type, interval) do update
      set ranges = c.ranges + excluded.ranges, updated_at = now()
      where not c.ranges @> excluded.ranges`.execute(db)
}

/** Makes other transactions wait that read the coverage of a series to change it. Ends with the transaction. */
export async function lockCoverage(db: Kysely<Database>, series: Series): Promise<void> {
  const { stream, category, symbol, type, interval } = seriesColumns(series)
  const lockRow = () =>
    sql`
    select from recorder.coverage
    where stream = ${stream} and category = ${category} and symbol = ${symbol} and type = ${type} and interval = ${interval}
    for update`.execute(db)
  const { rows } = await lockRow()
  if (rows.length > 0) return
  // Nothing is proven yet: a row that says so.
  await sql`
    insert into recorder.coverage (stream, category, symbol, type, interval, ranges)
    values (${stream}, ${category}, ${symbol}, ${type}, ${interval}, '{}') on conflict do nothing`.execute(db)
  await lockRow()
}

/** The parts of a range that are not proven yet, ascending. */
export async function missingRanges(db: Kysely<Database>, series: Series, range: TimeRange): Promise<TimeRange[]> {
  if (range.from >= range.to) return []
  const { stream, category, symbol, type, interval } = seriesColumns(series)
  const { rows } = await sql<{ from: TimeMs; to: TimeMs }>`
    select lower(r) as "from", upper(r) as "to"
    from unnest(${multirange([range])} - coalesce((
      select ranges from recorder.coverage
      where stream = ${stream} and category = ${category} and symbol = ${symbol}
        and type = ${type} and interval = ${interval}
    ), '{}'::tstzmultirange)) as r
    order by 1`.execute(db)
  return rows.map(({ from, to }) => ({ from, to }))
}

/** The proven ranges of a series, ascending; with `since`, only those that end later, and the one before them. */
export async function coveredRanges(db: Kysely<Database>, series: Series, since?: TimeMs): Promise<TimeRange[]> {
  const { stream, category, symbol, type, interval } = seriesColumns(series)
  const from = since === undefined ? sql`'-infinity'` : sql`${new Date(since).toISOString()}`
  const { rows } = await sql<{ from: TimeMs; to: TimeMs }>`
    select lower(r) as "from", upper(r) as "to"
    from recorder.coverage c cross join lateral unnest(c.ranges) as r
    where stream = ${stream} and category = ${category} and symbol = ${symbol}
      and type = ${type} and interval = ${interval}
      and upper(r) >= coalesce(
        (select max(upper(before)) from unnest(c.ranges) as before where upper(before) <= ${from}::timestamptz),
        '-infinity')
    order by 1`.execute(db)
  return rows.map(({ from, to }) => ({ from, to }))
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
