import { type Kysely, type RawBuilder, sql } from 'kysely'
import { intervalMs } from '../../market/candle.js'
import type { Category } from '../../market/category.js'
import type { StreamName } from '../../market/stream.js'
import type { TimeRange } from '../../market/timeRange.js'
import { dayMs, type TimeMs } from '../../market/values.js'
import { toDate } from '../../db/columns.js'
import type { Database, GapState, SeriesColumns } from '../../db/schema.js'
import { ofCandles, ofSeries, sameSeries, type Series, seriesOf } from '../../db/series.js'

/** How much of a day of a series is proven, and how much of it is known to be missing. */
export interface SeriesDay {
  /** 00:00 UTC. */
  readonly day: TimeMs
  readonly coveredMs: number
  readonly openGapMs: number
  readonly lostMs: number
  /** True when the day has any row. */
  readonly hasRows: boolean
}

interface SeriesDays {
  readonly series: Series
  readonly days: readonly SeriesDay[]
}

interface SeriesFilter {
  /** Part of the symbol, whatever its case; empty for all. */
  readonly text: string
  readonly stream?: StreamName | undefined
  readonly category?: Category | undefined
  /** Exactly this symbol. */
  readonly symbol?: string | undefined
  readonly limit: number
  readonly offset: number
}

/**
 * The series of which something is proven or known to be missing, day by day (UTC) over the range. Those with gaps in the
 * range come first. `total` counts all that match.
 */
export async function coverageCalendar(
  db: Kysely<Database>,
  filter: SeriesFilter,
  range: TimeRange,
): Promise<{ series: SeriesDays[]; total: number }> {
  const found = await findSeries(db, filter, range)
  if (found.rows.length === 0) return { series: [], total: found.total }
  const keys = sql`(values ${sql.join(found.rows.map(keyValues))}) as k (place, stream, category, symbol, type, interval)`
  // Days of 24 hours may end after the range. By bounds that do not depend on the day the planner leaves out chunks.
  const end = range.from + Math.ceil((range.to - range.from) / dayMs) * dayMs
  const isWithin = (time: string) =>
    sql`${sql.ref(`m.${time}`)} >= ${toDate(range.from)}::timestamptz and ${sql.ref(`m.${time}`)} < ${toDate(end)}::timestamptz`
  const { rows } = await sql<SeriesDay & { place: number }>`
    with keys as (select * from ${keys}),
    known as (
      select k.*,
        coalesce((select c.ranges from recorder_page.coverage c where ${sameSeries('c', 'k')}), '{}'::tstzmultirange) as covered,
        ${gapRanges('open')} as open_gaps, ${gapRanges('lost')} as lost_gaps
      from keys k
    )
    select k.place, d.day, ${overlapMs('covered')} as "coveredMs", ${overlapMs('open_gaps')} as "openGapMs",
      ${overlapMs('lost_gaps')} as "lostMs",
      case k.stream
        when 'candles' then exists (
          select from market.candles m
          where m.category = k.category and m.symbol = k.symbol and m.type = nullif(k.type, '')::market.candle_type
            and m.interval = nullif(k.interval, '')::market.candle_interval
            and m.open_time >= d.day and m.open_time < d.day + interval '1 day' and ${isWithin('open_time')})
        when 'fills' then exists (
          select from market.fills m
          where m.category = k.category and m.symbol = k.symbol
            and m.ts >= d.day and m.ts < d.day + interval '1 day' and ${isWithin('ts')})
        else true
      end as "hasRows"
    from known k
    cross join generate_series(${toDate(range.from)}::timestamptz,
      ${toDate(range.to)}::timestamptz - interval '1 microsecond', interval '24 hours') as d (day)
    order by k.place, d.day`.execute(db)
  const series = found.rows.map((key, place) => ({
    series: seriesOf(key),
    days: rows.filter((row) => row.place === place).map(({ place: _, ...day }) => day),
  }))
  return { series, total: found.total }
}

interface KnownGap {
  readonly from: TimeMs
  readonly to: TimeMs
  readonly reason: string
  readonly state: GapState
  readonly detectedAt: TimeMs
}

interface SeriesRanges {
  /** Proven ranges, cut to the requested range, ascending. */
  readonly covered: readonly TimeRange[]
  readonly gaps: readonly KnownGap[]
}

/** Largest number of ranges, and of gaps, in one response. */
const maxRanges = 1000

