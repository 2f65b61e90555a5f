import { expressionBuilder, type Kysely, type RawBuilder, sql } from 'kysely'
import { intervalMs } from '../../market/candle.js'
import type { Category } from '../../market/category.js'
import type { StreamName } from '../../market/stream.js'
import type { TimeRange } from '../../market/timeRange.js'
import { dayMs, type ServiceMs } from '../../market/values.js'
import { duration, instant, rowsFrom } from '../../db/columns.js'
import type { Database, GapState } from '../../db/schema.js'
import { candlesOf, keyColumns, ofCandles, ofSeries, sameSeries, type Series, seriesOf } from '../../db/series.js'
import { timeRange } from '../verdicts.js'

/** How much of one day of a series is proven, and how much is known to be missing. */
export interface SeriesDay {
  /** Beginning of the day, 00:00 UTC. */
  readonly day: ServiceMs
  readonly coveredMs: number
  /** End of the last proven stretch of the day; null without one. */
  readonly coveredTo: ServiceMs | null
  readonly openGapMs: number
  readonly lostMs: number
  /** True if any row of the day is stored. Always true for streams other than candles and fills. */
  readonly hasRows: boolean
}

interface SeriesDays {
  readonly series: Series
  readonly days: readonly SeriesDay[]
}

interface SeriesFilter {
  /** Part of the symbol, in any case. An empty text matches all symbols. */
  readonly text: string
  readonly stream?: StreamName | undefined
  readonly category?: Category | undefined
  /** The exact symbol. */
  readonly symbol?: string | undefined
  readonly limit: number
  readonly offset: number
}

/**
 * Reads the series with known ranges or gaps, day by day (UTC) over the range. Series with gaps in the range come
 * first. `total` is the number of all matching series.
 */
export async function coverageCalendar(
  db: Kysely<Database>,
  filter: SeriesFilter,
  range: TimeRange,
): Promise<{ series: SeriesDays[]; total: number }> {
  const found = await findSeries(db, filter, range)
  if (found.rows.length === 0) return { series: [], total: found.total }
  const keys = rowsFrom(found.rows, keyColumns, (key, column) => key[keyColumns[column]?.name ?? 'stream'])
  // The last 24-hour day may end after the range. The planner leaves out chunks by bounds that fit all days.
  const end = range.from + Math.ceil((range.to - range.from) / dayMs) * dayMs
  const { rows } = await sql<SeriesDay & { place: number }>`
    with known as (
      select k.*,
        coalesce((select c.ranges from recorder_page.coverage c where ${sameSeries('c', 'k')}), '{}'::tstzmultirange) as covered,
        g.open_gaps, g.lost_gaps
      from ${keys} as k cross join lateral (
        select coalesce(range_agg(range) filter (where state = 'open'), '{}'::tstzmultirange) as open_gaps,
          coalesce(range_agg(range) filter (where state = 'lost'), '{}'::tstzmultirange) as lost_gaps
        from recorder_page.gap where ${sameSeries('gap', 'k')}
      ) as g
    )
    select k.ordinality as place, d.day, ${overlapMs('covered')} as "coveredMs",
      upper(${overlap('covered')}) as "coveredTo", ${overlapMs('open_gaps')} as "openGapMs",
      ${overlapMs('lost_gaps')} as "lostMs",
      case k.stream
        when 'candles' then exists (
          select from market.candles m
          where m.category = k.category and m.symbol = k.symbol and m.type = nullif(k.type, '')::market.candle_type
            and m.interval = nullif(k.interval, '')::market.candle_interval
            and m.open_time >= d.day and m.open_time < d.day + interval '1 day'
            and m.open_time >= ${instant(range.from)} and m.open_time < ${instant(end)})
        when 'fills' then exists (
          select from market.fills m
          where m.category = k.category and m.symbol = k.symbol
            and m.ts >= d.day and m.ts < d.day + interval '1 day'
            and m.ts >= ${instant(range.from)} and m.ts < ${instant(end)})
        else true
      end as "hasRows"
    from known k
    cross join generate_series(${instant(range.from)}, ${instant(range.to)} - interval '1 microsecond', interval '24 hours') as d (day)
    order by 1, 2`.execute(db)
  const series = found.rows.map((key, place) => ({
    series: seriesOf(key),
    days: rows.filter((row) => row.place === place + 1).map(({ place: _, ...day }) => day),
  }))
  return { series, total: found.total }
}

interface KnownGap {
  readonly from: ServiceMs
  readonly to: ServiceMs
  readonly reason: string
  readonly state: GapState
  readonly detectedAt: ServiceMs
}

interface SeriesRanges {
  /** Proven ranges, cut to the requested range, ascending. */
  readonly covered: readonly TimeRange[]
  readonly gaps: readonly KnownGap[]
}

/** Largest number of ranges, and of gaps, in one response. */
const maxRanges = 1000

