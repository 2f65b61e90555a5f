import { type Interval, intervalMs } from '../../market/candle.js'
import type { PaceLimits } from './pace.js'

/** Candles of more than an hour are looked at hourly, because it is not known at which hour they close. */
export const longestCandleCycleMs = intervalMs['1H']

/**
 * Longest time between two requests for a series that brings no trades. A response holds a thousand candles, so that asking
 * late loses nothing; but the end of what is proven must not fall so far behind that it looks like a gap to be repaired.
 */
export const maxCandleWaitMs = 8 * 60_000

export function paceLimits(interval: Interval): PaceLimits {
  const everyMs = Math.min(longestCandleCycleMs, intervalMs[interval])
  return { everyMs, maxMs: Math.max(everyMs, maxCandleWaitMs) }
}
