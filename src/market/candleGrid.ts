import { type Interval, intervalMs } from './candle.js'
import { normalized, type Ranges, type TimeRange } from './timeRange.js'
import type { TimeMs } from './values.js'

/**
 * When the candles of an interval open: every `lengthMs`, one of them at `anchor`. The anchor is learned from candles that
 * were received, because days were seen to open at 16:00 UTC. Null until one was received.
 */
export interface Grid {
  readonly lengthMs: number
  readonly anchor: TimeMs | null
}

export function gridOf(interval: Interval, anchor: TimeMs | null): Grid {
  return { lengthMs: intervalMs[interval], anchor }
}

/** The stretches of time that the candles with these opening times fill. This alone is what may be claimed as covered. */
export function filledBy(openTimes: Iterable<TimeMs>, lengthMs: number): TimeRange[] {
  const ranges: { from: TimeMs; to: TimeMs }[] = []
  let last: { from: TimeMs; to: TimeMs } | undefined
  for (const from of openTimes) {
    const to = from + lengthMs
    // Responses have them in order, so that most of them only make the last stretch longer.
    if (last?.to === from) last.to = to
    else ranges.push((last = { from, to }))
  }
  return normalized(ranges)
}

/** True where a candle may open in the range. As long as the anchor is unknown, one may. */
function mayHoldCandle({ lengthMs, anchor }: Grid, { from, to }: TimeRange): boolean {
  if (from >= to) return false
  if (anchor === null || to - from >= lengthMs) return true
  return nextOpening(from, lengthMs, anchor) < to
}

/** Leaves out what is too narrow to hold a candle: it would be asked for again and again. */
export function withCandles(grid: Grid, ranges: Ranges): TimeRange[] {
  return ranges.filter((range) => mayHoldCandle(grid, range))
}

/** The most candles that can open in the ranges. */
export function candlesIn({ lengthMs }: Pick<Grid, 'lengthMs'>, ranges: Ranges): number {
  return ranges.reduce((sum, { from, to }) => sum + Math.ceil((to - from) / lengthMs), 0)
}

function nextOpening(at: TimeMs, lengthMs: number, anchor: TimeMs): TimeMs {
  return Math.ceil((at - anchor) / lengthMs) * lengthMs + anchor
}

export interface SilenceBounds {
  readonly lengthMs: number
  /** Candles that close later are not settled: the service may still be making them. */
  readonly settledUntil: TimeMs
}

/**
 * Where one response leaves out candles between two that it gives: nothing was traded there. What else could it mean? That the
 * service makes a candle late, so only what has settled counts; that it hides rows for a while, so whoever stores this has it
 * looked at once more, later; that a row could not be understood, so a response with such a row proves nothing and does not
 * come here; and that days began to open at another hour, so candles must lie on one grid. Before the first candle of a response
 * and after its last one, silence may as well be the end of the page.
 *
 * @param openTimes of all candles of one response, the forming one too
 */
export function silenceBetween(openTimes: Iterable<TimeMs>, { lengthMs, settledUntil }: SilenceBounds): TimeRange[] {
  const sorted = [...openTimes].sort((a, b) => a - b)
  const ranges: TimeRange[] = []
  for (let place = 1; place < sorted.length; place++) {
    const [openTime, next] = [sorted[place - 1] as TimeMs, sorted[place] as TimeMs]
    if ((next - openTime) % lengthMs !== 0) continue
    const from = openTime + lengthMs
    const settled = Math.floor((settledUntil - from) / lengthMs) * lengthMs + from
    const to = Math.min(next, settled)
    if (from < to) ranges.push({ from, to })
  }
  return ranges
}
