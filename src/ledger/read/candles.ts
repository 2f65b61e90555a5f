import { type Kysely, sql } from 'kysely'
import { type Candle, type CandleSeries, type Interval, intervalMs, isAlignedToMidnight } from '../../market/candle.js'
import type { TimeRange } from '../../market/timeRange.js'
import { type TimeMs, dayMs, minuteMs } from '../../market/values.js'
import type { Database } from '../../db/schema.js'
import { ofCandles } from '../../db/series.js'
import { duration, instant } from '../../db/columns.js'

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

type CandleRow = Omit<Candle, keyof CandleSeries>

/** Where candles are without gaps, so many times the asked number of intervals holds all of them. */
const lookback = 3
const minLookbackMs = dayMs

interface CandlesNearby {
  readonly candles: readonly CandleRow[]
  /** Candles that open before were not looked for. */
  readonly from: TimeMs
}

/** The newest `limit` candles that open before `before`. */
interface PageOptions {
  readonly before: TimeMs
  readonly limit: number
}

/** The newest `limit` stored candles that open in a short time before `before`, ascending: few chunks are looked into. */
async function storedCandlesNearby(
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
async function storedCandles(
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
  const newest = db
    .selectFrom('market.candles')
    .select(['open_time as openTime', 'open', 'high', 'low', 'close', 'base_volume as baseVolume'])
    .select(['quote_turnover as quoteTurnover', 'is_closed as isClosed'])
    .where(ofCandles(series))
    .where('open_time', '<', instant(to))
    .orderBy('open_time', 'desc')
    .limit(limit)
  const rows = await (Number.isFinite(from) ? newest.where('open_time', '>=', instant(from)) : newest).execute()
  return rows.toReversed()
}

/** From here on a candle holds so many minutes that telling them apart by candle costs more than another look-up. */
const longMs = intervalMs['4H']

/**
 * Candles of the series' interval, made of the stored minutes of a range and aligned to 00:00 UTC; ascending. One counts as
 * closed when all of its minutes are and the last of them is there.
 */
async function rolledUpCandles(
  db: Kysely<Database>,
  series: CandleSeries,
  { from, to }: TimeRange,
): Promise<CandleRow[]> {
  const lengthMs = intervalMs[series.interval]
  const minutes = ofCandles({ ...series, interval: '1m' })
  const length = duration(lengthMs)
  const beforeLast = duration(lengthMs - minuteMs)
  // Slice by slice, so that the groups of one stay in the processor's cache. Not finer than a day where candles are
  // short: a compressed table gives out a thousand minutes at a time.
  const sliceMs = lengthMs < longMs ? dayMs : lengthMs
  const slice = duration(sliceMs)
  const opens = sliceMs === lengthMs ? sql.ref('slice') : sql`date_bin(${length}, open_time, timestamptz 'epoch')`
  // No sorting for the first and the last price: they are those of the first and the last minute, and only where one of
  // these is missing the minute that stands in for it is looked up.
  // Beside every other bound: by these the planner leaves out chunks, and it sees through neither greatest() nor a column.
  const inRange = sql`open_time >= ${instant(from)} and open_time < ${instant(to)}`
  const { rows } = await sql<CandleRow>`
    select opens as "openTime",
      coalesce(first_open, (select open from market.candles where ${minutes} and ${inRange} and open_time = first_time)) as open,
      high, low,
      coalesce(last_close, (select close from market.candles where ${minutes} and ${inRange} and open_time = last_time)) as close,
      base_volume as "baseVolume", quote_turnover as "quoteTurnover",
      are_closed and last_time = opens + ${beforeLast} as "isClosed"
    from generate_series(${instant(Math.floor(from / sliceMs) * sliceMs)}, ${instant(to - 1)}, ${slice}) as slice
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
