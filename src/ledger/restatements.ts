import { type Kysely, sql } from 'kysely'
import type { CandleSeries } from '../market/candle.js'
import type { TimeRange } from '../market/timeRange.js'
import { dayMs, type Decimal, type TimeMs } from '../market/values.js'
import { ago, instant, toDate } from '../db/columns.js'
import type { Database } from '../db/schema.js'
import { candleStream, ofCandles, sameSeries, seriesKey } from '../db/series.js'
import { is } from './verdicts.js'

/** A change of a closed candle by the service that belongs to no restatement yet. */
export interface OpenRevision {
  readonly id: number
  readonly openTime: TimeMs
  readonly old: RevisedValues
  readonly new: RevisedValues
}

interface RevisedValues {
  readonly prices: readonly Decimal[]
  readonly volume: Decimal
}

export interface Fraction {
  readonly numerator: bigint
  readonly denominator: bigint
}

/** A stored restatement. The service multiplied the prices by the fraction. */
interface StoredRestatement extends Fraction {
  readonly id: number
}

/** Revisions within this time after a restatement belong to it. */
const oneEvent = ago(30 * dayMs)

/** Reads the number of the last revision. Later revisions have higher numbers. */
export async function lastRevision(db: Kysely<Database>): Promise<number> {
  const { id } = await db
    .selectFrom('recorder.candle_revision')
    .select(({ fn }) => fn.max('id').as('id'))
    .executeTakeFirstOrThrow()
  return id ?? 0
}

/** Reads recent revisions of a series that belong to no restatement yet. They may belong to one that is found now. */
export async function openRevisions(db: Kysely<Database>, series: CandleSeries): Promise<OpenRevision[]> {
  const rows = await db
    .selectFrom('recorder.candle_revision')
    .selectAll()
    .where(ofCandles(series))
    .where('restatement_id', 'is', null)
    .where('revised_at', '>', oneEvent)
    .orderBy('open_time')
    .orderBy('id')
    .execute()
  return rows.map((row) => ({
    id: row.id,
    openTime: row.open_time,
    old: { prices: [row.old_open, row.old_high, row.old_low, row.old_close], volume: row.old_base_volume ?? '0' },
    new: { prices: [row.new_open, row.new_high, row.new_low, row.new_close], volume: row.new_base_volume ?? '0' },
  }))
}

/** Reads restatements of a series that were detected lately, newest first. */
export async function recentRestatements(db: Kysely<Database>, series: CandleSeries): Promise<StoredRestatement[]> {
  const rows = await db
    .selectFrom('recorder.restatement')
    .select(['id', 'numerator', 'denominator'])
    .where(ofCandles(series))
    .where('detected_at', '>', oneEvent)
    .orderBy('detected_at', 'desc')
    .execute()
  return rows.map(({ id, numerator, denominator }) => ({
    id,
    numerator: BigInt(numerator),
    denominator: BigInt(denominator),
  }))
}

/** Adds a restatement without candles. Resolves to its number. */
export async function addRestatement(
  db: Kysely<Database>,
  { category, symbol, type, interval }: CandleSeries,
  { from, to }: TimeRange,
  factor: Fraction,
): Promise<number> {
  const { id } = await db
    .insertInto('recorder.restatement')
    .values({
      category,
      symbol,
      type,
      interval,
      from_time: toDate(from),
      to_time: toDate(to),
      numerator: factor.numerator.toString(),
      denominator: factor.denominator.toString(),
      candles: 0,
    })
    .returning('id')
    .executeTakeFirstOrThrow()
  return id
}

/** Assigns revisions to a restatement, and extends its range to include them. */
export async function joinRestatement(
  db: Kysely<Database>,
  id: number,
  revisions: readonly number[],
  { from, to }: TimeRange,
): Promise<void> {
  await db
    .updateTable('recorder.candle_revision')
    .set({ restatement_id: id })
    .where((eb) => eb('id', '=', eb.fn.any(eb.val(revisions))))
    .execute()
  await db
    .updateTable('recorder.restatement')
    .set(({ eb, fn }) => ({
      from_time: fn<Date>('least', ['from_time', instant(from)]),
      to_time: fn<Date>('greatest', ['to_time', instant(to)]),
      candles: eb('candles', '+', revisions.length),
    }))
    .where('id', '=', id)
    .execute()
}

/**
 * Finds the series of an instrument to read again after one of them was restated. These are that series and all without
 * the same restatement, each from its first to its last candle.
 */
export async function seriesToReadAgain(
  db: Kysely<Database>,
  { category, symbol, type, interval }: CandleSeries,
  { numerator, denominator }: Omit<StoredRestatement, 'id'>,
): Promise<{ readonly series: CandleSeries; readonly range: TimeRange }[]> {
  const { rows } = await sql<CandleSeries & TimeRange>`
    select category, symbol, type, interval, lower(ranges) as "from", upper(ranges) as "to"
    from recorder.known c
    where stream = 'candles' and verdict = 'recorded' and category = ${category} and symbol = ${symbol} and not isempty(ranges)
      and (c.type = ${type} and c.interval = ${interval} or not exists (
        select from recorder.restatement r
        where r.category = c.category and r.symbol = c.symbol and r.type = c.type::market.candle_type
          and r.interval = c.interval::market.candle_interval and r.numerator = ${numerator.toString()}::numeric
          and r.denominator = ${denominator.toString()}::numeric and r.detected_at > ${oneEvent}))`.execute(db)
  return rows.map(({ from, to, ...series }) => ({ series, range: { from, to } }))
}

export interface DueReview {
  readonly series: CandleSeries
  /** From the first known candle to the last one. */
  readonly range: TimeRange
  /** End of the stretch to review next; null before the first review. */
  readonly nextTo: TimeMs | null
  /** When the instrument was listed again after the last review; null if it was not. */
  readonly relistedAt: TimeMs | null
}

/**
 * Finds series of listed instruments that are due for a review. Their last review was before `before`, or before a new
 * listing of the instrument. New listings come first, then the series that has waited longest.
 */
export async function dueReviews(
  db: Kysely<Database>,
  { before, limit }: { readonly before: TimeMs; readonly limit: number },
): Promise<DueReview[]> {
  const { rows } = await sql<CandleSeries & TimeRange & Omit<DueReview, 'series' | 'range'>>`
    select c.category, c.symbol, c.type, c.interval, lower(c.ranges) as "from", upper(c.ranges) as "to",
      r.next_to as "nextTo", relisted.at as "relistedAt"
    from recorder.known c
    join market.instruments i on i.category = c.category and i.symbol = c.symbol and i.disappeared_at is null
    left join lateral (
      select noted_at as reviewed_at, lower(ranges) as next_to from recorder.known r
      where ${sameSeries('r', 'c')} and ${is('reviewed', 'r')}
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

/** Notes that a stretch of a series was reviewed. Without `nextTo`, the next stretch stays as it was. */
export async function noteReview(
  db: Kysely<Database>,
  series: CandleSeries,
  at: TimeMs,
  nextTo: TimeMs | null,
): Promise<void> {
  const ranges = `{[${new Date(nextTo ?? at).toISOString()},)}`
  await sql`
    insert into recorder.known as k (stream, category, symbol, type, interval, verdict, ranges, noted_at)
    values (${sql.join(seriesKey(candleStream(series)))}, 'reviewed', ${ranges}, ${instant(at)})
    on conflict (stream, category, symbol, type, interval, verdict, part) do update
      set noted_at = excluded.noted_at, ranges = case when ${nextTo === null} then k.ranges else excluded.ranges end
  `.execute(db)
}
