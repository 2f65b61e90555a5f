import type { CandleSeries } from '../../market/candle.js'
import { dayMs, hourMs, minuteMs, type TimeMs } from '../../market/values.js'

/** Lengths of the intervals; null for months, which differ. Intervals with `utc` begin at midnight UTC. */
const lengths = {
  '1m': minuteMs,
  '3m': 3 * minuteMs,
  '5m': 5 * minuteMs,
  '15m': 15 * minuteMs,
  '30m': 30 * minuteMs,
  '1H': hourMs,
  '4H': 4 * hourMs,
  '6H': 6 * hourMs,
  '12H': 12 * hourMs,
  '1D': dayMs,
  '3D': 3 * dayMs,
  '1W': 7 * dayMs,
  '1M': null,
  '6Hutc': 6 * hourMs,
  '12Hutc': 12 * hourMs,
  '1Dutc': dayMs,
  '3Dutc': 3 * dayMs,
  '1Wutc': 7 * dayMs,
  '1Mutc': null,
} as const

/** Every interval that the service has. Its specification lists fewer. */
export type ServedInterval = keyof typeof lengths
export const servedIntervals = Object.keys(lengths) as readonly ServedInterval[]

export type ServedSeries = Omit<CandleSeries, 'interval'> & { readonly interval: ServedInterval }

/** Intervals that open at the service's midnight, which need not be midnight UTC. */
const followsMidnight: ReadonlySet<ServedInterval> = new Set(['1D', '3D', '1W', '1M'])
/** The first Monday after the epoch. */
const monday = 4 * dayMs

/** Returns the opening time of the candle that holds `at`. Days begin `midnightMs` after midnight UTC. */
export function openTimeOf(at: TimeMs, interval: ServedInterval, midnightMs: number): TimeMs {
  const offset = followsMidnight.has(interval) ? midnightMs : 0
  const local = at - offset
  const length = lengths[interval]
  if (length === null) {
    const date = new Date(local)
    return Date.UTC(date.getUTCFullYear(), date.getUTCMonth()) + offset
  }
  const anchor = length === 7 * dayMs ? monday : 0
  return Math.floor((local - anchor) / length) * length + anchor + offset
}

/** Returns when the candle that opens at `openTime` closes and the next one opens. */
export function nextOpenTime(openTime: TimeMs, interval: ServedInterval, midnightMs: number): TimeMs {
  const length = lengths[interval]
  if (length !== null) return openTime + length
  // After 33 days it is the next month, whatever the length of this one.
  return openTimeOf(openTime + 33 * dayMs, interval, midnightMs)
}

/** Returns when the candle opens that is `count` candles before the one that opens at `openTime`. */
export function openTimeBefore(openTime: TimeMs, interval: ServedInterval, midnightMs: number, count: number): TimeMs {
  const length = lengths[interval]
  if (length !== null) return openTime - count * length
  let before = openTime
  for (let n = 0; n < count; n++) before = openTimeOf(before - 1, interval, midnightMs)
  return before
}
