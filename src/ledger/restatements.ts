import { type Kysely, sql } from 'kysely'
import type { CandleSeries } from '../market/candle.js'
import type { TimeRange } from '../market/timeRange.js'
import type { Decimal, TimeMs } from '../market/values.js'
import { toDate } from '../db/columns.js'
import type { Database } from '../db/schema.js'
import { ofCandles } from '../db/series.js'

/** A closed candle before and after the service changed it, a change that belongs to no restatement yet. */
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

/** Prices were multiplied by the fraction. */
interface StoredRestatement extends Fraction {
  readonly id: number
}

/** Revisions found within this time after a restatement belong to it. */
const oneEvent = sql`interval '30 days'`

/** The number of the last revision: later ones have higher numbers. */
export async function lastRevision(db: Kysely<Database>): Promise<number> {
  const { rows } = await sql<{ id: number }>`select coalesce(max(id), 0) as id from recorder.candle_revision`.execute(
    db,
  )
  return rows[0]?.id ?? 0
}

/** Revisions of a series that belong to no restatement, as far as they may belong to one that is found now. */
export async function openRevisions(db: Kysely<Database>, series: CandleSeries): Promise<OpenRevision[]> {
  const prices = (when: string) =>
    sql`array[${sql.join(['open', 'high', 'low', 'close'].map((name) => sql.ref(`${when}_${name}`)))}]::text[]`
  const { rows } = await sql<{
    id: number
    openTime: TimeMs
    oldPrices: Decimal[]
    newPrices: Decimal[]
    oldVolume: Decimal
    newVolume: Decimal
  }>`
    select id, open_time as "openTime", ${prices('old')} as "oldPrices", ${prices('new')} as "newPrices",
      coalesce(old_base_volume, 0) as "oldVolume", coalesce(new_base_volume, 0) as "newVolume"
    from recorder.candle_revision
    where ${ofCandles(series)} and restatement_id is null and revised_at > now() - ${oneEvent}
    order by open_time, id`.execute(db)
  return rows.map(({ id, openTime, oldPrices, newPrices, oldVolume, newVolume }) => ({
    id,
    openTime,
    old: { prices: oldPrices, volume: oldVolume },
    new: { prices: newPrices, volume: newVolume },
  }))
}

/** Restatements of a series that were detected lately, the newest first. */
export async function recentRestatements(db: Kysely<Database>, series: CandleSeries): Promise<StoredRestatement[]> {
  const { rows } = await sql<{ id: number; numerator: string; denominator: string }>`
    select id, numerator::text as numerator, denominator::text as denominator from recorder.restatement
    where ${ofCandles(series)} and detected_at > now() - ${oneEvent} order by detected_at desc`.execute(db)
  return rows.map(({ id, numerator, denominator }) => ({
    id,
    numerator: BigInt(numerator),
    denominator: BigInt(denominator),
  }))
}

/** Adds a restatement without candles yet; resolves to its number. */
export async function addRestatement(
  db: Kysely<Database>,
  series: CandleSeries,
  { from, to }: TimeRange,
  factor: Fraction,
): Promise<number> {
  const { category, symbol, type, interval } = series
  const { rows } = await sql<{ id: number }>`
    insert into recorder.restatement
      (category, symbol, type, interval, from_time, to_time, numerator, denominator, candles)
    values (${category}, ${symbol}, ${type}, ${interval}, ${toDate(from)}, ${toDate(to)},
      ${factor.numerator.toString()}, ${factor.denominator.toString()}, 0)
    returning id`.execute(db)
  return (rows[0] as { id: number }).id
}

/** Assigns revisions to a restatement, and extends its range to include them. */
export async function joinRestatement(
  db: Kysely<Database>,
  id: number,
  revisions: readonly number[],
  { from, to }: TimeRange,
): Promise<void> {
  await sql`
    update recorder.candle_revision set restatement_id = ${id}
    where id = any (${`{${revisions.join(',')}}`}::bigint[])`.execute(db)
  await sql`
    update recorder.restatement set from_time = least(from_time, ${toDate(from)}::timestamptz),
      to_time = greatest(to_time, ${toDate(to)}::timestamptz), candles = candles + ${revisions.length}
    where id = ${id}`.execute(db)
}

/**
 * The series of an instrument that has been restated in one of them: this one and those of which it is not known yet, each from
 * its first to its last candle.
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
          and r.denominator = ${denominator.toString()}::numeric and r.detected_at > now() - ${oneEvent}))`.execute(db)
  return rows.map(({ from, to, ...series }) => ({ series, range: { from, to } }))
}
