import type { MarketResponses } from '../../api/marketContract.js'
import { approximate } from '../format.js'

export type Candle = MarketResponses['candles']['candles'][number]
type Gap = MarketResponses['candles']['gaps'][number]
interface Range {
  readonly from: number
  readonly to: number
}

/** A stretch of the chart without candles, or with a known gap; it begins where a candle would open. */
export interface ChartGap extends Range {
  /** empty: proven that nothing is missing. missing: not recorded, or not yet. lost: gone for good. */
  readonly kind: 'empty' | 'missing' | 'lost'
}

/** A place on the time axis: a candle, or the place of one that is not there. */
export interface Slot {
  readonly time: number
  readonly candle: Candle | null
}

/** Longer stretches without candles are drawn shorter: the candles around them are what the chart is for. */
const slotsPerGap = 40

/** Candles by opening time; of two with the same the later one counts. */
export function mergeCandles(before: readonly Candle[], more: readonly Candle[]): Candle[] {
  const byTime = new Map(before.map((candle) => [candle.openTime, candle]))
  for (const candle of more) byTime.set(candle.openTime, candle)
  return [...byTime.values()].toSorted((a, b) => a.openTime - b.openTime)
}

/** A price at a moment: a fill's, or the last price of a ticker. */
export interface Trade {
  readonly ts: number
  readonly price: string
}

/**
 * Candles that follow the trades which are newer than the last of them. A candle is read when it closes, so between two reads the
 * trades say where the price is. The volume of a candle that only they form is not known.
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
      newest = { openTime, ...prices, baseVolume: null, quoteTurnover: null, isClosed: false }
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
  return [...before, newest]
}

/**
 * Where candles are missing between the first and `until`, and the known gaps.
 *
 * @param until up to when candles are expected; the recorder's clock
 */
export function chartGapsOf(
  candles: readonly Candle[],
  lengthMs: number,
  known: { readonly covered: readonly Range[]; readonly gaps: readonly Gap[] },
  until: number,
): ChartGap[] {
  const chartGaps: ChartGap[] = []
  const ends = candles.slice(1).map(({ openTime }) => openTime)
  for (const [index, { openTime }] of candles.entries()) {
    const from = openTime + lengthMs
    // The next candle may not have been asked for yet: it is late after two more of its lengths.
    const to =
      ends[index] ?? (until - from > 2 * lengthMs ? from + Math.floor((until - from) / lengthMs) * lengthMs : from)
    if (to > from) chartGaps.push({ from, to, kind: kindOf({ from, to }, known) })
  }
  const first = candles[0]?.openTime ?? Number.POSITIVE_INFINITY
  for (const gap of known.gaps) {
    if (gap.state === 'repaired' || gap.to <= first) continue
    if (chartGaps.some(({ from, to }) => from <= gap.from && gap.to <= to)) continue
    const before = Math.floor((Math.max(gap.from, first) - first) / lengthMs)
    // Candles need not open at a multiple of their length: the first one tells where the others do.
    chartGaps.push({ from: first + before * lengthMs, to: gap.to, kind: gap.state === 'lost' ? 'lost' : 'missing' })
  }
  return chartGaps.toSorted((a, b) => a.from - b.from)
}

function kindOf(
  range: Range,
  { covered, gaps }: { readonly covered: readonly Range[]; readonly gaps: readonly Gap[] },
): ChartGap['kind'] {
  if (gaps.some((gap) => gap.state === 'lost' && gap.from < range.to && range.from < gap.to)) return 'lost'
  return covered.some(({ from, to }) => from <= range.from && range.to <= to) ? 'empty' : 'missing'
}

/** The places on the time axis, ascending: candles, and room for what is missing. */
export function slotsOf(candles: readonly Candle[], chartGaps: readonly ChartGap[], lengthMs: number): Slot[] {
  const times = new Map<number, Candle | null>(candles.map((candle) => [candle.openTime, candle]))
  for (const { from, to } of chartGaps) {
    for (const time of placesOf({ from, to }, lengthMs)) if (!times.has(time)) times.set(time, null)
  }
  return [...times].map(([time, candle]) => ({ time, candle })).toSorted((a, b) => a.time - b.time)
}

/** The opening times that a gap takes up on the axis; it begins at one. */
export function placesOf({ from, to }: Range, lengthMs: number): number[] {
  const places: number[] = []
  for (let time = from; time < to && places.length < slotsPerGap; time += lengthMs) places.push(time)
  return places
}
