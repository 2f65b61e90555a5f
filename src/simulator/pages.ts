import { setImmediate } from 'node:timers/promises'
import { dayMs, hourMs, type TimeMs } from '../market/values.js'
import { workedMs } from '../runtime/clock.js'
import { type CandleQuery, type PastFillsOperation, type PastFillsQuery, ServiceFailure } from './parameters.js'
import type { CandleRow } from './world/candles.js'
import { fixed, mix, mixText, mixWide, unit } from './world/hash.js'
import type { ServedSeries } from './world/intervals.js'
import type { Listing } from './world/listing.js'
import type { CandleRange, Quirks } from './world/quirks.js'
import type { World } from './world/world.js'
import type { Category } from '../market/category.js'
import type { Operation } from '../market/operation.js'
import { type FillRow, idsOfHistory, isOfInstrument, type PastFillRow } from './world/fillRows.js'

const realityIntervals: readonly string[] = ['1m', '5m', '15m', '1H', '4H', '1D']

/** How far back `candles` reaches, in days. */
const depthDays: Readonly<Record<string, number>> = {
  '1m': 30,
  '3m': 30,
  '5m': 60,
  '15m': 60,
  '30m': 90,
  '1H': 90,
  '4H': 240,
  '6H': 360,
  '12H': 720,
  '1D': 1_500,
}
const depthDaysOfLonger = 3_000

function depthDaysOf(quirks: Quirks, interval: string): number {
  const known = depthDays[interval.replace('utc', '')] ?? depthDaysOfLonger
  return quirks.candleDepthDays[interval] ?? known
}

/** The half-open range of opening times that a page may hold, and its largest number of candles. */
interface PageRange {
  readonly from: TimeMs
  readonly to: TimeMs
  readonly limit: number
}

/** Resolves to a page of candles, ascending: the most recent ones of the requested range. */
export async function candlePage(
  world: World,
  quirks: Quirks,
  operation: 'candles' | 'history-candles',
  query: CandleQuery,
  at: TimeMs,
  listing: Listing,
): Promise<readonly (readonly string[])[]> {
  if (listing.isReality && !realityIntervals.includes(query.interval)) {
    throw new ServiceFailure('48001', `The ${query.interval} interval is not supported for ${listing.symbol}`)
  }
  // Reality tokens only have market candles. The service silently gives them for every other type.
  const series = { ...query, type: listing.isReality ? ('market' as const) : query.type }
  const range =
    operation === 'candles'
      ? recentRange(quirks, query, at)
      : historyRange(quirks, query, at, world.openTime(series, at), (time) => world.openTime(series, time))
  const shownAt = at - (mixText(at, listing.symbol) % (quirks.candlesBehindMs + 1))
  const to = Math.min(range.to, shownAt + 1, listing.offTime ?? Number.POSITIVE_INFINITY)
  const limit = pageLimit(quirks, operation, range.limit)
  // Without a start, the oldest candles of a request would be those of years ago.
  const isFromOldest = quirks.oldestFirst.includes(operation) && range.from > Number.NEGATIVE_INFINITY
  const from = isFromOldest ? range.from : world.earliestOf(series, range.from, to, at, limit)
  const closed = (row: CandleRow): boolean => world.closeTime(series, Number(row[0])) <= at
  const isSeen = (row: CandleRow): boolean =>
    !quirks.hiddenCandles.some((hidden) => isHidden(hidden, operation, series, row, at)) &&
    !isLate(quirks, series, row, at)
  const isRevised = (row: CandleRow): boolean =>
    quirks.revisedCandles.some((range) => at >= range.after && isIn(range, series, row)) && closed(row)
  const all = await candlesOf(world, series, from, to, shownAt)
  const rows = (isFromOldest ? all.slice(0, limit) : all)
    .filter(isSeen)
    .map((row) => (isRevised(row) ? revised(row) : row))
    .map((row) => (quirks.eighthCandleValue ? [...row, row[6]] : row))
  return quirks.unordered.includes(operation) ? inOrder(quirks, operation, rows, at) : rows
}

/** Resolves to all candles of a range, which are computed in slices. */
async function candlesOf(
  world: World,
  series: ServedSeries,
  from: TimeMs,
  to: TimeMs,
  at: TimeMs,
): Promise<readonly CandleRow[]> {
  // If silence is left out, a page may span any time, and its cost depends only on its rows. It needs no slices.
  if (world.leavesOutSilence(series)) return world.candles(series, from, to, at)
  const rows: CandleRow[] = []
  const giveTurn = takeTurns()
  for (let start = from; start < to;) {
    // A slice is about an hour of minutes, or a single candle if candles are longer.
    const stop = Math.min(Math.max(world.closeTime(series, world.openTime(series, start)), start + hourMs), to)
    rows.push(...world.candles(series, start, stop, at))
    start = stop
    await giveTurn()
  }
  return rows
}

