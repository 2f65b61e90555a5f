import { type Kysely, sql } from 'kysely'
import { type Candle, type CandleSeries, type Interval, intervalMs } from '../../market/candle.js'
import type { TimeRange } from '../../market/timeRange.js'
import { addMs, dayMs, earlierOf, laterOf, minuteMs, type ServiceMs, serviceMs } from '../../market/values.js'
import type { Database } from '../../db/schema.js'
import { candleStream, ofCandles, ofSeries } from '../../db/series.js'
import { duration, instant, wholeSumOf } from '../../db/columns.js'

interface CandlePage {
  readonly candles: readonly CandleRow[]
  /** The interval whose rows were read: the requested one, or 1m if minutes were rolled up. */
  readonly source: Interval
  /** True if a request with `before` set to the first opening time finds more candles. */
  readonly hasOlder: boolean
}

/** Largest number of minutes that one page rolls up, to limit the response time. It covers 500 candles of 1H twice. */
const maxMinutes = 60_000

/**
 * Reads candles of a series that open before `before`, ascending. A page ends at a gap that minutes could fill. It has
 * the newest `limit` candles, or fewer if the source changes or too many minutes are needed. Stored candles of the
 * interval come first. Where only minutes are stored, they are rolled up, aligned to 00:00 UTC.
 */
