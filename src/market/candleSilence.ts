import type { TimeRange } from './timeRange.js'
import type { TimeMs } from './values.js'

export interface SilenceBounds {
  readonly lengthMs: number
  /** Candles that close later are not settled: the service may still be making them. */
  readonly settledUntil: TimeMs
}

/**
 * Where one answer leaves out candles between two that it gives: nothing was traded there. What else could it mean? That the
 * service makes a candle late, so only what has settled counts; that it hides rows for a while, so whoever stores this has it
 * looked at once more, later; that a row could not be understood, so an answer with such a row proves nothing and does not
 * come here; and that days began to open at another hour, so candles must lie on one grid. Before the first candle of an answer
 * and after its last one, silence may as well be the end of the page.
 *
 * @param openTimes of all candles of one answer, the forming one too
 */
export function silenceBetween(openTimes: Iterable<TimeMs>, { lengthMs, settledUntil }: SilenceBounds): TimeRange[] {
  const sorted = [...openTimes].sort((a, b) => a - b)
  const ranges: TimeRange[] = []
  for (const [index, openTime] of sorted.entries()) {
    const next = sorted[index + 1]
    if (next === undefined || (next - openTime) % lengthMs !== 0) continue
    const from = openTime + lengthMs
    const settled = Math.floor((settledUntil - from) / lengthMs) * lengthMs + from
    const to = Math.min(next, settled)
    if (from < to) ranges.push({ from, to })
  }
  return ranges
}
