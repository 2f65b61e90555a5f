import { type Kysely, type RawBuilder, sql } from 'kysely'
import { type CandleSeries, intervalMs } from '../market/candle.js'
import type { TimeRange } from '../market/timeRange.js'
import type { TimeMs } from '../market/values.js'
import { addCoverage } from './coverage.js'
import { addingRanges, is, knownOf, multirange, rangesAsJson, toRanges } from './verdicts.js'
import { toDate } from '../db/columns.js'
import type { Database } from '../db/schema.js'
import { candleStream, ofSeries, seriesColumns } from '../db/series.js'

/** Places of candles in a part. */
const placesPerPart = 1_440

/**
 * Claims that nothing was traded in these ranges, as far as no candle of them is known. Call it in the transaction that stores
 * the response, after the coverage of its candles was added: that makes other writers of the series wait.
 */
export async function addNoTrade(
  db: Kysely<Database>,
  series: CandleSeries,
  silence: readonly TimeRange[],
): Promise<void> {
  if (silence.length === 0) return
  const candles = candleStream(series)
  const { stream, category, symbol, type, interval } = seriesColumns(candles)
  const partLength = sql`make_interval(secs => ${(placesPerPart * intervalMs[series.interval]) / 1000})`
  await sql`
    insert into recorder.known as k (stream, category, symbol, type, interval, verdict, part, ranges)
    select ${stream}, ${category}, ${symbol}, ${type}, ${interval}, 'silent',
      date_bin(${partLength}, lower(r), timestamptz 'epoch') as begins, range_agg(r)
    from unnest(${multirange(silence)} - coalesce((
      select ranges from recorder.known where ${knownOf(candles, 'recorded')}), '{}')) as r
    group by begins
    on conflict (stream, category, symbol, type, interval, verdict, part) do update
      set ranges = k.ranges + excluded.ranges, noted_at = now()
      where not k.ranges @> excluded.ranges`.execute(db)
  await addCoverage(db, candles, silence)
}

/**
 * Takes back that nothing was traded where candles have come after all, and notes these as gaps that are repaired: nobody knew
 * of them before. Resolves to how many candles those are.
 */
export async function takeBackNoTrade(
  db: Kysely<Database>,
  series: CandleSeries,
  filled: readonly TimeRange[],
): Promise<number> {
  if (filled.length === 0) return 0
  const { rows } = await sql<{ count: number }>`
    with ${takingBack(series, filled)}
    select ${turnedUp} as count`.execute(db)
  return rows[0]?.count ?? 0
}

/** How many candles a statement with `takingBack` has found. */
export const turnedUp = sql`(select coalesce(sum(count), 0)::bigint from counted)`

/** Builds parts of a statement that take back silence where candles have come. `filled` holds at least one range. */
export function takingBack(series: CandleSeries, filled: readonly TimeRange[]): RawBuilder<unknown> {
  const [first] = filled
  const last = filled.at(-1)
  if (first === undefined || last === undefined) throw new RangeError('no candle, nothing to take back')
  const came = multirange(filled)
  const candles = candleStream(series)
  return sql`
    touched as (
      select verdict, part, ranges * ${came} as late
      from recorder.known
      where ${ofSilence(series)} and part < ${toDate(last.to)}::timestamptz
        and upper(ranges) > ${toDate(first.from)}::timestamptz and ranges && ${came}
    ), counted as (
      select range, round(extract(epoch from upper(range) - lower(range)) * 1000 / ${intervalMs[series.interval]}) as count
      from touched cross join lateral unnest(late) as range
    ), corrected as (
      update recorder.known k set ranges = k.ranges - ${came}
      from touched where ${ofSeries(candles, 'k')} and k.verdict = touched.verdict and k.part = touched.part
    ), noted as (
      insert into recorder.known as k
        (stream, category, symbol, type, interval, verdict, part, ranges, reason, settled_at)
      select 'candles', ${series.category}, ${series.symbol}, ${series.type}, ${series.interval}, 'repaired',
        lower(range), tstzmultirange(range),
        'the service left these candles out at first, as if nothing had been traded, and gave them later', now()
      from counted ${addingRanges}
    )`
}

/** Where nothing was traded, confirmed or not. */
function ofSilence(series: CandleSeries): RawBuilder<unknown> {
  return sql`${ofSeries(candleStream(series))} and verdict in ('silent', 'no trade')`
}

/** From this share of a series' known time on without a trade, one more silent stretch is nothing out of the ordinary. */
const sparseShare = 0.05

/**
 * Returns true if `sparseShare` or more of the known time of a series had no trade. Returns true also for a series that
 * is not known at all. More silence of such a series shows nothing.
 */
