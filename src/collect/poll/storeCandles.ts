import type { Kysely } from 'kysely'
import type { Candle, CandleSeries } from '../../market/candle.js'
import { intervalMs } from '../../market/interval.js'
import type { TimeMs } from '../../market/values.js'
import { candleStream } from '../../store/candleCoverage.js'
import { upsertCandles } from '../../store/candles.js'
import { addCoverage } from '../../store/coverage.js'
import type { Database } from '../../store/schema.js'
import type { WriteResult } from '../../store/writeResult.js'
import { filledBy } from '../backfill/grid.js'

/**
 * Stores candles, and with them the claim to have them: exactly the stretches that the closed ones among them fill. Call it
 * in a transaction, so that there is never a claim without its rows.
 */
export async function storeCandles(db: Kysely<Database>, candles: readonly Candle[]): Promise<WriteResult> {
  const written = await upsertCandles(db, candles)
  const bySeries = new Map<string, { readonly series: CandleSeries; readonly openTimes: TimeMs[] }>()
  for (const candle of candles) {
    if (!candle.isClosed) continue
    const key = `${candle.category} ${candle.symbol} ${candle.type} ${candle.interval}`
    const known = bySeries.get(key)
    if (known === undefined) bySeries.set(key, { series: candle, openTimes: [candle.openTime] })
    else known.openTimes.push(candle.openTime)
  }
  // In one order everywhere: two writers of the same series wait for each other, and never in a circle.
  for (const [, { series, openTimes }] of [...bySeries].toSorted(([a], [b]) => (a < b ? -1 : 1))) {
    await addCoverage(db, candleStream(series), filledBy(openTimes, intervalMs[series.interval]))
  }
  return written
}