export async function readCandles(
  db: Kysely<Database>,
  series: CandleSeries,
  { before, limit }: PageOptions,
): Promise<CandlePage> {
  const asked = { before, limit: limit + 1 }
  if (!canBeRolledUp(series.interval)) {
    const stored = await storedCandles(db, series, asked)
    return { candles: stored.slice(-limit), source: series.interval, hasOlder: stored.length > limit }
  }
  const nearby = await storedCandlesNearby(db, series, asked)
  const minute = await newestMinute(db, series, before)
  const rolledUp = minute === undefined ? undefined : rolledUpRange(series.interval, { before, limit }, minute.openTime)
  // Skips the search for older candles. They would end before the range that is rolled up.
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

/** Returns true if minutes can be rolled up into candles of this interval, aligned to 00:00 UTC. */
function canBeRolledUp(interval: Interval): boolean {
  return interval !== '1m' && intervalMs[interval] <= dayMs
}

/**
 * Returns true if the minutes include a whole candle that is not stored. The current candle is stored late, so it does
 * not count.
 */
function isBehind(stored: ServiceMs | undefined, minute: CandleRow, interval: Interval): boolean {
  const reached = minute.openTime + (minute.isClosed ? intervalMs['1m'] : 0)
  return stored === undefined || reached >= stored + 2 * intervalMs[interval]
}

/** Returns the range of a rolled-up page. Its last candle is the one that includes `minute`. */
function rolledUpRange(interval: Interval, { before, limit }: PageOptions, minute: ServiceMs): TimeRange {
  const lengthMs = intervalMs[interval]
  const count = Math.max(1, Math.min(limit, Math.floor((maxMinutes * intervalMs['1m']) / lengthMs)))
  const end = serviceMs((Math.floor(minute / lengthMs) + 1) * lengthMs)
  return { from: addMs(end, -count * lengthMs), to: earlierOf(end, before) }
}

/** Rolls up the minutes of a range, or of its part after the newest stored candle. */
async function rollUp(
  db: Kysely<Database>,
  series: CandleSeries,
  range: TimeRange,
  newestStored?: ServiceMs,
): Promise<CandlePage> {
  const lengthMs = intervalMs[series.interval]
  const endOfStored = (newest: ServiceMs) => serviceMs(Math.ceil((newest + lengthMs) / lengthMs) * lengthMs)
  const from = newestStored === undefined ? range.from : laterOf(range.from, endOfStored(newestStored))
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
  before: ServiceMs,
): Promise<CandleRow | undefined> {
  const [candle] = await storedCandles(db, { ...series, interval: '1m' }, { before, limit: 1 })
  return candle
}

/** Finds the end of the last gap between stored candles that minutes could fill; -Infinity if there is none. */
async function endOfLastGap(
  db: Kysely<Database>,
  series: CandleSeries,
  candles: readonly CandleRow[],
): Promise<ServiceMs> {
  const lengthMs = intervalMs[series.interval]
  const gaps = candles.flatMap<TimeRange>(({ openTime }, index) => {
    const next = candles[index + 1]?.openTime ?? openTime
    return next - openTime >= 2 * lengthMs ? [{ from: addMs(openTime, lengthMs), to: next }] : []
  })
  if (gaps.length === 0) return serviceMs(-Infinity)
  const { rows } = await sql<{ end: ServiceMs | null }>`
    select max(gap.to_time) as "end"
    from unnest(${gaps.map(({ from }) => new Date(from))}::timestamptz[], ${gaps.map(({ to }) => new Date(to))}::timestamptz[])
      as gap (from_time, to_time)
    where exists (
      select from market.candles
      where ${ofCandles({ ...series, interval: '1m' })} and open_time >= gap.from_time and open_time < gap.to_time)`.execute(
    db,
  )
  return rows[0]?.end ?? serviceMs(-Infinity)
}

interface CandleRow extends Omit<Candle, keyof CandleSeries> {
  /** True if it is final and none of its minutes is missing. A candle of the service is whole once it is final. */
  readonly isComplete: boolean
}

/** A nearby search spans this many times the requested number of intervals, so that some candles may be missing. */
const lookback = 3
const minLookbackMs = dayMs

interface CandlesNearby {
  readonly candles: readonly CandleRow[]
  /** Candles that open before this time were not searched. */
  readonly from: ServiceMs
}

/** Selects the newest `limit` candles that open before `before`. */
interface PageOptions {
  readonly before: ServiceMs
  readonly limit: number
}

/** Reads the newest `limit` stored candles in a short time before `before`, ascending. So it reads few chunks. */
async function storedCandlesNearby(
  db: Kysely<Database>,
  series: CandleSeries,
  { before, limit }: PageOptions,
): Promise<CandlesNearby> {
  const from = addMs(before, -Math.max(minLookbackMs, lookback * limit * intervalMs[series.interval]))
  return { candles: await candlesWithin(db, series, { from, to: before }, limit), from }
}

/**
 * Reads the newest candles of a series, for a page that has the older ones already. It looks at the last day, or at
 * three candles if they are longer, and never further back.
 */
export async function newestCandles(
  db: Kysely<Database>,
  series: CandleSeries,
  page: PageOptions,
): Promise<readonly CandleRow[]> {
  const stored = await storedCandlesNearby(db, series, page)
  if (stored.candles.length > 0 || !canBeRolledUp(series.interval)) return stored.candles
  const minutes = await storedCandlesNearby(db, { ...series, interval: '1m' }, { ...page, limit: 1 })
  const newest = minutes.candles[0]
  if (newest === undefined) return []
  return rolledUpCandles(db, series, rolledUpRange(series.interval, page, newest.openTime))
}

/**
 * Reads the newest `limit` stored candles that open before `before`, ascending. It searches nearby first, because a
 * search without a beginning reads every chunk.
 */
async function storedCandles(
  db: Kysely<Database>,
  series: CandleSeries,
  page: PageOptions,
  nearby?: CandlesNearby,
): Promise<readonly CandleRow[]> {
  const { candles, from } = nearby ?? (await storedCandlesNearby(db, series, page))
  const missing = page.limit - candles.length
  if (missing === 0) return candles
  return [...(await candlesWithin(db, series, { from: serviceMs(-Infinity), to: from }, missing)), ...candles]
}

async function candlesWithin(
  db: Kysely<Database>,
  series: CandleSeries,
  { from, to }: TimeRange,
  limit: number,
): Promise<CandleRow[]> {
  const newest = db
    .selectFrom('market.candles')
    .select(['open_time as openTime', 'open', 'high', 'low', 'close', 'base_volume as baseVolume'])
    .select(['quote_turnover as quoteTurnover', 'is_closed as isClosed', 'is_closed as isComplete'])
    .where(ofCandles(series))
    .where('open_time', '<', instant(to))
    .orderBy('open_time', 'desc')
    .limit(limit)
  const rows = await (Number.isFinite(from) ? newest.where('open_time', '>=', instant(from)) : newest).execute()
  return rows.toReversed()
}

/** From this length on, each candle is a slice. Grouping its many minutes would cost more than another look-up. */
const longMs = intervalMs['4H']

/**
 * Rolls up the stored minutes of a range into candles of the series' interval, ascending and aligned to 00:00 UTC. A
 * candle is complete if each of its minutes is closed, or proven to be without trade. It counts as closed if it is
 * complete, or if all stored minutes are closed and the last one is among them.
 */
async function rolledUpCandles(
  db: Kysely<Database>,
  series: CandleSeries,
  { from, to }: TimeRange,
): Promise<CandleRow[]> {
  const lengthMs = intervalMs[series.interval]
  const minute = { ...series, interval: '1m' } as const
  const minutes = ofCandles(minute)
  const length = duration(lengthMs)
  const beforeLast = duration(lengthMs - minuteMs)
  // Reads slice by slice, so that the groups of a slice stay in the processor's cache. A slice of short candles is a
  // whole day, because a compressed table returns a thousand minutes at a time.
  const sliceMs = lengthMs < longMs ? dayMs : lengthMs
  const slice = duration(sliceMs)
  const opens = sliceMs === lengthMs ? sql.ref('slice') : sql`date_bin(${length}, open_time, timestamptz 'epoch')`
  // The first and last price need no sorting, because they are those of the first and last minute. If one of these is
  // missing, the minute in its place is looked up. The planner skips chunks only by a plain range like this one, not by
  // greatest() or a column. It therefore stands beside all other bounds.
  const inRange = sql`open_time >= ${instant(from)} and open_time < ${instant(to)}`
  const { rows } = await sql<CandleRow>`
    select opens as "openTime",
      coalesce(first_open, (select open from market.candles where ${minutes} and ${inRange} and open_time = first_time)) as open,
      high, low,
      coalesce(last_close, (select close from market.candles where ${minutes} and ${inRange} and open_time = last_time)) as close,
      base_volume as "baseVolume", quote_turnover as "quoteTurnover",
      is_complete or (are_closed and last_time = opens + ${beforeLast}) as "isClosed", is_complete as "isComplete"
    from generate_series(${instant(Math.floor(from / sliceMs) * sliceMs)}, ${instant(to - 1)}, ${slice}) as slice
    cross join lateral (
      select opens, max(open) filter (where open_time = opens) as first_open, max(high) as high, min(low) as low,
        max(close) filter (where open_time = opens + ${beforeLast}) as last_close,
        ${wholeSumOf('base_volume')} as base_volume, ${wholeSumOf('quote_turnover')} as quote_turnover,
        bool_and(is_closed) as are_closed, count(*) filter (where is_closed) as closed,
        min(open_time) as first_time, max(open_time) as last_time
      from (
        select ${opens} as opens, open_time, open, high, low, close, base_volume, quote_turnover, is_closed
        from market.candles
        where ${minutes} and ${inRange}
          and open_time >= slice and open_time < slice + ${slice}
      ) as minute
      group by opens
    ) as candle
    cross join lateral (
      select closed = ${lengthMs / minuteMs} or (are_closed and opens + ${length} <= ${instant(to)} and coalesce((
        select c.ranges @> tstzrange(opens, opens + ${length})
        from recorder_page.coverage c where ${ofSeries(candleStream(minute))}
      ), false)) as is_complete
    ) as proof
    order by opens`.execute(db)
  return rows
}
