import { type Kysely, type RawBuilder, sql } from 'kysely'
import type { CandleSeries } from '../market/candle.js'
import type { Category } from '../market/category.js'
import type { TimeRange } from '../market/timeRange.js'
import type { TimeMs } from '../market/values.js'
import { type ColumnSpec, rowsFrom } from '../db/columns.js'
import { recordGap, repairGaps } from './gaps.js'
import { isAskedLately } from './noTrade.js'
import { addingRanges, gapRange, is, knownOf, multirange, rangesAsJson, toRanges } from './verdicts.js'
import type { Database } from '../db/schema.js'
import { candleStream, sameSeries, type Series, seriesColumns } from '../db/series.js'

/** A range of a series, and what is known about it. */
export interface SeriesRange {
  readonly series: CandleSeries
  readonly range: TimeRange
}

interface MissingCandles extends SeriesRange {
  /** Neither covered nor confirmed empty, ascending. */
  readonly missing: readonly TimeRange[]
  /** Opening time of the oldest covered candle of the series; null where nothing is covered. */
  readonly oldestKnown: TimeMs | null
}

const columns: readonly ColumnSpec[] = [
  { name: 'stream', kind: 'text' },
  { name: 'category', kind: 'category' },
  { name: 'symbol', kind: 'text' },
  { name: 'type', kind: 'text' },
  { name: 'interval', kind: 'text' },
  { name: 'from', kind: 'time' },
  { name: 'to', kind: 'time' },
]

/**
 * Finds the missing parts of each requested range, in the order of the requests, with one statement.
 * `leaveOutAskedLately` leaves out ranges that were requested in vain and need not be requested again yet.
 */
export async function missingCandles(
  db: Kysely<Database>,
  requested: readonly SeriesRange[],
  options: { readonly leaveOutAskedLately?: boolean } = {},
): Promise<MissingCandles[]> {
  if (requested.length === 0) return []
  const source = rowsFrom(requested, columns, ({ series, range }, column) => {
    const { category, symbol, type, interval } = series
    return ['candles', category, symbol, type, interval, range.from, range.to][column] ?? null
  })
  const askedLately = sql`(
    select range_agg(r) from recorder.known u cross join lateral unnest(u.ranges) as r
    where ${sameSeries('u', 's')} and ${is('unanswered', 'u')} and ${isAskedLately})`
  const leftOut = options.leaveOutAskedLately === true ? sql`coalesce(${askedLately}, '{}')` : sql`'{}'`
  const { rows } = await sql<{ place: number; from: TimeMs | null; to: TimeMs | null; oldest: TimeMs | null }>`
    select s.ordinality as place, lower(m.range) as "from", upper(m.range) as "to", lower(c.ranges) as oldest
    from ${source} as s
    left join recorder.known c on ${sameSeries('c', 's')} and ${is('recorded', 'c')}
    left join recorder.known e on ${sameSeries('e', 's')} and ${is('before the beginning', 'e')}
    left join lateral unnest(
      case when s.from < s.to then tstzmultirange(tstzrange(s.from, s.to)) else '{}' end
        - coalesce(c.ranges, '{}') - coalesce(e.ranges, '{}') - ${leftOut}
    ) as m(range) on true
    order by 1, 2`.execute(db)
  const results = requested.map(({ series, range }) => ({
    series,
    range,
    missing: [] as TimeRange[],
    oldestKnown: null as TimeMs | null,
  }))
  for (const { place, from, to, oldest } of rows) {
    const result = results[place - 1]
    if (result === undefined) continue
    result.oldestKnown = oldest
    if (from !== null && to !== null) result.missing.push({ from, to })
  }
  return results
}

/** The parts of a range that are not recorded, of a series whose rows have times of their own. */
export async function missingEvents(db: Kysely<Database>, series: Series, range: TimeRange): Promise<TimeRange[]> {
  if (range.from >= range.to) return []
  const { rows } = await sql<{ ranges: [TimeMs, TimeMs][] }>`
    select ${rangesAsJson(sql`missing`)} as ranges from (
      select ${multirange([range])} - coalesce(range_agg(r), '{}') as missing
      from recorder.known c cross join lateral unnest(c.ranges) as r
      where ${knownOf(series, 'recorded', 'c')}
    ) as m`.execute(db)
  return toRanges(rows[0]?.ranges ?? [])
}

/** Remembers ranges that were confirmed to hold no candles. */
export async function addEmptyRanges(
  db: Kysely<Database>,
  series: CandleSeries,
  ranges: readonly TimeRange[],
): Promise<void> {
  if (ranges.length === 0) return
  const { stream, category, symbol, type, interval } = seriesColumns(candleStream(series))
  await sql`
    insert into recorder.known as k (stream, category, symbol, type, interval, verdict, ranges)
    values (${stream}, ${category}, ${symbol}, ${type}, ${interval}, 'before the beginning', ${multirange(ranges)})
    ${addingRanges}`.execute(db)
}

/** Open gaps of a series that are known in full by now are repaired; those in which there is nothing have been none. */
export async function settleGaps(db: Kysely<Database>, series: CandleSeries): Promise<void> {
  const candles = candleStream(series)
  const isOpen = knownOf(candles, 'missing')
  const empty = sql`
    coalesce((select ranges from recorder.known where ${knownOf(candles, 'before the beginning')}), '{}')`
  await sql`delete from recorder.known where ${isOpen} and ranges <@ ${empty}`.execute(db)
  const recorded = sql`coalesce((select ranges from recorder.known where ${knownOf(candles, 'recorded')}), '{}')`
  await repairGaps(db, sql`${isOpen} and ranges <@ (${recorded} + ${empty})`)
}

/**
 * Books what is missing after ranges were asked for. Open gaps that these ranges touch are replaced: one of which something is
 * still missing by what that is, among `left`; the others are repaired.
 *
 * @param left what is missing of the ranges and of the open gaps that they touch
 */
export async function replaceGaps(
  db: Kysely<Database>,
  series: CandleSeries,
  asked: readonly TimeRange[],
  left: readonly TimeRange[],
  reason: string,
): Promise<void> {
  const candles = candleStream(series)
  const isTouched = sql`${knownOf(candles, 'missing')} and ranges && ${multirange(asked)}`
  await repairGaps(db, sql`${isTouched} and not ranges <@ ${multirange(left)}`)
  await sql`
    delete from recorder.known
    where ${isTouched} and not exists (select from unnest(${multirange(left)}) as r where tstzmultirange(r) = ranges)`.execute(
    db,
  )
  for (const range of left) await recordGap(db, { ...candles, range, reason })
}

/** The open gaps of a series, ascending. */
export async function openGaps(db: Kysely<Database>, series: CandleSeries): Promise<TimeRange[]> {
  const { rows } = await sql<TimeRange>`
    select lower(r) as "from", upper(r) as "to"
    from unnest((
      select range_agg(${gapRange()}) from recorder.known where ${knownOf(candleStream(series), 'missing')})) as r
    order by 1`.execute(db)
  return rows
}

/** Takes back what was proven to be empty or silent of an instrument's old listing. `relisted` names rows of the new ones. */
export async function forgetEmptiness(
  db: Kysely<Database>,
  category: Category,
  relisted: RawBuilder<unknown>,
): Promise<void> {
  await sql`
    delete from recorder.known e using (${relisted}) as relisted
    where e.stream = 'candles' and e.category = ${category} and e.symbol = relisted.symbol
      and e.verdict in ('before the beginning', 'unanswered')`.execute(db)
}
