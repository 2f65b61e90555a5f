import type { TimeMs } from './values.js'

const minuteMs = 60_000
const hourMs = 60 * minuteMs
const dayMs = 24 * hourMs

/** Length of each candle interval in milliseconds. The names are the service's and are case-sensitive. */
export const intervalMs = {
  '1m': minuteMs,
  '3m': 3 * minuteMs,
  '5m': 5 * minuteMs,
  '15m': 15 * minuteMs,
  '30m': 30 * minuteMs,
  '1H': hourMs,
  '4H': 4 * hourMs,
  '6H': 6 * hourMs,
  '12H': 12 * hourMs,
  '1D': 24 * hourMs,
  // The specification does not list these; where the service has them, days and weeks begin at its own midnight or at that of UTC.
  '3D': 3 * dayMs,
  '1W': 7 * dayMs,
  '6Hutc': 6 * hourMs,
  '12Hutc': 12 * hourMs,
  '1Dutc': dayMs,
  '3Dutc': 3 * dayMs,
  '1Wutc': 7 * dayMs,
} as const

export type Interval = keyof typeof intervalMs
export const intervals = Object.keys(intervalMs) as readonly Interval[]

/** When the candle that opens at `openTime` closes (exclusive end). */
export function closeTime(openTime: TimeMs, interval: Interval): TimeMs {
  return openTime + intervalMs[interval]
}

/** Those whose candles open at multiples of their length from 00:00 UTC, so that they can be made of minutes. */
export function isAlignedToMidnight(interval: Interval): boolean {
  return intervalMs[interval] <= dayMs
}