/** Reads the proven ranges and the known gaps of one series within a range; the newest thousand of each. */
export async function seriesRanges(db: Kysely<Database>, series: Series, range: TimeRange): Promise<SeriesRanges> {
  const within = sql`tstzrange(${toDate(range.from)}::timestamptz, ${toDate(range.to)}::timestamptz)`
  const [covered, gaps] = await Promise.all([
    sql<TimeRange>`
      select lower(r) as "from", upper(r) as "to"
      from recorder_page.coverage c cross join lateral unnest(c.ranges * tstzmultirange(${within})) as r
      where ${ofSeries(series)}
      order by 1 desc limit ${maxRanges}`.execute(db),
    sql<KnownGap>`
      select lower(range) as "from", upper(range) as "to", reason, state, detected_at as "detectedAt"
      from recorder_page.gap
      where ${ofSeries(series)} and range && ${within}
      order by 1 desc limit ${maxRanges}`.execute(db),
  ])
  return { covered: covered.rows.toReversed(), gaps: gaps.rows.toReversed() }
}

/** The parts of the proven ranges of a candle series in which there is no candle: nothing traded, or nothing was listed. */
export async function emptyRanges(db: Kysely<Database>, series: Series, range: TimeRange): Promise<TimeRange[]> {
  const { stream, category, symbol, type, interval } = series
  if (stream !== 'candles' || type === null || interval === null) return []
  const seconds = intervalMs[interval] / 1000
  const { rows } = await sql<TimeRange>`
    select lower(r) as "from", upper(r) as "to"
    from unnest(
      coalesce((
        select c.ranges * tstzmultirange(tstzrange(${toDate(range.from)}::timestamptz, ${toDate(range.to)}::timestamptz))
        from recorder_page.coverage c where ${ofSeries(series)}
      ), '{}'::tstzmultirange)
      - coalesce((
        select range_agg(tstzrange(open_time, open_time + make_interval(secs => ${seconds})))
        from market.candles
        where ${ofCandles({ category, symbol, type, interval })}
          and open_time > ${toDate(range.from - intervalMs[interval])}::timestamptz
          and open_time < ${toDate(range.to)}::timestamptz
      ), '{}'::tstzmultirange)
    ) as r
    order by 1 limit ${maxRanges}`.execute(db)
  return rows
}

async function findSeries(
  db: Kysely<Database>,
  { text, stream, category, symbol, limit, offset }: SeriesFilter,
  range: TimeRange,
): Promise<{ rows: SeriesColumns[]; total: number }> {
  const conditions = [
    ...(text === '' ? [] : [sql`strpos(upper(symbol), ${text.toUpperCase()}) > 0`]),
    ...(stream === undefined ? [] : [sql`stream = ${stream}`]),
    ...(category === undefined ? [] : [sql`category = ${category}`]),
    ...(symbol === undefined ? [] : [sql`symbol = ${symbol}`]),
  ]
  const where = conditions.length === 0 ? sql`true` : sql.join(conditions, sql` and `)
  const { rows } = await sql<SeriesColumns & { total: number }>`
    with gaps as (
      select stream, category, symbol, type, interval,
        count(*) filter (where state <> 'repaired' and range && tstzrange(${toDate(range.from)}::timestamptz,
          ${toDate(range.to)}::timestamptz)) as gaps
      from recorder_page.gap where ${where}
      group by stream, category, symbol, type, interval
    ),
    known as (
      select stream, category, symbol, type, interval from recorder_page.coverage where ${where}
      union
      select stream, category, symbol, type, interval from gaps
    )
    select k.*, count(*) over () as total
    from known k left join gaps using (stream, category, symbol, type, interval)
    order by coalesce(gaps, 0) desc, symbol, category, stream, type, interval
    limit ${limit} offset ${offset}`.execute(db)
  return { rows, total: rows[0]?.total ?? 0 }
}

function keyValues(key: SeriesColumns, place: number): RawBuilder<unknown> {
  const { stream, category, symbol, type, interval } = key
  return sql`(${place}::int, ${stream}::text, ${category}::market.category, ${symbol}::text, ${type}::text, ${interval}::text)`
}

function gapRanges(state: GapState): RawBuilder<unknown> {
  return sql`coalesce((select range_agg(g.range) from recorder_page.gap g
    where ${sameSeries('g', 'k')} and g.state = ${state}), '{}'::tstzmultirange)`
}

/** How much of the day `d.day` a multirange of `known` covers, milliseconds. */
function overlapMs(column: string): RawBuilder<unknown> {
  return sql`coalesce((
    select sum(extract(epoch from upper(r) - lower(r)))::float8 * 1000
    from unnest(k.${sql.ref(column)} * tstzmultirange(tstzrange(d.day, d.day + interval '1 day'))) as r), 0)`
}
