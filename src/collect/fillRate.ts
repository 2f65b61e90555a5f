import type { TimeMs } from '../market/values.js'
import { fillsPerPage } from './fillContinuity.js'
import type { SeenFill } from './fillSchedule.js'

/** Over how many of the newest fills a rate is taken: a burst shows in the newest ones first. */
const windows = [15, 30, 60, fillsPerPage]

/**
 * How many fills per millisecond to expect, by an answer: the highest rate that any number of its newest fills shows, and
 * the rate over all of it. Silence since the newest fill lowers both.
 */
export function fillRate(
  newestFirst: readonly SeenFill[],
  now: TimeMs,
): { readonly burst: number; readonly mean: number } {
  let burst = 0
  let mean = 0
  for (const window of windows) {
    const count = Math.min(window, newestFirst.length)
    const oldest = newestFirst[count - 1]
    if (oldest === undefined) break
    mean = count / Math.max(1, now - oldest.ts)
    burst = Math.max(burst, mean)
    if (count < window) break
  }
  return { burst, mean }
}

/** A fill that is smaller than most of these, so that volume divided by it overestimates their number; 0 without fills. */
export function smallSize(fills: readonly SeenFill[]): number {
  const sizes = fills.map(({ size }) => Number(size)).toSorted((a, b) => a - b)
  return sizes[sizes.length >> 2] ?? 0
}
