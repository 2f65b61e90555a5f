import { type Kysely, sql } from 'kysely'
import type { CandleSeries } from '../market/candle.js'
import type { Ranges, TimeRange } from '../market/timeRange.js'
import { addMs, dayMs, type ServiceMs } from '../market/values.js'
import { instant } from '../db/columns.js'
import type { Database } from '../db/schema.js'
import { candlesOf, candleStream, sameSeries, seriesValues } from '../db/series.js'
import type { Fraction } from './commonFactor.js'
import { oneEvent } from './restatements.js'
import { callOfCandles, hasVerdict, knownOf, multirange, rangesAsJson, toRanges } from './verdicts.js'

export interface DueReview {
  readonly series: CandleSeries
  /** From the first known candle to the last one. */
  readonly range: TimeRange
  /** End of the stretch to review next; null before the first review. */
  readonly nextTo: ServiceMs | null
  /** When the instrument was listed again after the last review; null if it was not. */
  readonly relistedAt: ServiceMs | null
}

/**
 * Finds series of listed instruments that are due for a review. Their last review was before `before`, or before a new
 * listing of the instrument. New listings come first, then the series that has waited longest.
 */
export async function dueReviews(
  db: Kysely<Database>,
  { before, limit }: { readonly before: ServiceMs; readonly limit: number },
): Promise<DueReview[]> {
  const { rows } = await sql<CandleSeries & TimeRange & Omit<DueReview, 'series' | 'range'>>`
    select c.category, c.symbol, c.type, c.interval, lower(c.ranges) as "from", upper(c.ranges) as "to",
      r.next_to as "nextTo", relisted.at as "relistedAt"
    from recorder.ledger c
    join market.instruments i on i.category = c.category and i.symbol = c.symbol and i.disappeared_at is null
    left join lateral (
      select noted_at as reviewed_at, lower(ranges) as next_to from recorder.ledger r
      where ${sameSeries('r', 'c')} and ${hasVerdict('reviewed', 'r')}
    ) as r on true
    left join lateral (
      select max(h.launch_time) as at
      from (
        select launch_time, valid_from, lag(launch_time) over (order by valid_from) as earlier
        from market.instrument_history where category = c.category and symbol = c.symbol
      ) as h
      where h.launch_time <> h.earlier and h.valid_from > r.reviewed_at
    ) as relisted on true
    where c.stream = 'candles' and c.verdict = 'recorded' and not isempty(c.ranges)
      and (coalesce(r.reviewed_at, lower(c.ranges)) < ${instant(before)} or relisted.at is not null)
    order by relisted.at desc nulls last, r.reviewed_at nulls first limit ${limit}`.execute(db)
  return rows.map(({ from, to, nextTo, relistedAt, ...series }) => ({
    series,
    range: { from, to },
    nextTo,
    relistedAt,
  }))
}

/**
 * Finds series of one-minute candles whose newest ones were not read again since `before`. Late trades change them. Each
 * is known up to `range.to`, which is after `since`.
 */
export async function freshSeries(
  db: Kysely<Database>,
  { since, before, limit }: { readonly since: ServiceMs; readonly before: ServiceMs; readonly limit: number },
): Promise<{ readonly series: CandleSeries; readonly range: TimeRange }[]> {
  const { rows } = await sql<CandleSeries & TimeRange>`
    select c.category, c.symbol, c.type, c.interval, lower(c.ranges) as "from", upper(c.ranges) as "to"
    from recorder.ledger c
    join market.instruments i on i.category = c.category and i.symbol = c.symbol and i.disappeared_at is null
    where c.stream = 'candles' and c.interval = '1m' and c.verdict = 'recorded' and not isempty(c.ranges)
      and upper(c.ranges) > ${instant(since)} and lower(c.ranges) < ${instant(before)}
      and not exists (
        select from recorder.want w
        where w.kind = 'review' and ${sameSeries('w', 'c')} and upper(w.ranges) > ${instant(before)})
    order by c.category, c.symbol limit ${limit}`.execute(db)
  return rows.map(({ from, to, ...series }) => ({ series, range: { from, to } }))
}

/**
 * Finds the series of an instrument to read again after one of them was restated. These are that series and all without
 * the same restatement, each from its first to its last candle.
 */
export async function seriesToReadAgain(
  db: Kysely<Database>,
  { category, symbol, type, interval }: CandleSeries,
  { numerator, denominator }: Fraction,
): Promise<{ readonly series: CandleSeries; readonly range: TimeRange }[]> {
  const { rows } = await sql<CandleSeries & TimeRange>`
    select category, symbol, type, interval, lower(ranges) as "from", upper(ranges) as "to"
    from recorder.ledger c
    where stream = 'candles' and verdict = 'recorded' and category = ${category} and symbol = ${symbol} and not isempty(ranges)
      and (c.type = ${type} and c.interval = ${interval} or not exists (
        select from recorder.restatement r
        where r.category = c.category and r.symbol = c.symbol and r.type = c.type::market.candle_type
          and r.interval = c.interval::market.candle_interval and r.numerator = ${numerator.toString()}::numeric
          and r.denominator = ${denominator.toString()}::numeric and r.detected_at > ${oneEvent}))`.execute(db)
  return rows.map(({ from, to, ...series }) => ({ series, range: { from, to } }))
}

