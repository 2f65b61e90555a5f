import type { MarketResponses } from '../../api/marketContract.js'
import type { TimeRange } from '../../../market/timeRange.js'
import { approximate } from '../format.js'

export type Candle = MarketResponses['candles']['candles'][number]
type Gap = MarketResponses['candles']['gaps'][number]

/** A stretch of the chart without candles, of a candle without some of its minutes, or with a known gap. It begins at an opening time. */
export interface ChartGap extends TimeRange {
  /** empty: proven that nothing is missing. missing: not recorded, or not yet. lost: cannot be recorded any more. */
  readonly kind: 'empty' | 'missing' | 'lost'
}

/** A place on the time axis, with a candle or for a missing one. */
export interface Slot {
  readonly time: number
  readonly candle: Candle | null
}

/** Largest number of places that a gap takes up. Longer gaps are drawn shorter, to leave room for the candles. */
const slotsPerGap = 40

/** Sorts candles by opening time. If two have the same time, the later one in the list counts. */
export function mergeCandles(candles: readonly Candle[]): Candle[] {
  const byTime = new Map(candles.map((candle) => [candle.openTime, candle]))
  return [...byTime.values()].toSorted((a, b) => a.openTime - b.openTime)
}

/** A price at a moment, from a fill or from the last price of a ticker. */
interface Trade {
  readonly ts: number
  readonly price: string
}

/**
 * Extends candles by newer trades. A candle is read only when it closes, so trades show the price in between. A candle
 * that has not closed has no known volume, because not all of its trades are shown.
 */
export function withTrades(candles: readonly Candle[], trades: readonly Trade[], lengthMs: number): readonly Candle[] {
  const last = candles.at(-1)
  if (last === undefined) return candles
  let newest: Candle = last
  for (const { ts, price } of trades.toSorted((a, b) => a.ts - b.ts)) {
    const places = Math.floor((ts - newest.openTime) / lengthMs)
    if (places < 0 || (places === 0 && newest.isClosed)) continue
    if (places > 0) {
      const openTime = newest.openTime + places * lengthMs
      const prices = { open: price, high: price, low: price, close: price }
      newest = { openTime, ...prices, baseVolume: null, quoteTurnover: null, isClosed: false, isComplete: false }
    } else {
      const isHigher = approximate(price) > approximate(newest.high)
      const isLower = approximate(price) < approximate(newest.low)
      newest = {
        ...newest,
        close: price,
        ...(isHigher && { high: price }),
        ...(isLower && { low: price }),
      }
    }
  }
  const before = newest.openTime === last.openTime ? candles.slice(0, -1) : candles
  return [...before, newest.isClosed ? newest : { ...newest, baseVolume: null, quoteTurnover: null }]
}

/** Widens the newest candle, while it forms, by what it was before: each event shows only the newest of its trades. */
export function widened(candles: readonly Candle[], before: Candle | undefined): readonly Candle[] {
  const newest = candles.at(-1)
  if (newest === undefined || newest.isClosed || before?.openTime !== newest.openTime) return candles
  const high = approximate(before.high) > approximate(newest.high) ? before.high : newest.high
  const low = approximate(before.low) < approximate(newest.low) ? before.low : newest.low
  return [...candles.slice(0, -1), { ...newest, open: before.open, high, low }]
}

/**
 * Finds missing candles between the first candle and `until`, and adds known gaps and candles that lack a part.
 *
 * @param until end of the time with expected candles, by the recorder's clock
 */
export function chartGapsOf(
  candles: readonly Candle[],
  lengthMs: number,
  known: { readonly covered: readonly TimeRange[]; readonly gaps: readonly Gap[] },
  until: number,
): ChartGap[] {
  const chartGaps: ChartGap[] = []
  const ends = candles.slice(1).map(({ openTime }) => openTime)
  for (const [index, { openTime }] of candles.entries()) {
    const from = openTime + lengthMs
    // The next candle may not have been requested yet. It counts as late after two more intervals.
    const to =
      ends[index] ?? (until - from > 2 * lengthMs ? from + Math.floor((until - from) / lengthMs) * lengthMs : from)
    if (to > from) chartGaps.push({ from, to, kind: kindOf({ from, to }, known) })
  }
  const first = candles[0]?.openTime ?? Number.POSITIVE_INFINITY
  for (const gap of known.gaps) {
    if (gap.state === 'repaired' || gap.to <= first) continue
    if (chartGaps.some(({ from, to }) => from <= gap.from && gap.to <= to)) continue
    const before = Math.floor((Math.max(gap.from, first) - first) / lengthMs)
    // Candles need not open at a multiple of their interval. The first candle shows where the others open.
    chartGaps.push({ from: first + before * lengthMs, to: gap.to, kind: gap.state === 'lost' ? 'lost' : 'missing' })
  }
  for (const [index, { openTime, isComplete, isClosed }] of candles.entries()) {
    // Trades may open the next candle before this one is read again, which has closed meanwhile.
    const isForming = !isClosed && (index === candles.length - 1 || until < openTime + 2 * lengthMs)
    if (isComplete || isForming || chartGaps.some(({ from, to }) => from <= openTime && openTime < to)) continue
    chartGaps.push({ from: openTime, to: openTime + lengthMs, kind: 'missing' })
  }
  return chartGaps.toSorted((a, b) => a.from - b.from)
}

function kindOf(
  range: TimeRange,
  { covered, gaps }: { readonly covered: readonly TimeRange[]; readonly gaps: readonly Gap[] },
): ChartGap['kind'] {
  if (gaps.some((gap) => gap.state === 'lost' && gap.from < range.to && range.from < gap.to)) return 'lost'
  return covered.some(({ from, to }) => from <= range.from && range.to <= to) ? 'empty' : 'missing'
}

/** Returns the places on the time axis, ascending: candles, and room for missing ones. */
export function slotsOf(candles: readonly Candle[], chartGaps: readonly ChartGap[], lengthMs: number): Slot[] {
  const times = new Map<number, Candle | null>(candles.map((candle) => [candle.openTime, candle]))
  for (const { from, to } of chartGaps) {
    for (const time of placesOf({ from, to }, lengthMs)) if (!times.has(time)) times.set(time, null)
  }
  return [...times].map(([time, candle]) => ({ time, candle })).toSorted((a, b) => a.time - b.time)
}

/** Returns the opening times for which a gap takes room on the axis. A gap begins at an opening time. */
export function placesOf({ from, to }: TimeRange, lengthMs: number): number[] {
  const places: number[] = []
  for (let time = from; time < to && places.length < slotsPerGap; time += lengthMs) places.push(time)
  return places
}