/** Resolves to the first proven time of a series from a time on; null without one. */
export async function claimedFrom(db: Kysely<Database>, series: Series, from: ServiceMs): Promise<ServiceMs | null> {
  const { rows } = await sql<{ first: ServiceMs | null }>`
    select lower(ranges * tstzmultirange(tstzrange(${instant(from)}, null))) as first
    from recorder_page.coverage where ${ofSeries(series)}`.execute(db)
  return rows[0]?.first ?? null
}

/** Reads the proven ranges and the known gaps of one series within a range. Each list has the newest 1,000. */
export async function seriesRanges(db: Kysely<Database>, series: Series, range: TimeRange): Promise<SeriesRanges> {
  const within = timeRange(range)
  const [covered, gaps] = await Promise.all([
    sql<TimeRange>`
      select lower(r) as "from", upper(r) as "to"
      from recorder_page.coverage c cross join lateral unnest(c.ranges * tstzmultirange(${within})) as r
      where ${ofSeries(series)}
      order by 1 desc limit ${maxRanges}`.execute(db),
    db
      .selectFrom('recorder_page.gap')
      .select(({ fn }) => [fn<ServiceMs>('lower', ['range']).as('from'), fn<ServiceMs>('upper', ['range']).as('to')])
      .select(['reason', 'state', 'detected_at as detectedAt'])
      .where(ofSeries(series))
      .where('range', '&&', within)
      .orderBy('from', 'desc')
      .limit(maxRanges)
      .execute(),
  ])
  return { covered: covered.rows.toReversed(), gaps: gaps.toReversed() }
}

/** Finds the parts of proven ranges without candles: nothing was traded in them, or nothing was listed. */
export async function emptyRanges(db: Kysely<Database>, series: Series, range: TimeRange): Promise<TimeRange[]> {
  const candles = candlesOf(series)
  if (candles === null) return []
  const lengthMs = intervalMs[candles.interval]
  const { rows } = await sql<TimeRange>`
    select lower(r) as "from", upper(r) as "to"
    from unnest(
      coalesce((
        select c.ranges * tstzmultirange(${timeRange(range)}) from recorder_page.coverage c where ${ofSeries(series)}
      ), '{}'::tstzmultirange)
      - coalesce((
        select range_agg(tstzrange(open_time, open_time + ${duration(lengthMs)}))
        from market.candles
        where ${ofCandles(candles)} and open_time > ${instant(range.from - lengthMs)} and open_time < ${instant(range.to)}
      ), '{}'::tstzmultirange)
    ) as r
    order by 1 limit ${maxRanges}`.execute(db)
  return rows
}

async function findSeries(
  db: Kysely<Database>,
  { text, stream, category, symbol, limit, offset }: SeriesFilter,
  range: TimeRange,
): Promise<{ rows: Series[]; total: number }> {
  const eb = expressionBuilder<Database, 'recorder_page.coverage'>()
  const named = Object.entries({ stream, category, symbol }).filter(([, value]) => value !== undefined)
  const matches = eb.and([
    eb.and(Object.fromEntries(named)),
    eb(eb.fn<number>('strpos', [eb.fn('upper', ['symbol']), eb.val(text.toUpperCase())]), '>', 0),
  ])
  const rows = await db
    .with('gaps', (query) =>
      query
        .selectFrom('recorder_page.gap')
        .select(keyNames)
        .select(({ fn }) =>
          fn
            .countAll<number>()
            .filterWhere('state', '<>', 'repaired')
            .filterWhere('range', '&&', timeRange(range))
            .as('count'),
        )
        .where(matches)
        .groupBy(keyNames),
    )
    .with('known', (query) =>
      query
        .selectFrom('recorder_page.coverage')
        .select(keyNames)
        .where(matches)
        .union(query.selectFrom('gaps').select(keyNames)),
    )
    .selectFrom('known')
    .leftJoin('gaps', (join) => join.on(sameSeries('gaps', 'known')))
    .selectAll('known')
    .select(({ fn }) => fn.countAll<number>().over().as('total'))
    .orderBy((eb) => eb.fn.coalesce('gaps.count', eb.lit(0)), 'desc')
    .orderBy('known.symbol')
    .orderBy('known.category')
    .orderBy('known.stream')
    .orderBy('known.type')
    .orderBy('known.interval')
    .limit(limit)
    .offset(offset)
    .execute()
  return { rows, total: rows[0]?.total ?? 0 }
}

const keyNames = keyColumns.map(({ name }) => name)

/** Returns SQL for the part of the day `d.day` that a multirange of `known` covers, in milliseconds. */
function overlapMs(column: string): RawBuilder<unknown> {
  return sql`coalesce((
    select sum(extract(epoch from upper(r) - lower(r)))::float8 * 1000
    from unnest(${overlap(column)}) as r), 0)`
}

function overlap(column: string): RawBuilder<unknown> {
  return sql`(k.${sql.ref(column)} * tstzmultirange(tstzrange(d.day, d.day + interval '1 day')))`
}
