import type { TimeRange } from '../market/timeRange.js'
import { dayMs, type TimeMs } from '../market/values.js'

/** Operations that hold the past of candles, each asked backwards from an end. */
export type CandleOperation = 'candles' | 'history-candles'

/** How an operation gives the past. */
export interface Source<Operation extends string = string> {
  readonly operation: Operation
  /** The largest number of rows in a page. */
  readonly pageRows: number
  /** The longest time between the ends of a request; null for any. */
  readonly maxSpanMs: number | null
  /** True when the operation lacks candles above some age. Its empty pages show that age. */
  readonly hasReach: boolean
}

/** In the order in which they are asked: the largest pages first. */
export const candleSources: readonly Source<CandleOperation>[] = [
  { operation: 'candles', pageRows: 1000, maxSpanMs: null, hasReach: true },
  { operation: 'history-candles', pageRows: 100, maxSpanMs: 90 * dayMs, hasReach: false },
]

/** Asks for the newest page of what opens in `window`. */
export interface PageRequest {
  readonly operation: CandleOperation
  readonly window: TimeRange
}

export interface PageResponse {
  /** Opening times of its closed candles. */
  readonly openTimes: readonly TimeMs[]
  /** Ranges that the response leaves out between two of its candles. */
  readonly silence: readonly TimeRange[]
}

/** The number of rows at intervals of `lengthMs` that a page holds. */
export function pagePlaces({ pageRows, maxSpanMs }: Source, lengthMs: number): number {
  return maxSpanMs === null ? pageRows : Math.max(1, Math.min(pageRows, Math.floor(maxSpanMs / lengthMs)))
}

export function candleSource(operation: CandleOperation): Source<CandleOperation> {
  const source = candleSources.find((one) => one.operation === operation)
  if (source === undefined) throw new RangeError(`no source ${operation}`)
  return source
}

export interface PageParameters {
  readonly startTime?: TimeMs
  readonly endTime: TimeMs
  readonly limit: number
}

/**
 * Returns the parameters of a request for a page. Sources differ in whether ends are inclusive. A wrong guess costs one
 * row of a page, which the next page brings.
 *
 * `candles` gets times a millisecond before each boundary, where inclusive and exclusive ends mean the same.
 * `history-candles` needs times on the boundary: otherwise its response may begin one interval earlier. Its startTime
 * is left out, because it was seen to be ignored and counts towards the 90 days.
 */
export function pageParameters({ operation, window: { from, to } }: PageRequest, lengthMs: number): PageParameters {
  // One to spare: a candle beyond an inclusive end must not push out the oldest.
  const limit = Math.min(candleSource(operation).pageRows, Math.ceil((to - from) / lengthMs) + 1)
  return operation === 'candles' ? { startTime: from - 1, endTime: to - 1, limit } : { endTime: to, limit }
}
