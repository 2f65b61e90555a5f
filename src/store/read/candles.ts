import { type Kysely, type RawBuilder, sql } from 'kysely'
import type { CandleSeries } from '../../market/candle.js'
import { type Interval, intervalMs } from '../../market/interval.js'
import type { Decimal, TimeMs } from '../../market/values.js'
import { toDate } from '../columns.js'
import type { Database } from '../schema.js'

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

export interface CandlePage {
  readonly candles: readonly CandleRow[]
  /** The interval whose rows were read: the asked one, or 1m when they were rolled up from those. */
  readonly source: Interval
}

/** Most 1m candles that one roll-up reads: about a quarter of a second's work for the database. */
const rollupMinutes = 300_000

/**
 * The newest `limit` candles of a series that open before `before`, ascending. Intervals that are not recorded themselves
 * are rolled up from 1m ones, aligned to 00:00 UTC; such a candle counts as closed when its last minute is.
 */
export async function readCandles(
  db: Kysely<Database>,
  series: CandleSeries,
  options: { readonly before: TimeMs; readonly limit: number },
): Promise<CandlePage> {
  if (series.interval === '1m' || (await isRecorded(db, series))) {
    return { candles: await storedCandles(db, series, options), source: series.interval }
  }
  return { candles: await rolledUpCandles(db, series, options), source: '1m' }
}

async function isRecorded(db: Kysely<Database>, series: CandleSeries): Promise<boolean> {
  const { rows } = await sql<{ found: boolean }>`
    select exists (select from market.candles where ${ofSeries(series, series.interval)}) as found`.execute(db)
  return rows[0]?.found === true
}

async function storedCandles(
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

async function rolledUpCandles(
  db: Kysely<Database>,
  series: CandleSeries,
  { before, limit }: { readonly before: TimeMs; readonly limit: number },
): Promise<CandleRow[]> {
  const minutes = intervalMs[series.interval] / intervalMs['1m']
  const count = Math.max(1, Math.min(limit, Math.floor(rollupMinutes / minutes)))
  const newest = await storedCandles(db, { ...series, interval: '1m' }, { before, limit: 1 })
  const last = newest[0]?.openTime
  if (last === undefined) return []
  const lengthMs = intervalMs[series.interval]
  const to = (Math.floor(last / lengthMs) + 1) * lengthMs
  const { rows } = await sql<CandleRow>`
    select date_bin(make_interval(secs => ${lengthMs / 1000}), open_time, timestamptz 'epoch') as "openTime",
      (array_agg(open order by open_time))[1] as open, max(high) as high, min(low) as low,
      (array_agg(close order by open_time desc))[1] as close,
      sum(base_volume) as "baseVolume", sum(quote_turnover) as "quoteTurnover",
      bool_and(is_closed) and max(open_time) = date_bin(make_interval(secs => ${lengthMs / 1000}), max(open_time),
        timestamptz 'epoch') + make_interval(secs => ${(lengthMs - intervalMs['1m']) / 1000}) as "isClosed"
    from market.candles
    where ${ofSeries(series, '1m')} and open_time >= ${toDate(to - count * lengthMs)}::timestamptz
      and open_time < ${toDate(Math.min(to, before))}::timestamptz
    group by 1
    order by 1`.execute(db)
  return rows
}

function ofSeries({ category, symbol, type }: CandleSeries, interval: Interval): RawBuilder<unknown> {
  return sql`category = ${category} and symbol = ${symbol} and type = ${type} and interval = ${interval}`
}
