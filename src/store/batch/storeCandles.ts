import type { Kysely } from 'kysely'
import { type Candle, type CandleSeries, intervalMs } from '../../market/candle.js'
import type { TimeMs } from '../../market/values.js'
import { candleStream } from '../db/series.js'
import { insertNewCandles, upsertCandles } from '../history/candles.js'
import { addCoverage } from '../proof/coverage.js'
import type { TimeRange } from '../../market/timeRange.js'
import { addNoTrade, takeBackNoTrade } from '../history/noTrade.js'
import type { Database } from '../db/schema.js'
import type { WriteResult } from '../db/writeResult.js'
import { filledBy } from '../../market/candleGrid.js'

export interface StoredCandles extends WriteResult {
  /** Candles that came where the service had been silent before, as if nothing had been traded. */
  readonly turnedUp: number
}

/**
 * Stores candles, and with them the claim to have them: exactly the stretches that the closed ones among them fill, and the
 * silence between two of one response. Call it in a transaction, so that there is never a claim without its rows.
 *
 * @param silence of the series of the candles: what responses left out, see `silenceBetween`
 */
export async function storeCandles(
  db: Kysely<Database>,
  candles: readonly Candle[],
  silence: readonly TimeRange[] = [],
): Promise<StoredCandles> {
  const written = (await insertNewCandles(db, candles))
    ? { inserted: candles.length, updated: 0, unchanged: 0 }
    : await upsertCandles(db, candles)
  const bySeries = new Map<string, { readonly series: CandleSeries; readonly openTimes: TimeMs[] }>()
  for (const candle of candles) {
    if (!candle.isClosed) continue
    const key = `${candle.category} ${candle.symbol} ${candle.type} ${candle.interval}`
    const known = bySeries.get(key)
    if (known === undefined) bySeries.set(key, { series: candle, openTimes: [candle.openTime] })
    else known.openTimes.push(candle.openTime)
  }
  let turnedUp = 0
  // In one order everywhere: two writers of the same series wait for each other, and never in a circle.
  for (const [, { series, openTimes }] of [...bySeries].toSorted(([a], [b]) => (a < b ? -1 : 1))) {
    const filled = filledBy(openTimes, intervalMs[series.interval])
    await addCoverage(db, candleStream(series), filled)
    turnedUp += await takeBackNoTrade(db, series, filled)
    await addNoTrade(db, series, silence)
  }
  return { ...written, turnedUp }
}
