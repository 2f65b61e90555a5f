import type { TimeMs } from '../../market/values.js'
import { fillsPerPage } from './fillContinuity.js'
import type { SeenFill } from './fillSchedule.js'

/** Over how many of the newest fills a rate is taken: a burst shows in the newest ones first. */
const windows = [15, 30, 60, fillsPerPage]

/** How many fills per millisecond to expect next: the highest rate that any number of the newest fills shows. */
export function currentRate(newestFirst: readonly SeenFill[], now: TimeMs): number {
  return Math.max(...windows.map((window) => averageRate(newestFirst.slice(0, window), now)))
}

/** Fills per millisecond from the oldest of these until now: silence since the newest one lowers it. */
export function averageRate(newestFirst: readonly SeenFill[], now: TimeMs): number {
  const oldest = newestFirst.at(-1)
  return oldest === undefined ? 0 : newestFirst.length / Math.max(1, now - oldest.ts)
}

/** A fill that is smaller than most of these, so that volume divided by it overestimates their number; 0 without fills. */
export function smallSize(fills: readonly SeenFill[]): number {
  const sizes = fills.map(({ size }) => Number(size)).toSorted((a, b) => a - b)
  return sizes[sizes.length >> 2] ?? 0
}
