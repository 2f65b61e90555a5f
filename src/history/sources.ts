import type { TimeRange } from '../market/timeRange.js'
import { addMs, dayMs, laterOf, type ServiceMs } from '../market/values.js'

/** Operations that give the past of candles, backwards from an end. */
type CandleOperation = 'candles' | 'history-candles'

/** How an operation gives the past of candles. */
export interface Source {
  readonly operation: CandleOperation
  /** The largest number of rows in a page. */
  readonly pageRows: number
  /** The longest time between the ends of a request; null if there is no bound. */
  readonly maxSpanMs: number | null
  /** True when the operation lacks candles above some age. Its empty pages show that age. */
  readonly hasReach: boolean
}

export const candleSource: Readonly<Record<CandleOperation, Source>> = {
  candles: { operation: 'candles', pageRows: 1000, maxSpanMs: null, hasReach: true },
  'history-candles': { operation: 'history-candles', pageRows: 100, maxSpanMs: 90 * dayMs, hasReach: false },
}
/** Sources of candles in the order in which they are requested: the largest pages first. */
export const candleSources = [candleSource.candles, candleSource['history-candles']] as const

/** A request for the newest page of candles that open in `window`. */
export interface PageRequest {
  readonly operation: CandleOperation
  readonly window: TimeRange
}

export interface PageResponse {
  /** Opening times of the closed candles in the response. */
  readonly openTimes: readonly ServiceMs[]
  /** Ranges that the response leaves out between two of its candles. */
  readonly silence: readonly TimeRange[]
  /** A response shows what it lacks if it has rows that are not stored, or is an error or an empty body. */
  readonly lack: 'shown' | 'unclear' | 'untold'
}

/** Returns the number of rows at intervals of `lengthMs` that a page holds. */
export function pagePlaces({ pageRows, maxSpanMs }: Source, lengthMs: number): number {
  return maxSpanMs === null ? pageRows : Math.max(1, Math.min(pageRows, Math.floor(maxSpanMs / lengthMs)))
}

interface PageParameters {
  readonly startTime?: ServiceMs
  readonly endTime: ServiceMs
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
  // One candle more is requested, so that a candle beyond an inclusive end does not push out the oldest.
  const limit = Math.min(candleSource[operation].pageRows, Math.ceil((to - from) / lengthMs) + 1)
  return operation === 'candles'
    ? { startTime: addMs(from, -1), endTime: addMs(to, -1), limit }
    : { endTime: to, limit }
}

/** All pages of a range are looked at if there are no more than this. Otherwise only a sample of them is. */
const maxPages = 64
/** The first request to a source with a reach covers this many pages. A second request covers the rest. */
const firstPages = 8

interface Below {
  /** Sources in the order in which they are requested. */
  readonly sources: readonly Source[]
  readonly top: ServiceMs
  readonly bottom: ServiceMs
  /** True when nothing below `bottom` is wanted. One page below it shows whether the series is older. */
  readonly isFloor: boolean
  readonly lengthMs: number
  readonly isSample: boolean
}

export interface Look {
  readonly source: Source
  readonly window: TimeRange
}

/**
 * Returns the requests that look for a candle between two times, the nearest to `top` first. A service may count
 * intervals instead of candles. An empty page may then be followed by an older page with candles.
 */
export function windowsBelow({ sources, top, bottom, isFloor, lengthMs, isSample }: Below): Look[] {
  return sources.flatMap((source) => {
    const pageMs = pageLength(source, lengthMs)
    const lowest = isFloor ? addMs(bottom, -pageMs) : bottom
    // The known reach may be wrong, so this source is asked for the whole range.
    if (source.hasReach) {
      const split = laterOf(lowest, addMs(top, -firstPages * pageMs))
      const halves = [{ from: split, to: top }, ...(split > lowest ? [{ from: lowest, to: split }] : [])]
      return halves.map((window) => ({ source, window }))
    }
    const windows = pageWindows(top, bottom, pageMs, isSample || isSampled(top, bottom, lengthMs))
    const last = isFloor ? [{ from: lowest, to: bottom }] : []
    return [...windows, ...last].map((window) => ({ source, window }))
  })
}

/** Returns true if there are too many pages between two times to look at each of them. */
export function isSampled(top: ServiceMs, bottom: ServiceMs, lengthMs: number): boolean {
  return candleSources.some((source) => !source.hasReach && top - bottom > maxPages * pageLength(source, lengthMs))
}

/** Returns the pages between two times: all, or a sample at ever longer distances that includes the lowest page. */
function pageWindows(top: ServiceMs, bottom: ServiceMs, pageMs: number, isSample: boolean): TimeRange[] {
  const windows: TimeRange[] = []
  for (let distance = 0; top - distance > bottom; distance = isSample ? distance * 4 + pageMs : distance + pageMs) {
    const to = addMs(top, -distance)
    windows.push({ from: laterOf(bottom, addMs(to, -pageMs)), to })
  }
  if (isSample && top > bottom) windows.push({ from: bottom, to: addMs(bottom, pageMs) })
  return windows
}

/** Returns the time that a page covers, in milliseconds. One row is spared, because the end may be inclusive. */
function pageLength(source: Source, lengthMs: number): number {
  return Math.max(1, pagePlaces(source, lengthMs) - 1) * lengthMs
}
