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

/**
 * How many of the instruments that trade were not asked in due time: before more fills were to be expected than one response
 * shows, and in any case within the longest time that it may go unasked. One without fills is late for nothing.
 */
export function lateFills(
  seen: Iterable<FillsSeen>,
  {
    nowMs,
    maxPollMs,
    fillsPerPage,
  }: { readonly nowMs: number; readonly maxPollMs: number; readonly fillsPerPage: number },
): { readonly lateTargets: number; readonly quietTargets: number } {
  let [lateTargets, quietTargets] = [0, 0]
  for (const { atMs, perMs, empty } of seen) {
    if (perMs === 0) quietTargets++
    else if (nowMs - atMs > Math.min(longestWaitMs(empty, maxPollMs), fillsPerPage / (perMs ?? 0)) + graceMs)
      lateTargets++
  }
  return { lateTargets, quietTargets }
}
