import type { TimeRange } from '../market/timeRange.js'
import { dayMs, type TimeMs } from '../market/values.js'

export type CandleOperation = 'candles' | 'history-candles'

/**
 * Asks for every candle that opens in `window`. It is no longer than a page of the operation, or it is to be seen whether the
 * service counts the candles of a sparse series or their places: then the newest page of it is meant.
 */
export interface PageRequest {
  readonly operation: CandleOperation
  readonly window: TimeRange
}

/** What a response says. */
export interface PageResponse {
  /** Of its closed candles. */
  readonly openTimes: readonly TimeMs[]
  /** What it leaves out between two of its candles. */
  readonly silence: readonly TimeRange[]
}

/** An operation that was asked for the same so often without a word counts as silent; asked again it is after a while. */
export const maxAttempts = 3
export const retryDelayMs = 100

export interface PageParameters {
  readonly startTime?: TimeMs
  readonly endTime: TimeMs
  readonly limit: number
}

const pageRows: Readonly<Record<CandleOperation, number>> = { candles: 1000, 'history-candles': 100 }
const longestHistorySpanMs = 90 * dayMs

/** How many candles a page can hold: `history-candles` covers at most 90 days at a time. */
export function pageCandles(operation: CandleOperation, lengthMs: number): number {
  const rows = pageRows[operation]
  return operation === 'candles' ? rows : Math.max(1, Math.min(rows, Math.floor(longestHistorySpanMs / lengthMs)))
}

/** The newest page of a range. */
export function newestPage(operation: CandleOperation, { from, to }: TimeRange, lengthMs: number): PageRequest {
  const reach = to - pageCandles(operation, lengthMs) * lengthMs
  return { operation, window: { from: Math.max(from, reach), to } }
}

/**
 * What is known of the boundaries that the service understands. Sources disagree on them, so they are taken from its responses;
 * being wrong costs a request and never a candle, because only what was received counts.
 */
export class Conventions {
  #historyEndInclusive = false

  /**
   * The parameters for a page. `candles` is asked a millisecond before each boundary, where inclusive and exclusive mean the
   * same. `history-candles` must be asked on the boundary itself: off it, its response may begin one interval earlier. Its
   * startTime is left out: it was seen to be ignored, and counts towards the 90 days.
   */
  parameters({ operation, window }: PageRequest, lengthMs: number): PageParameters {
    // One to spare, so that a candle beyond an end that turns out to be inclusive does not push out the oldest.
    const limit = Math.min(pageRows[operation], Math.ceil((window.to - window.from) / lengthMs) + 1)
    if (operation === 'candles') return { startTime: window.from - 1, endTime: window.to - 1, limit }
    return { endTime: this.#historyEndInclusive ? window.to - lengthMs : window.to, limit }
  }

  /** Learns from the opening times that a page was answered with. */
  learn({ operation, window }: PageRequest, { endTime }: PageParameters, openTimes: readonly TimeMs[]): void {
    if (operation === 'candles' || openTimes.length === 0) return
    const newest = Math.max(...openTimes)
    if (endTime === window.to && newest === endTime) this.#historyEndInclusive = true
    // Asked up to and including the last candle of the window, and it alone is missing: the end is exclusive after all.
    else if (endTime < window.to && newest < endTime && newest >= endTime - (window.to - endTime))
      this.#historyEndInclusive = false
  }
}
