import { type Interval, intervalMs } from './interval.js'
import type { TimeRange } from './timeRange.js'
import type { TimeMs } from './values.js'
import { normalized, type Ranges } from './timeRanges.js'

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
  const ranges: TimeRange[] = []
  for (const from of openTimes) ranges.push({ from, to: from + lengthMs })
  return normalized(ranges)
}

/** Whether a candle may open in the range. As long as the anchor is unknown, one may. */
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
