import { longestWaitMs } from './fillWait.js'

/** State of an instrument after its last response. */
export interface FillsSeen {
  /** When the last response came; before the first, when the instrument was covered. */
  readonly atMs: number
  /** Fills per millisecond in the last response; null before the first. */
  readonly perMs: number | null
  /** Responses in a row that brought nothing new. */
  readonly empty: number
}

/** Time allowed for a response to arrive and to be stored, whatever the instrument's rate. */
const graceMs = 30_000

interface LateFillsOptions {
  readonly nowMs: number
  readonly maxPollMs: number
  readonly fillsPerPage: number
  /** Expected number of an instrument's fills that no response has shown. */
  readonly unseen: (key: string) => number
}

/**
 * Counts the instruments that trade and were not asked for in time, and those without fills. An instrument is late
 * beyond the longest wait that it is allowed. It is also late when both its rate and its tickers suggest a page of
 * unseen fills or more. After a burst the rate stays high, and the tickers show that the burst is over. An instrument
 * with half a page that waits for a burst elsewhere is not late.
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
