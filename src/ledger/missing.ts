import { type Kysely, sql } from 'kysely'
import type { CandleSeries } from '../market/candle.js'
import { normalized, type TimeRange } from '../market/timeRange.js'
import { addMs, largest, type ServiceMs, smallest } from '../market/values.js'
import { type ColumnSpec, rowsFrom } from '../db/columns.js'
import { callFunction } from '../db/database.js'
import {
  addKnown,
  callOfCandles,
  hasVerdict,
  knownOf,
  multirange,
  multirangeText,
  rangesAsJson,
  toRanges,
} from './verdicts.js'
import type { Database } from '../db/schema.js'
import { candleStream, keyColumns, ofSeries, sameSeries, type Series, seriesValues } from '../db/series.js'

/** A range of a series of candles. */
export interface SeriesRange {
  readonly series: CandleSeries
  readonly range: TimeRange
}

interface MissingCandles extends SeriesRange {
  /** Ranges that are neither covered nor final nor confirmed as empty, ascending. */
  readonly missing: readonly TimeRange[]
  /** Opening time of the oldest covered candle of the series; null if nothing is covered. */
  readonly oldestKnown: ServiceMs | null
}

const columns: readonly ColumnSpec[] = [...keyColumns, { name: 'from', kind: 'time' }, { name: 'to', kind: 'time' }]

/**
 * Finds the missing parts of each requested range, in the order of the requests, with one statement.
 * `now` leaves out ranges that were requested in vain and need not be requested again yet.
 */
export async function missingCandles(
  db: Kysely<Database>,
  requested: readonly SeriesRange[],
  options: { readonly now?: ServiceMs } = {},
): Promise<MissingCandles[]> {
  if (requested.length === 0) return []
  const keys = requested.map(({ series: { category, symbol, type, interval }, range }) => {
    return ['candles', category, symbol, type, interval, range.from, range.to]
  })
  const source = rowsFrom(keys, columns, (key, column) => key[column] ?? null)
  const { rows } = await sql<{ place: number; from: ServiceMs | null; to: ServiceMs | null; oldest: ServiceMs | null }>`
    select s.ordinality as place, lower(m.range) as "from", upper(m.range) as "to",
      least(lower(c.ranges), lower(f.ranges)) as oldest
    from ${source} as s
    left join recorder.ledger c on ${sameSeries('c', 's')} and ${hasVerdict('recorded', 'c')}
    left join recorder.ledger e on ${sameSeries('e', 's')} and ${hasVerdict('before the beginning', 'e')}
    left join recorder.ledger f on ${sameSeries('f', 's')} and ${hasVerdict('final', 'f')}
    left join lateral unnest(
      case when s.from < s.to then tstzmultirange(tstzrange(s.from, s.to)) else '{}' end
        - coalesce(c.ranges, '{}') - coalesce(e.ranges, '{}') - coalesce(f.ranges, '{}') - coalesce((
          -- A range is requested again after one hour, then after four, and so on, up to a day.
          select range_agg(r) from recorder.ledger u cross join lateral unnest(u.ranges) as r
          where ${options.now !== undefined} and ${sameSeries('u', 's')} and ${hasVerdict('unanswered', 'u')}
            and u.noted_at + least(interval '1 hour' * power(4, least(u.times, 10) - 1), interval '1 day') > ${new Date(options.now ?? 0)}), '{}')
    ) as m(range) on true
    order by 1, 2`.execute(db)
  const results = requested.map(({ series, range }) => ({
    series,
    range,
    missing: [] as TimeRange[],
    oldestKnown: null as ServiceMs | null,
  }))
  for (const { place, from, to, oldest } of rows) {
    const result = results[place - 1]
    if (result === undefined) continue
    result.oldestKnown = oldest
    if (from !== null && to !== null) result.missing.push({ from, to })
  }
  return results
}

/**
 * Finds the final parts of each range, in the order given, with one statement. Their rows have left: nothing stores or
 * fetches them again.
 */
export async function finalParts(
  db: Kysely<Database>,
  asked: readonly { readonly series: Series; readonly range: TimeRange }[],
): Promise<TimeRange[][]> {
  const found = asked.map((): TimeRange[] => [])
  if (asked.length === 0) return found
  const keys = asked.map(({ series, range }) => [...seriesValues(series), range.from, range.to])
  const { rows } = await sql<TimeRange & { place: number }>`
    select s.ordinality as place, lower(r) as "from", upper(r) as "to"
    from ${rowsFrom(keys, columns, (key, column) => key[column] ?? null)} as s
    join recorder.ledger f on ${sameSeries('f', 's')} and ${hasVerdict('final', 'f')} and f.noted_at > s.from
    cross join lateral unnest(f.ranges * tstzmultirange(tstzrange(s.from, greatest(s.from, s.to)))) as r
    order by 1, 2`.execute(db)
  for (const { place, from, to } of rows) found[place - 1]?.push({ from, to })
  return found
}

/** Leaves out rows of a series that have left the database for good. */
export async function withoutFinal<Row extends { readonly ts: ServiceMs }>(
  db: Kysely<Database>,
  series: Series,
  rows: readonly Row[],
): Promise<readonly Row[]> {
  if (rows.length === 0) return rows
  const times = rows.map(({ ts }) => ts)
  const range = { from: smallest(times), to: addMs(largest(times), 1) }
  const [final = []] = await finalParts(db, [{ series, range }])
  if (final.length === 0) return rows
  return rows.filter(({ ts }) => !final.some(({ from, to }) => ts >= from && ts < to))
}

