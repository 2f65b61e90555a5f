import { type Kysely, sql } from 'kysely'
import { type CandleSeries, intervalMs } from '../../market/candle.js'
import type { TimeRange } from '../../market/timeRange.js'
import { toDate } from '../../db/columns.js'
import type { Database } from '../../db/schema.js'
import { ofCandles } from '../../db/series.js'
import type { CandleRow } from './storedCandles.js'
import { dayMs, minuteMs } from '../../market/values.js'

/** From here on a candle holds so many minutes that telling them apart by candle costs more than another look-up. */
const longMs = intervalMs['4H']

/**
 * Candles of the series' interval, made of the stored minutes of a range and aligned to 00:00 UTC; ascending. One counts as
 * closed when all of its minutes are and the last of them is there.
 */
export async function rolledUpCandles(
  db: Kysely<Database>,
  series: CandleSeries,
  { from, to }: TimeRange,
): Promise<CandleRow[]> {
  const lengthMs = intervalMs[series.interval]
  const minutes = ofCandles({ ...series, interval: '1m' })
  const length = sql`make_interval(secs => ${lengthMs / 1000})`
  const beforeLast = sql`make_interval(secs => ${(lengthMs - minuteMs) / 1000})`
  // Slice by slice, so that the groups of one stay in the processor's cache. Not finer than a day where candles are
  // short: a compressed table gives out a thousand minutes at a time.
  const sliceMs = lengthMs < longMs ? dayMs : lengthMs
  const slice = sql`make_interval(secs => ${sliceMs / 1000})`
  const opens = sliceMs === lengthMs ? sql`slice` : sql`date_bin(${length}, open_time, timestamptz 'epoch')`
  // No sorting for the first and the last price: they are those of the first and the last minute, and only where one of
  // these is missing the minute that stands in for it is looked up.
  // Beside every other bound: by these the planner leaves out chunks, and it sees through neither greatest() nor a column.
  const inRange = sql`open_time >= ${toDate(from)}::timestamptz and open_time < ${toDate(to)}::timestamptz`
  const { rows } = await sql<CandleRow>`
    select opens as "openTime",
      coalesce(first_open, (select open from market.candles where ${minutes} and ${inRange} and open_time = first_time)) as open,
      high, low,
      coalesce(last_close, (select close from market.candles where ${minutes} and ${inRange} and open_time = last_time)) as close,
      base_volume as "baseVolume", quote_turnover as "quoteTurnover",
      are_closed and last_time = opens + ${beforeLast} as "isClosed"
    from generate_series(${toDate(Math.floor(from / sliceMs) * sliceMs)}::timestamptz,
      ${toDate(to - 1)}::timestamptz, ${slice}) as slice
    cross join lateral (
      select opens, max(open) filter (where open_time = opens) as first_open, max(high) as high, min(low) as low,
        max(close) filter (where open_time = opens + ${beforeLast}) as last_close,
        sum(base_volume) as base_volume, sum(quote_turnover) as quote_turnover, bool_and(is_closed) as are_closed,
        min(open_time) as first_time, max(open_time) as last_time
      from (
        select ${opens} as opens, open_time, open, high, low, close, base_volume, quote_turnover, is_closed
        from market.candles
        where ${minutes} and ${inRange}
          and open_time >= slice and open_time < slice + ${slice}
      ) as minute
      group by opens
    ) as candle
    order by opens`.execute(db)
  return rows
}
