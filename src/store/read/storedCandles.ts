import { type Kysely, type RawBuilder, sql } from 'kysely'
import type { CandleSeries, Interval } from '../../market/candle.js'
import type { Decimal, TimeMs } from '../../market/values.js'
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

/** The newest `limit` stored candles that open before `before`, ascending. */
export async function storedCandles(
  db: Kysely<Database>,
  series: CandleSeries,
  { before, limit }: { readonly before: TimeMs; readonly limit: number },
): Promise<CandleRow[]> {
  const { rows } = await sql<CandleRow>`
    select open_time as "openTime", open, high, low, close, base_volume as "baseVolume",
      quote_turnover as "quoteTurnover", is_closed as "isClosed"
    from market.candles
    where ${ofSeries(series, series.interval)} and open_time < ${toDate(before)}::timestamptz
    order by open_time desc
    limit ${limit}`.execute(db)
  return rows.toReversed()
}

export function ofSeries({ category, symbol, type }: CandleSeries, interval: Interval): RawBuilder<unknown> {
  return sql`category = ${category} and symbol = ${symbol} and type = ${type} and interval = ${interval}`
}
