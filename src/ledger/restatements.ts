import type { Kysely } from 'kysely'
import { bounds } from '../market/bounds.js'
import { type CandleSeries, closeTime } from '../market/candle.js'
import type { TimeRange } from '../market/timeRange.js'
import { dayMs } from '../market/values.js'
import { ago, instant } from '../db/columns.js'
import { callFunction } from '../db/database.js'
import type { Database } from '../db/schema.js'
import { instrumentStream, ofCandles } from '../db/series.js'
import { commonFactor, explainedBy, type Fraction, type OpenRevision } from './commonFactor.js'
import { knownOf, multirangeText } from './verdicts.js'

/** Revisions within this time after a restatement belong to it. */
export const oneEvent = ago(30 * dayMs)

/** Reads the number of the last revision. Later revisions have higher numbers. */
export async function lastRevision(db: Kysely<Database>): Promise<number> {
  const { id } = await db
    .selectFrom('recorder.candle_revision')
    .select(({ fn }) => fn.max('id').as('id'))
    .executeTakeFirstOrThrow()
  return id ?? 0
}

/**
 * Checks by the latest changes of a series whether the service has rewritten its history. If so, the changes are
 * recorded as one restatement, and the old values stay in the revisions. Resolves to the factor of a new restatement,
 * else to null. Call this function in a transaction. Of more changes than a slice brings, the newest are looked at.
 *
 * @param before the last revision before the reading
 */
export async function foldRestatement(
  db: Kysely<Database>,
  series: CandleSeries,
  before: number,
): Promise<Fraction | null> {
  if ((await lastRevision(db)) <= before) return null
  let open: readonly OpenRevision[] = await openRevisions(db, series)
  const recent = await recentRestatements(db, series)
  for (const { id, factor } of recent) {
    const more = await explainedBy(open, factor)
    if (more.length === 0) continue
    await joinRestatement(db, series, id, more)
    const joined = new Set(more)
    open = open.filter((revision) => !joined.has(revision))
  }
  // Each new one has all of the instrument's past read again.
  if (recent.filter(({ isOfLastDay }) => isOfLastDay).length >= bounds.restatements) return null
  const found = await commonFactor(open.filter(({ id }) => id > before))
  if (found === null) return null
  const explained = await explainedBy(open, found.factor)
  const id = await addRestatement(db, series, rangeOf(series, explained), found.factor)
  await joinRestatement(db, series, id, explained)
  return found.factor
}

/** A stored restatement. The service multiplied the prices by the fraction. */
interface StoredRestatement {
  readonly id: number
  readonly factor: Fraction
  readonly isOfLastDay: boolean
}

/**
 * Reads the newest revisions of a series that belong to no restatement yet, in the order of their candles. They may
 * belong to one that is found now.
 */
async function openRevisions(db: Kysely<Database>, series: CandleSeries): Promise<OpenRevision[]> {
  const rows = await db
    .selectFrom('recorder.candle_revision')
    .select(['id', 'open_time', 'old_open', 'old_high', 'old_low', 'old_close', 'old_base_volume'])
    .select(['new_open', 'new_high', 'new_low', 'new_close', 'new_base_volume'])
    .where(ofCandles(series))
    .where('is_restatement', '=', false)
    .where('revised_at', '>', oneEvent)
    .orderBy('id', 'desc')
    .limit(bounds.openRevisions)
    .execute()
  const open = rows.map((row) => ({
    id: row.id,
    openTime: row.open_time,
    old: { prices: [row.old_open, row.old_high, row.old_low, row.old_close], volume: row.old_base_volume ?? '0' },
    new: { prices: [row.new_open, row.new_high, row.new_low, row.new_close], volume: row.new_base_volume ?? '0' },
  }))
  return open.toSorted((a, b) => a.openTime - b.openTime || a.id - b.id)
}

/** Reads the newest restatements of a series that were detected lately, newest first. */
async function recentRestatements(db: Kysely<Database>, series: CandleSeries): Promise<StoredRestatement[]> {
  const rows = await db
    .selectFrom('recorder.restatement')
    .select(['id', 'numerator', 'denominator'])
    .select((eb) => eb('detected_at', '>', ago(dayMs)).as('isOfLastDay'))
    .where(ofCandles(series))
    .where('detected_at', '>', oneEvent)
    .orderBy('detected_at', 'desc')
    .limit(bounds.restatements)
    .execute()
  return rows.map(({ id, numerator, denominator, isOfLastDay }) => ({
    id,
    factor: { numerator: BigInt(numerator), denominator: BigInt(denominator) },
    isOfLastDay: isOfLastDay === true,
  }))
}

/** Adds a restatement without candles. Resolves to its number. */
async function addRestatement(
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
      from_time: new Date(from),
      to_time: new Date(to),
      numerator: factor.numerator.toString(),
      denominator: factor.denominator.toString(),
      candles: 0,
    })
    .returning('id')
    .executeTakeFirstOrThrow()
  return id
}

/**
 * Marks revisions as part of a restatement, and extends its range to include them. Fills are not restated: where the
 * new candles withdrew claims of fills, the old ones bring them back.
 */
async function joinRestatement(
  db: Kysely<Database>,
  series: CandleSeries,
  id: number,
  revisions: readonly OpenRevision[],
): Promise<void> {
  const { from, to } = rangeOf(series, revisions)
  const ids = revisions.map((revision) => revision.id)
  await db
    .updateTable('recorder.candle_revision')
    .set({ is_restatement: true })
    .where((eb) => eb('id', '=', eb.fn.any(eb.val(ids))))
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
  if (series.type !== 'market' || series.interval !== '1m') return
  const lockedFills = await db
    .selectFrom('recorder.ledger')
    .select('id')
    .where(knownOf(instrumentStream('fills', series), 'recorded'))
    .orderBy('part')
    .limit(1)
    .forUpdate()
    .execute()
  if (lockedFills.length === 0) return
  const minutes = revisions.map(({ openTime }) => ({ from: openTime, to: closeTime(openTime, '1m') }))
  await callFunction(db, 'recorder.weigh_minutes', series.category, series.symbol, multirangeText(minutes), 'history')
}

/** Returns the range of revised candles, which are in the order of their opening times. */
function rangeOf({ interval }: CandleSeries, revisions: readonly OpenRevision[]): TimeRange {
  const [first, last] = [revisions[0], revisions.at(-1)] as [OpenRevision, OpenRevision]
  return { from: first.openTime, to: closeTime(last.openTime, interval) }
}
