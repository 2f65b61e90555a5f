import { longestWaitMs } from './fillWait.js'

/** When an instrument's fills were last seen, and how fast they came. */
export interface FillsSeen {
  /** When it was answered; before the first response, since when it is covered. */
  readonly atMs: number
  /** Fills a millisecond in the last response; null before the first. */
  readonly perMs: number | null
  /** Responses in a row that brought nothing new. */
  readonly empty: number
}

/** Time for a response to come and be stored, whatever an instrument's rate is. */
const graceMs = 30_000

export interface LateFillsOptions {
  readonly nowMs: number
  readonly maxPollMs: number
  readonly fillsPerPage: number
  /** How many fills of an instrument are expected that no response has shown, by all that is known. */
  readonly unseen: (key: string) => number
}

/**
 * How many of the instruments that trade were not asked in due time: before more fills were to be expected than one response
 * shows, and in any case within the longest time that it may go unasked. One without fills is late for nothing. A page that a
 * burst has filled makes its rate look high for long; the tickers since then show that it is over. One that waits with half a
 * page while the requests go to a burst elsewhere is not late: whoever has most unseen fills is asked.
 */
export function lateFills(
  seen: Iterable<readonly [key: string, FillsSeen]>,
  { nowMs, maxPollMs, fillsPerPage, unseen }: LateFillsOptions,
): { readonly lateTargets: number; readonly quietTargets: number } {
  let [lateTargets, quietTargets] = [0, 0]
  for (const [key, { atMs, perMs, empty }] of seen) {
    const waitedMs = nowMs - atMs - graceMs
    if (perMs === 0) quietTargets++
    else if (waitedMs > longestWaitMs(empty, maxPollMs)) lateTargets++
    else if (waitedMs > fillsPerPage / (perMs ?? 0) && unseen(key) >= fillsPerPage) lateTargets++
  }
  return { lateTargets, quietTargets }
}
