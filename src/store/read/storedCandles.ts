import { type Kysely, type RawBuilder, sql } from 'kysely'
import { type CandleSeries, type Interval, intervalMs } from '../../market/candle.js'
import type { TimeRange } from '../../market/timeRange.js'
import { dayMs, type Decimal, type TimeMs } from '../../market/values.js'
import { toDate } from '../db/columns.js'
import type { Database } from '../db/schema.js'

export interface CandleRow {
  readonly openTime: TimeMs
  readonly open: Decimal
  readonly high: Decimal
  readonly low: Decimal
  readonly close: Decimal
  readonly baseVolume: Decimal
  readonly quoteTurnover: Decimal
  readonly isClosed: boolean
}

/** Where candles are without gaps, so many times the asked number of intervals holds all of them. */
const lookback = 3
const minLookbackMs = dayMs

/**
 * The newest `limit` stored candles that open before `before`, ascending. They are looked for in a short time first: a search without
 * a beginning looks into every chunk that there is, also where a series has no candle at all.
 */
export async function storedCandles(
  db: Kysely<Database>,
  series: CandleSeries,
  { before, limit }: { readonly before: TimeMs; readonly limit: number },
): Promise<CandleRow[]> {
  const near = before - Math.max(minLookbackMs, lookback * limit * intervalMs[series.interval])
  const newest = await candlesWithin(db, series, { from: near, to: before }, limit)
  if (newest.length === limit) return newest
  const begin = await coverageBegin(db, series)
  if (begin === undefined || begin >= near) return newest
  return [...(await candlesWithin(db, series, { from: begin, to: near }, limit - newest.length)), ...newest]
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
    where ${ofSeries(series, series.interval)}
      and open_time >= ${toDate(from)}::timestamptz and open_time < ${toDate(to)}::timestamptz
    order by open_time desc
    limit ${limit}`.execute(db)
  return rows.toReversed()
}

/** Before it the series has no candle: they are stored together with their coverage, all but the one that is under way. */
async function coverageBegin(db: Kysely<Database>, { category, symbol, type, interval }: CandleSeries) {
  const { rows } = await sql<{ begin: TimeMs | null }>`
    select min(lower(ranges)) as begin from recorder_page.coverage
    where stream = 'candles' and category = ${category} and symbol = ${symbol} and type = ${type} and interval = ${interval}`.execute(
    db,
  )
  return rows[0]?.begin ?? undefined
}

export function ofSeries({ category, symbol, type }: CandleSeries, interval: Interval): RawBuilder<unknown> {
  return sql`category = ${category} and symbol = ${symbol} and type = ${type} and interval = ${interval}`
}