/** A condition for series of the ledger whose instrument has not left the list: the service gives others no more. */
const isListed = sql<boolean>`not exists (
  select from market.instruments i
  where (i.category, i.symbol) = (recorder.ledger.category, recorder.ledger.symbol) and i.disappeared_at is not null)`

/**
 * Reads ranges that were requested once in vain, before `before`, and not again since. The earliest request comes
 * first.
 */
export async function askedOnce(
  db: Kysely<Database>,
  { before, limit }: { readonly before: ServiceMs; readonly limit: number },
): Promise<{ readonly series: CandleSeries; readonly range: TimeRange }[]> {
  const rows = await db
    .selectFrom('recorder.ledger')
    .select(['stream', 'category', 'symbol', 'type', 'interval', 'part as from'])
    .select(({ fn }) => fn<ServiceMs>('upper', ['ranges']).as('to'))
    .where(hasVerdict('unanswered'))
    .where('times', '=', 1)
    .where('noted_at', '<', instant(before))
    .where(isListed)
    .orderBy('noted_at')
    .limit(limit)
    .execute()
  return rows.flatMap(({ from, to, ...columns }) => {
    const series = candlesOf(columns)
    return series === null ? [] : [{ series, range: { from, to } }]
  })
}

/** Time after which a noted silence is looked at once more. An earlier look confirms nothing. */
const silenceAfterMs = dayMs
const silenceNotedUntil = (now: ServiceMs) => instant(addMs(now, -silenceAfterMs))

/** Reads parts with unconfirmed silence that is due for a second look, oldest first. */
export async function unconfirmedParts(
  db: Kysely<Database>,
  { now, limit }: { readonly now: ServiceMs; readonly limit: number },
): Promise<{ readonly series: CandleSeries; readonly silent: readonly TimeRange[] }[]> {
  const rows = await db
    .selectFrom('recorder.ledger')
    .select(['stream', 'category', 'symbol', 'type', 'interval'])
    .select(rangesAsJson('ranges').as('silent'))
    .where(hasVerdict('silent'))
    .where(({ fn, not }) => not(fn<boolean>('isempty', ['ranges'])))
    .where('noted_at', '<=', silenceNotedUntil(now))
    .where(isListed)
    .orderBy('noted_at')
    .limit(limit)
    .execute()
  return rows.flatMap(({ silent, ...columns }) => {
    const series = candlesOf(columns)
    return series === null ? [] : [{ series, silent: toRanges(silent) }]
  })
}

/** Records a review: the silence that it showed again, and the end of the stretch that is due next. */
export async function concludeReview(
  trx: Kysely<Database>,
  series: CandleSeries,
  { ranges, nextTo }: { readonly ranges: readonly TimeRange[]; readonly nextTo: ServiceMs | null },
  silence: Ranges,
  at: ServiceMs,
): Promise<void> {
  await confirmNoTrade(trx, series, silence, at)
  await putOffLook(trx, series, ranges, at)
  await noteReview(trx, series, at, nextTo)
}

/** Records a review that the service refuses: it is due again like one that was answered. */
export async function putOffReview(
  trx: Kysely<Database>,
  series: CandleSeries,
  ranges: readonly TimeRange[],
  at: ServiceMs,
): Promise<void> {
  await putOffLook(trx, series, ranges, at)
  await trx
    .updateTable('recorder.ledger')
    .set(({ eb }) => ({ noted_at: instant(at), times: eb('times', '+', 1) }))
    .where(knownOf(candleStream(series), 'unanswered'))
    .where('ranges', '&&', multirange(ranges))
    .execute()
  await noteReview(trx, series, at, null)
}

/** Notes a second look at ranges. Their parts that still have no trade are confirmed, if they were noted long enough ago. */
export async function confirmNoTrade(
  db: Kysely<Database>,
  series: CandleSeries,
  ranges: readonly TimeRange[],
  at: ServiceMs,
): Promise<void> {
  await callOfCandles(db, 'confirm_no_trade', series, ranges, addMs(at, -silenceAfterMs))
}

/** Delays the next look at silence that was due in ranges that were just requested, whatever the result. */
async function putOffLook(
  db: Kysely<Database>,
  series: CandleSeries,
  asked: readonly TimeRange[],
  at: ServiceMs,
): Promise<void> {
  await db
    .updateTable('recorder.ledger')
    .set({ noted_at: instant(at) })
    .where(knownOf(candleStream(series), 'silent'))
    .where('noted_at', '<=', silenceNotedUntil(at))
    .where('ranges', '&&', multirange(asked))
    .execute()
}

/** Notes that a stretch of a series was reviewed. Without `nextTo`, the next stretch stays as it was. */
async function noteReview(
  db: Kysely<Database>,
  series: CandleSeries,
  at: ServiceMs,
  nextTo: ServiceMs | null,
): Promise<void> {
  const ranges = `{[${new Date(nextTo ?? at).toISOString()},)}`
  await sql`
    insert into recorder.ledger as k (stream, category, symbol, type, interval, verdict, ranges, noted_at)
    values (${sql.join(seriesValues(candleStream(series)))}, 'reviewed', ${ranges}, ${instant(at)})
    on conflict (stream, category, symbol, type, interval, verdict, part) do update
      set noted_at = excluded.noted_at, ranges = case when ${nextTo === null} then k.ranges else excluded.ranges end
  `.execute(db)
}
