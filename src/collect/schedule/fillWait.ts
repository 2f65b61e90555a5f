import { hourMs } from '../../market/values.js'

/** What an instrument goes unasked at most, however long its responses bring nothing: things can change. */
const longestMs = hourMs

/** How long an instrument goes unasked at most after so many responses in a row that brought nothing new. */
export function longestWaitMs(empty: number, maxPollMs: number): number {
  return Math.min(Math.max(longestMs, maxPollMs), maxPollMs * 2 ** Math.min(empty, 20))
}

/**
 * The mean of that wait for an instrument whose fills come at random times: what it is asked at least, with nobody else busier.
 *
 * @param fillsPerMs fills a millisecond
 */
export function meanWaitMs(fillsPerMs: number, maxPollMs: number): number {
  let weights = 0
  let weighted = 0
  // How often each number of empty responses in a row occurs, for one time that there is none.
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
