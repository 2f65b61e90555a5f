import { hourMs } from '../../market/values.js'

/** Longest wait for an instrument that brings nothing, unless maxPollMs is longer. Trading may begin at any time. */
const longestMs = hourMs

/** Longest time between two requests for an instrument after `empty` responses in a row that brought nothing new. */
export function longestWaitMs(empty: number, maxPollMs: number): number {
  return Math.min(Math.max(longestMs, maxPollMs), maxPollMs * 2 ** Math.min(empty, 20))
}

/**
 * Mean of `longestWaitMs` for an instrument whose fills come at random times. An instrument is asked for at least this
 * often while no other is busier.
 *
 * @param fillsPerMs fills per millisecond
 */
export function meanWaitMs(fillsPerMs: number, maxPollMs: number): number {
  let weights = 0
  let weighted = 0
  // The weight is how often this number of empty responses in a row occurs, relative to zero of them.
  for (let empty = 0, weight = 1; ; empty++) {
    const waitMs = longestWaitMs(empty, maxPollMs)
    const isLongest = waitMs === longestWaitMs(empty + 1, maxPollMs)
    const chanceOfNone = Math.exp(-fillsPerMs * waitMs)
    if (isLongest && chanceOfNone === 1) return waitMs
    const occurs = isLongest ? weight / (1 - chanceOfNone) : weight
    weights += occurs
    weighted += occurs * waitMs
    if (isLongest) return weighted / weights
    weight *= chanceOfNone
  }
}