/** Finds the parts of a range that are neither recorded nor final. */
export async function missingEvents(db: Kysely<Database>, series: Series, range: TimeRange): Promise<TimeRange[]> {
  if (range.from >= range.to) return []
  const { rows } = await sql<{ ranges: [ServiceMs, ServiceMs][] }>`
    select ${rangesAsJson('missing')} as ranges from (
      select ${multirange([range])} - coalesce(range_agg(r), '{}') as missing
      from recorder.ledger c cross join lateral unnest(c.ranges) as r
      where ${ofSeries(series, 'c')} and c.verdict in ('recorded', 'final')
    ) as m`.execute(db)
  return toRanges(rows[0]?.ranges ?? [])
}

/** Notes as gaps what is neither recorded nor final of ranges, and in no gap yet. */
export async function noteMissing(
  db: Kysely<Database>,
  series: Series,
  ranges: readonly TimeRange[],
  reason: string,
): Promise<void> {
  for (const range of ranges) {
    const missing = await missingEvents(db, series, range)
    if (missing.length === 0) continue
    await callFunction(db, 'recorder.note_unknown', ...seriesValues(series), multirangeText(missing), reason)
  }
}

/** Records ranges before the beginning of a series. They are confirmed to hold no candles. */
export async function addEmptyRanges(
  db: Kysely<Database>,
  series: CandleSeries,
  ranges: readonly TimeRange[],
): Promise<void> {
  if (ranges.length > 0) await addKnown(db, candleStream(series), 'before the beginning', multirangeText(ranges))
}

/**
 * Marks open gaps of a series as repaired if everything in them is known. Deletes gaps before the beginning of the
 * series, because nothing was missing there.
 */
export async function settleGaps(db: Kysely<Database>, series: CandleSeries): Promise<void> {
  await callOfCandles(db, 'settle_gaps', series)
}

/**
 * Records what is missing after ranges were requested, and settles all open gaps of the series. `left` replaces open
 * gaps that the requested ranges touch. Of these, only what is claimed is repaired.
 *
 * @param left missing parts of the requested ranges and of the open gaps that they touch
 */
export async function replaceGaps(
  db: Kysely<Database>,
  series: CandleSeries,
  asked: readonly TimeRange[],
  left: readonly TimeRange[],
  reason: string,
): Promise<void> {
  await callOfCandles(db, 'replace_gaps', series, asked, left, reason)
}

/** Reads the open gaps of a series, ascending. */
export async function openGaps(db: Kysely<Database>, series: CandleSeries): Promise<TimeRange[]> {
  const rows = await db
    .selectFrom('recorder.ledger')
    .select(({ fn }) => ['part as from', fn<ServiceMs>('upper', ['ranges']).as('to')])
    .where(knownOf(candleStream(series), 'missing'))
    .execute()
  return normalized(rows)
}

/** Share of known time without trades from which a series counts as sparse. More silence is then nothing unusual. */
export const sparseShare = 0.05

/**
 * Returns true if `sparseShare` or more of the known time of a series had no trade. Returns true also for a series that
 * is not known at all. More silence of such a series shows nothing.
 */
export async function isSparse(db: Kysely<Database>, series: CandleSeries): Promise<boolean> {
  const { rows } = await sql<{ isSparse: boolean }>`
    select coalesce(sum(length) filter (where verdict <> 'recorded'), 0)
      >= ${sparseShare} * coalesce(sum(length) filter (where verdict = 'recorded'), 0) as "isSparse"
    from (
      select verdict, extract(epoch from upper(r) - lower(r)) as length
      from recorder.ledger cross join lateral unnest(ranges) as r
      where ${ofSeries(candleStream(series))} and verdict in ('recorded', 'silent', 'no trade')
    ) as known`.execute(db)
  return rows[0]?.isSparse ?? true
}

/**
 * Records the parts of the `asked` ranges that got no usable response, in place of the earlier records. Records of
 * `kept` ranges stay unchanged.
 */
export async function replaceUnanswered(
  db: Kysely<Database>,
  series: CandleSeries,
  asked: readonly TimeRange[],
  { fresh, kept = [] }: { readonly fresh: readonly TimeRange[]; readonly kept?: readonly TimeRange[] },
  at: ServiceMs,
): Promise<void> {
  await callOfCandles(db, 'replace_unanswered', series, asked, fresh, kept, at)
}

interface Unanswered extends TimeRange {
  readonly askedAt: ServiceMs
}

/** Reads ranges that touch `ranges` and were requested without a usable response, ascending. */
export async function unansweredRanges(
  db: Kysely<Database>,
  series: CandleSeries,
  ranges: readonly TimeRange[],
): Promise<Unanswered[]> {
  return db
    .selectFrom('recorder.ledger')
    .select(({ fn }) => ['part as from', fn<ServiceMs>('upper', ['ranges']).as('to'), 'noted_at as askedAt'])
    .where(knownOf(candleStream(series), 'unanswered'))
    .where('ranges', '&&', multirange(ranges))
    .orderBy('part')
    .execute()
}