/** Returns true if the service still withholds the candle at `at`. The quirk `lateCandles` delays some candles. */
function isLate({ lateCandles }: Quirks, series: ServedSeries, row: CandleRow, at: TimeMs): boolean {
  if (lateCandles === null || at >= Number(row[0]) + lateCandles.forMs) return false
  const key = mixText(0x1a7e, [series.category, series.symbol, series.type, series.interval].join(' '))
  return unit(mixWide(key, Number(row[0]))) < lateCandles.share
}

/** Returns the range of `candles`: start exclusive, end inclusive, and no further back than the interval's depth. */
function recentRange(quirks: Quirks, query: CandleQuery, at: TimeMs): PageRange {
  const { startTime = Number.NEGATIVE_INFINITY, endTime = at } = query
  const oldest = at - depthDaysOf(quirks, query.interval) * dayMs
  if (quirks.candlesRefuseOldStart !== null && query.startTime !== undefined && startTime < oldest)
    throw new ServiceFailure(quirks.candlesRefuseOldStart, 'Parameter startTime verification failed')
  return {
    from: Math.max(quirks.candlesStartInclusive ? startTime : startTime + 1, oldest),
    to: quirks.candlesEndExclusive ? endTime : endTime + 1,
    limit: query.limit,
  }
}

/** Returns the range of `history-candles`: start ignored or inclusive, end exclusive, by default the forming candle. */
function historyRange(
  quirks: Quirks,
  query: CandleQuery,
  at: TimeMs,
  forming: TimeMs,
  openTime: (at: TimeMs) => TimeMs,
): PageRange {
  const { endTime = forming, startTime } = query
  const isIgnored = quirks.historyIgnoresStart || startTime === undefined
  const roundsUp = quirks.historyRoundsUp && endTime !== openTime(endTime)
  const end = quirks.historyEndInclusive ? endTime + 1 : endTime
  const to = quirks.historyHoldsRecent ? end : Math.min(end, at - 90 * dayMs)
  if (isIgnored) {
    return { from: Number.NEGATIVE_INFINITY, to, limit: roundsUp ? Math.min(query.limit + 1, 100) : query.limit }
  }
  const from = roundsUp ? openTime(startTime - 1) : startTime
  return { from, to, limit: query.limit }
}

function isHidden(
  hidden: Quirks['hiddenCandles'][number],
  operation: string,
  series: ServedSeries,
  row: CandleRow,
  at: TimeMs,
): boolean {
  const isOver = hidden.until !== undefined && at >= hidden.until
  return !isOver && (hidden.operation ?? operation) === operation && isIn(hidden, series, row)
}

function isIn(range: CandleRange, series: ServedSeries, row: CandleRow): boolean {
  const openTime = Number(row[0])
  return (
    openTime >= range.from &&
    openTime < range.to &&
    (range.category ?? series.category) === series.category &&
    (range.symbol ?? series.symbol) === series.symbol &&
    (range.type ?? series.type) === series.type &&
    (range.interval ?? series.interval) === series.interval
  )
}

/** Returns the candle with a high and a volume that are one unit of the last place larger. */
function revised([timestamp, open, high, low, close, volume, turnover]: CandleRow): CandleRow {
  return [timestamp, open, lastPlaceUp(high), low, close, volume === '0' ? volume : lastPlaceUp(volume), turnover]
}

/** Longest time in milliseconds that a computation may hold the event loop before other requests get a turn. */
const turnMs = 1

/** Returns a function for a long computation to call at each step: after a slice of work, others get a turn. */
export function takeTurns(): () => Promise<void> | undefined {
  let startedMs = workedMs()
  return () => {
    if (workedMs() - startedMs < turnMs) return undefined
    return setImmediate().then(() => {
      startedMs = workedMs()
    })
  }
}

type HiddenFills = Quirks['hiddenFills'][number]

/** How far back the history of fills reaches. */
const historyMs = 90 * dayMs

