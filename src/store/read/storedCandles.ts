import { type Kysely, sql } from 'kysely'
import { type Candle, type CandleSeries, intervalMs } from '../../market/candle.js'
import type { TimeRange } from '../../market/timeRange.js'
import { dayMs, type TimeMs } from '../../market/values.js'
import { toDate } from '../db/columns.js'
import type { Database } from '../db/schema.js'
import { ofCandles } from '../db/series.js'

export type CandleRow = Omit<Candle, keyof CandleSeries>

/** Where candles are without gaps, so many times the asked number of intervals holds all of them. */
const lookback = 3
const minLookbackMs = dayMs

/**
 * The newest `limit` stored candles that open before `before`, ascending. They are looked for in a short time first: a search without
 * a beginning looks into every chunk that there is.
 */
export async function storedCandles(
  db: Kysely<Database>,
  series: CandleSeries,
  { before, limit }: { readonly before: TimeMs; readonly limit: number },
): Promise<CandleRow[]> {
  const near = before - Math.max(minLookbackMs, lookback * limit * intervalMs[series.interval])
  const newest = await candlesWithin(db, series, { from: near, to: before }, limit)
  if (newest.length === limit) return newest
  const older = await candlesWithin(db, series, { from: Number.NEGATIVE_INFINITY, to: near }, limit - newest.length)
  return [...older, ...newest]
}

async function candlesWithin(
  db: Kysely<Database>,
  series: CandleSeries,
  { from, to }: TimeRange,
  limit: number,
): Promise<CandleRow[]> {
  const { rows } = await sql<CandleRow>`
    select open_time as "openTime", open, high, low, close, base_volume as "baseVolume",
      quote_turnover as "quoteTurnover", is_closed as "isClosed"
    from market.candles
    where ${ofCandles(series)} and open_time < ${toDate(to)}::timestamptz
      ${Number.isFinite(from) ? sql`and open_time >= ${toDate(from)}::timestamptz` : sql``}
    order by open_time desc
    limit ${limit}`.execute(db)
  return rows.toReversed()
}
