import { type Kysely, sql } from 'kysely'
import { type Candle, type CandleSeries, filledBy, intervalMs, isSameSeries, seriesText } from '../market/candle.js'
import type { TimeMs } from '../market/values.js'
import { isFailedCheck } from '../db/databaseError.js'
import { inTransaction } from '../db/database.js'
import { candleStream } from '../db/series.js'
import { areOfOneSeries, insertNewCandles, upsertCandles, upsertOf } from './candles.js'
import { addCoverage, addingWhole } from './coverage.js'
import type { TimeRange } from '../market/timeRange.js'
import { addNoTrade, takeBackNoTrade, takingBack, turnedUp } from './noTrade.js'
import { knownOf, multirange } from './verdicts.js'
import type { Database } from '../db/schema.js'
import type { WriteResult } from '../db/writeRows.js'

/** Beyond, the statements of `insertNewCandles` take less than looking each row up does. */
const maxRowsAtOnce = 700

interface OpenTimes {
  readonly series: CandleSeries
  readonly openTimes: TimeMs[]
}

export interface StoredCandles extends WriteResult {
  /** Candles that came where the service had been silent before, as if nothing had been traded. */
  readonly turnedUp: number
}

/**
 * Stores candles, and with them the claim to have them: exactly the stretches that the closed ones among them fill, and the
 * silence between two of one response. All of it or nothing, so that there is never a claim without its rows: in the transaction
 * that `db` is in, or by itself.
 *
 * @param silence of the series of the candles: what responses left out, see `silenceBetween`
 */
export async function storeCandles(
  db: Kysely<Database>,
  candles: readonly Candle[],
  silence: readonly TimeRange[] = [],
): Promise<StoredCandles> {
  const series = candles[0]
  const isOne = silence.length === 0 && candles.length <= maxRowsAtOnce
  // This statement may fail, and a failed statement would end the caller's transaction.
  if (isOne && series !== undefined && !db.isTransaction && areOfOneSeries(candles)) {
    const stored = await storeAtOnce(db, series, candles)
    if (stored !== null) return stored
  }
  return inTransaction(db, (trx) => storeStepByStep(trx, candles, silence))
}

/**
 * Stores a few candles of one series in one statement. Most responses bring a handful of candles, and the statements of
 * a transaction would take longer than the rows do.
 *
 * Resolves to null, with nothing changed, if another writer of the series worked at the same time. A statement sees
 * other rows as they were when it began. Meanwhile another writer may note that nothing was traded where these candles
 * are. That writer also adds to the coverage. Therefore the coverage that is read under the row lock must equal the
 * coverage seen at the beginning.
 */
async function storeAtOnce(
  db: Kysely<Database>,
  series: CandleSeries,
  candles: readonly Candle[],
): Promise<StoredCandles | null> {
  const closed = candles.filter(({ isClosed }) => isClosed)
  if (closed.length === 0) return { turnedUp: 0, ...(await upsertCandles(db, candles)) }
  const filled = filledBy(
    closed.map(({ openTime }) => openTime),
    intervalMs[series.interval],
  )
  const stream = candleStream(series)
  const claim = multirange(filled)
  // The rows first, as in a transaction: two writers of the same series wait for each other, and never in a circle.
  const afterRows = sql`(select count(*) from written) >= 0`
  const isAlone = sql`coalesce((select ranges @> ${claim} from known)
    or (select ranges from covered) = coalesce((select ranges from known), '{}') + ${claim}, false)`
  const statement = sql<{ inserted: number; updated: number; turnedUp: number }>`
    with written as (${upsertOf(candles)}),
    known as (select ranges from recorder.known where ${knownOf(stream, 'recorded')}),
    covered as (${addingWhole([{ series: stream, ranges: filled }], afterRows)} returning k.ranges),
    ${takingBack(series, filled)}
    select count(*) filter (where is_new) as inserted, count(*) filter (where not is_new) as updated,
      ${turnedUp} as "turnedUp", 1 / (${isAlone})::int as alone
    from written`
  try {
    const { rows } = await statement.execute(db)
    const { inserted = 0, updated = 0, turnedUp: late = 0 } = rows[0] ?? {}
    return { inserted, updated, unchanged: candles.length - inserted - updated, turnedUp: late }
  } catch (error) {
    if (isFailedCheck(error)) return null
    throw error
  }
}

async function storeStepByStep(
  db: Kysely<Database>,
  candles: readonly Candle[],
  silence: readonly TimeRange[],
): Promise<StoredCandles> {
  const written = (await insertNewCandles(db, candles))
    ? { inserted: candles.length, updated: 0, unchanged: 0 }
    : await upsertCandles(db, candles)
  const bySeries = new Map<string, OpenTimes>()
  let last: OpenTimes | undefined
  for (const candle of candles) {
    if (!candle.isClosed) continue
    if (last === undefined || !isSameSeries(last.series, candle)) {
      const key = seriesText(candle)
      last = bySeries.get(key) ?? { series: candle, openTimes: [] }
      bySeries.set(key, last)
    }
    last.openTimes.push(candle.openTime)
  }
  let late = 0
  // In one order everywhere: two writers of the same series wait for each other, and never in a circle.
  for (const [, { series, openTimes }] of [...bySeries].toSorted(([a], [b]) => (a < b ? -1 : 1))) {
    const filled = filledBy(openTimes, intervalMs[series.interval])
    await addCoverage(db, candleStream(series), filled)
    late += await takeBackNoTrade(db, series, filled)
    await addNoTrade(db, series, silence)
  }
  return { turnedUp: late, ...written }
}