/** Returns the newest fills, without those that are hidden at the moment. */
export function fillPage(
  world: World,
  quirks: Quirks,
  category: Category,
  symbol: string,
  at: TimeMs,
  asked: number,
): readonly FillRow[] {
  const limit = pageLimit(quirks, 'fills', asked)
  const hidden = hiddenFrom('newest', quirks, category, symbol, at)
  const shownUntil = at - (mixText(at, symbol) % (quirks.fillsBehindMs + 1))
  const more = hidden.reduce((sum, { from, to }) => sum + world.fills(category, symbol, from, to).length, 0)
  const rows = world
    .latestFills(category, symbol, shownUntil, limit + more)
    .filter((row) => !isHiddenFill(hidden, Number(row.ts)))
    .slice(0, limit)
    .map((row) => flapping(quirks, row, row.execId, at))
  return inOrder(quirks, 'fills', rows.toReversed(), at, rows)
}

/** Returns a page of the history of fills: the newest requested ones, as far back as the history reaches. */
export function pastFillPage(
  world: World,
  quirks: Quirks,
  operation: PastFillsOperation,
  query: PastFillsQuery,
  at: TimeMs,
): readonly PastFillRow[] {
  const { category, symbol, startTime, endTime, idLessThan } = query
  const isFromOldest = quirks.oldestFirst.includes(operation)
  const range = {
    from: Math.max(startTime, at - historyMs),
    to: Math.min(endTime, at) + 1,
    idBelow: idLessThan === null ? null : idOfLive(idLessThan, quirks, category),
    isFromOldest,
  }
  const hidden = hiddenFrom('history', quirks, category, symbol, at)
  // Hidden fills shorten the page, because the service finds all its rows and then does not show all of them.
  const rows = world
    .pastFills(category, symbol, range, pageLimit(quirks, operation, query.limit))
    .filter(({ ts }) => !isHiddenFill(hidden, Number(ts) < 1e11 ? Number(ts) * 1000 : Number(ts)))
    .map((row) => flapping(quirks, row, row.tradeId, at))
  return quirks.unordered.includes(operation) ? inOrder(quirks, operation, rows, at) : rows
}

/** Returns the number of rows that a page may hold. A service may cut limits silently. */
export function pageLimit({ pageRows }: Quirks, operation: Operation, asked: number): number {
  return Math.min(asked, pageRows[operation] ?? asked)
}

/**
 * Returns rows in the order in which an operation gives them.
 *
 * @param rows the rows as an operation gives them that has the oldest first, or no order
 * @param otherwise the rows as other operations give them
 */
export function inOrder<Row>(
  { oldestFirst, unordered }: Quirks,
  operation: Operation,
  rows: readonly Row[],
  at: TimeMs,
  otherwise = rows,
): readonly Row[] {
  if (unordered.includes(operation)) {
    const keyed = rows.map((row, place) => ({ row, key: mix(at, place, 0x0de) }))
    return keyed.toSorted((one, other) => one.key - other.key).map(({ row }) => row)
  }
  return oldestFirst.includes(operation) ? rows : otherwise
}

/** Returns a fill with the price of this response: that of some fills differs by one unit now and then. */
function flapping<Row extends { readonly price: string }>(
  { flappingFills }: Quirks,
  row: Row,
  id: string,
  at: TimeMs,
): Row {
  if (flappingFills === 0 || unit(mixText(0xf1a9, id)) >= flappingFills || mixText(at, id) % 2 === 0) return row
  return { ...row, price: lastPlaceUp(row.price) }
}

/** Returns a decimal that is one unit of its last place larger. */
function lastPlaceUp(decimal: string): string {
  const places = decimal.includes('.') ? decimal.length - decimal.indexOf('.') - 1 : 0
  const units = BigInt(decimal.replace('.', '')) + 1n
  return fixed(units, places)
}

/** Returns the live id for an id of the history. The history's own ids begin with 9 instead of 1. */
function idOfLive(id: bigint, quirks: Quirks, category: Category): bigint {
  const text = String(id)
  return idsOfHistory(quirks, category) === 'other' && text.startsWith('9') ? BigInt(`1${text.slice(1)}`) : id
}

function hiddenFrom(
  where: 'newest' | 'history',
  quirks: Quirks,
  category: Category,
  symbol: string,
  at: TimeMs,
): readonly HiddenFills[] {
  return quirks.hiddenFills.filter(
    (range) =>
      (range.in ?? where) === where &&
      isOfInstrument(range, category, symbol) &&
      (range.until === undefined || at < range.until),
  )
}

function isHiddenFill(hidden: readonly HiddenFills[], ts: TimeMs): boolean {
  return hidden.some(({ from, to }) => ts >= from && ts < to)
}
