import { type Kysely, sql } from 'kysely'
import { type Candle, type CandleSeries, intervalMs } from '../../market/candle.js'
import type { TimeRange } from '../../market/timeRange.js'
import { dayMs, type TimeMs } from '../../market/values.js'
import { toDate } from '../../db/columns.js'
import type { Database } from '../../db/schema.js'
import { ofCandles } from '../../db/series.js'

export type CandleRow = Omit<Candle, keyof CandleSeries>

/** Where candles are without gaps, so many times the asked number of intervals holds all of them. */
const lookback = 3
const minLookbackMs = dayMs

export interface CandlesNearby {
  readonly candles: readonly CandleRow[]
  /** Candles that open before were not looked for. */
  readonly from: TimeMs
}

/** The newest `limit` candles that open before `before`. */
export interface PageOptions {
  readonly before: TimeMs
  readonly limit: number
}

/** The newest `limit` stored candles that open in a short time before `before`, ascending: few chunks are looked into. */
export async function storedCandlesNearby(
  db: Kysely<Database>,
  series: CandleSeries,
  { before, limit }: PageOptions,
): Promise<CandlesNearby> {
  const from = before - Math.max(minLookbackMs, lookback * limit * intervalMs[series.interval])
  return { candles: await candlesWithin(db, series, { from, to: before }, limit), from }
}

/**
 * The newest `limit` stored candles that open before `before`, ascending. They are looked for nearby first: a search without
 * a beginning looks into every chunk that there is.
 */
export async function storedCandles(
  db: Kysely<Database>,
  series: CandleSeries,
  page: PageOptions,
  nearby?: CandlesNearby,
): Promise<readonly CandleRow[]> {
  const { candles, from } = nearby ?? (await storedCandlesNearby(db, series, page))
  const missing = page.limit - candles.length
  if (missing === 0) return candles
  return [...(await candlesWithin(db, series, { from: Number.NEGATIVE_INFINITY, to: from }, missing)), ...candles]
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