export async function isSparse(db: Kysely<Database>, series: CandleSeries): Promise<boolean> {
  const length = (ranges: ReturnType<typeof sql>) => sql`
    (select sum(extract(epoch from upper(r) - lower(r))) from unnest(${ranges}) as r)`
  const { rows } = await sql<{ isSparse: boolean }>`
    select coalesce((
      select sum(${length(sql`ranges`)}) from recorder.known where ${ofSilence(series)}
    ), 0) >= ${sparseShare} * coalesce(${length(sql`
      (select ranges from recorder.known where ${knownOf(candleStream(series), 'recorded')})`)}, 0) as "isSparse"`.execute(
    db,
  )
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
): Promise<void> {
  const candles = candleStream(series)
  const { stream, category, symbol, type, interval } = seriesColumns(candles)
  const ranges = multirange(fresh)
  const isUnansweredIn = (touched: RawBuilder<unknown>) =>
    sql`${knownOf(candles, 'unanswered', 'u')} and u.ranges && ${touched}`
  if (fresh.length > 0)
    await sql`
    insert into recorder.known as k (stream, category, symbol, type, interval, verdict, part, ranges, times)
    select ${stream}, ${category}, ${symbol}, ${type}, ${interval}, 'unanswered', lower(r), tstzmultirange(r),
      1 + coalesce((select max(times) from recorder.known u where ${isUnansweredIn(sql`r`)}), 0)
    from unnest(${ranges}) as r
    on conflict (stream, category, symbol, type, interval, verdict, part) do update
      set ranges = excluded.ranges, noted_at = excluded.noted_at, times = excluded.times`.execute(db)
  await sql`
    delete from recorder.known u
    where ${isUnansweredIn(multirange(asked))}
      and not exists (
        select from unnest(array[${ranges}, ${multirange(kept)}]) as stays, unnest(stays) as r where tstzmultirange(r) = u.ranges)`.execute(
    db,
  )
}

interface Unanswered extends TimeRange {
  readonly askedAt: TimeMs
}

/** Reads ranges that touch `ranges` and were requested without a usable response, ascending. */
export async function unansweredRanges(
  db: Kysely<Database>,
  series: CandleSeries,
  ranges: readonly TimeRange[],
): Promise<Unanswered[]> {
  const { rows } = await sql<Unanswered>`
    select part as "from", upper(ranges) as "to", noted_at as "askedAt" from recorder.known
    where ${knownOf(candleStream(series), 'unanswered')} and ranges && ${multirange(ranges)} order by 1`.execute(db)
  return rows
}

/**
 * Reads ranges that were requested once in vain, before `before`, and not again since. The earliest request comes
 * first.
 */
export async function askedOnce(
  db: Kysely<Database>,
  { before, limit }: { readonly before: TimeMs; readonly limit: number },
): Promise<{ readonly series: CandleSeries; readonly range: TimeRange }[]> {
  const { rows } = await sql<CandleSeries & TimeRange>`
    select category, symbol, type, interval, part as "from", upper(ranges) as "to" from recorder.known
    where ${is('unanswered')} and times = 1 and noted_at < ${toDate(before)}::timestamptz
    order by noted_at limit ${limit}`.execute(db)
  return rows.map(({ from, to, ...series }) => ({ series, range: { from, to } }))
}

/** Returns true if any of the ranges was requested in vain before. */
export async function isUnanswered(
  db: Kysely<Database>,
  series: CandleSeries,
  ranges: readonly TimeRange[],
): Promise<boolean> {
  const { rows } = await sql`
    select from recorder.known
    where ${knownOf(candleStream(series), 'unanswered')} and ranges && ${multirange(ranges)} limit 1`.execute(db)
  return rows.length > 0
}

/**
 * True when a range `u`, requested in vain, need not be requested again yet. The wait is one hour, then four, up to a
 * day.
 */
export const isAskedLately = sql`u.noted_at + least(interval '1 hour' * power(4, least(u.times, 10) - 1), interval '1 day') > now()`

/** Parts with silence that nobody has looked at again, and that were last added to before `before`; oldest first. */
export async function unconfirmedParts(
  db: Kysely<Database>,
  { before, limit }: { readonly before: TimeMs; readonly limit: number },
): Promise<{ readonly series: CandleSeries; readonly silent: readonly TimeRange[] }[]> {
  const { rows } = await sql<CandleSeries & { ranges: [TimeMs, TimeMs][] }>`
    select category, symbol, type, interval, ${rangesAsJson(sql`ranges`)} as ranges
    from recorder.known
    where ${is('silent')} and not isempty(ranges) and noted_at < ${toDate(before)}::timestamptz
    order by noted_at limit ${limit}`.execute(db)
  return rows.map(({ ranges, ...series }) => ({ series, silent: toRanges(ranges) }))
}

/** Notes that these ranges were looked at once more: what of them still has no trade is confirmed. */
export async function confirmNoTrade(
  db: Kysely<Database>,
  series: CandleSeries,
  ranges: readonly TimeRange[],
): Promise<void> {
  const seen = multirange(ranges)
  const silent = knownOf(candleStream(series), 'silent', 's')
  await sql`
    with seen as (
      select * from recorder.known s where ${silent} and ranges && ${seen} for update
    ), left_over as (
      update recorder.known s set ranges = s.ranges - ${seen} from seen where ${silent} and s.part = seen.part
    )
    insert into recorder.known as k (stream, category, symbol, type, interval, verdict, part, ranges)
    select stream, category, symbol, type, interval, 'no trade', part, ranges * ${seen} from seen ${addingRanges}`.execute(
    db,
  )
  await sql`delete from recorder.known s where ${silent} and isempty(ranges)`.execute(db)
}

/** Puts off the next look at the silence in ranges that were just looked at, whatever came of it. */
export async function putOffLook(
  db: Kysely<Database>,
  series: CandleSeries,
  asked: readonly TimeRange[],
): Promise<void> {
  await sql`
    update recorder.known set noted_at = now()
    where ${knownOf(candleStream(series), 'silent')} and ranges && ${multirange(asked)}`.execute(db)
}
