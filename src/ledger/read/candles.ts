import { type Kysely, sql } from 'kysely'
import { type CandleSeries, type Interval, intervalMs, isAlignedToMidnight } from '../../market/candle.js'
import type { TimeRange } from '../../market/timeRange.js'
import type { TimeMs } from '../../market/values.js'
import type { Database } from '../../db/schema.js'
import { rolledUpCandles } from './rolledUp.js'
import { ofCandles } from '../../db/series.js'
import { type CandleRow, type PageOptions, storedCandles, storedCandlesNearby } from './storedCandles.js'

export interface CandlePage {
  readonly candles: readonly CandleRow[]
  /** The interval whose rows were read: the asked one, or 1m when they were rolled up from those. */
  readonly source: Interval
  /** True when a request with the first opening time as `before` finds more candles. */
  readonly hasOlder: boolean
}

/** Largest number of minutes that one page rolls up, to limit the response time. It covers 500 candles of 1H twice. */
const maxMinutes = 60_000

/**
 * Candles of a series that open before `before`, ascending and without a gap that could be filled: the newest `limit`, or
 * fewer where another source takes over or they hold very many minutes. Stored candles of the interval are read as far as
 * they go; where there are only minutes, these are rolled up, aligned to 00:00 UTC.
 */
export async function readCandles(
  db: Kysely<Database>,
  series: CandleSeries,
  { before, limit }: PageOptions,
): Promise<CandlePage> {
  const asked = { before, limit: limit + 1 }
  if (series.interval === '1m' || !isAlignedToMidnight(series.interval)) {
    const stored = await storedCandles(db, series, asked)
    return { candles: stored.slice(-limit), source: series.interval, hasOlder: stored.length > limit }
  }
  const nearby = await storedCandlesNearby(db, series, asked)
  const minute = await newestMinute(db, series, before)
  const rolledUp = minute === undefined ? undefined : rolledUpRange(series.interval, { before, limit }, minute.openTime)
  // Those further back need not be looked for: they are behind, and end before all that is rolled up.
  if (
    rolledUp !== undefined &&
    nearby.candles.length === 0 &&
    rolledUp.from >= nearby.from + 2 * intervalMs[series.interval]
  )
    return rollUp(db, series, rolledUp)
  const stored = await storedCandles(db, series, asked, nearby)
  const newest = stored.at(-1)?.openTime
  if (rolledUp !== undefined && minute !== undefined && isBehind(newest, minute, series.interval))
    return rollUp(db, series, rolledUp, newest)
  const page = stored.slice(-limit)
  const begin = await endOfLastGap(db, series, page)
  const candles = page.filter(({ openTime }) => openTime >= begin)
  const first = candles[0]?.openTime
  const isCut = stored.length > candles.length
  return {
    candles,
    source: series.interval,
    hasOlder: isCut || (first !== undefined && (await newestMinute(db, series, first)) !== undefined),
  }
}

/**
 * Returns true if minutes cover a whole candle that is not stored. The current candle is stored late and does not
 * count.
 */
function isBehind(stored: TimeMs | undefined, minute: CandleRow, interval: Interval): boolean {
  const reached = minute.openTime + (minute.isClosed ? intervalMs['1m'] : 0)
  return stored === undefined || reached >= stored + 2 * intervalMs[interval]
}

/** The newest candles that a page holds when it is rolled up, the one that holds `minute` last. */
function rolledUpRange(interval: Interval, { before, limit }: PageOptions, minute: TimeMs): TimeRange {
  const lengthMs = intervalMs[interval]
  const count = Math.max(1, Math.min(limit, Math.floor((maxMinutes * intervalMs['1m']) / lengthMs)))
  const end = (Math.floor(minute / lengthMs) + 1) * lengthMs
  return { from: end - count * lengthMs, to: Math.min(end, before) }
}

/** The page of a range, or of its part behind the newest stored candle. */
async function rollUp(
  db: Kysely<Database>,
  series: CandleSeries,
  range: TimeRange,
  newestStored?: TimeMs,
): Promise<CandlePage> {
  const lengthMs = intervalMs[series.interval]
  const endOfStored =
    newestStored === undefined ? Number.NEGATIVE_INFINITY : Math.ceil((newestStored + lengthMs) / lengthMs) * lengthMs
  const from = Math.max(range.from, endOfStored)
  return {
    candles: await rolledUpCandles(db, series, { from, to: range.to }),
    source: '1m',
    hasOlder:
      newestStored !== undefined ||
      (await newestMinute(db, series, from)) !== undefined ||
      (await storedCandles(db, series, { before: from, limit: 1 })).length > 0,
  }
}

async function newestMinute(
  db: Kysely<Database>,
  series: CandleSeries,
  before: TimeMs,
): Promise<CandleRow | undefined> {
  const [candle] = await storedCandles(db, { ...series, interval: '1m' }, { before, limit: 1 })
  return candle
}

/** The end of the last gap of a candle or more among the stored ones for which there are minutes; -Infinity without one. */
async function endOfLastGap(
  db: Kysely<Database>,
  series: CandleSeries,
  candles: readonly CandleRow[],
): Promise<TimeMs> {
  const lengthMs = intervalMs[series.interval]
  const gaps = candles.flatMap<TimeRange>(({ openTime }, index) => {
    const next = candles[index + 1]?.openTime ?? openTime
    return next - openTime >= 2 * lengthMs ? [{ from: openTime + lengthMs, to: next }] : []
  })
  if (gaps.length === 0) return Number.NEGATIVE_INFINITY
  const { rows } = await sql<{ end: TimeMs | null }>`
    select max(gap.to_time) as "end"
    from unnest(${gaps.map(({ from }) => new Date(from))}::timestamptz[], ${gaps.map(({ to }) => new Date(to))}::timestamptz[])
      as gap (from_time, to_time)
    where exists (
      select from market.candles
      where ${ofCandles({ ...series, interval: '1m' })} and open_time >= gap.from_time and open_time < gap.to_time)`.execute(
    db,
  )
  return rows[0]?.end ?? Number.NEGATIVE_INFINITY
}
