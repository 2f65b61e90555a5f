import type { TimeRange } from '../market/timeRange.js'
import type { TimeMs } from '../market/values.js'
import { candleSources, pagePlaces, type Source } from './sources.js'

/** Up to this many pages are all looked at. Of a longer range only a sample of pages is. */
const maxPages = 64
/** The first request to a source with a reach covers this many pages. A second request covers the rest. */
const firstPages = 8

export interface Below {
  /** Sources in the order in which they are asked. */
  readonly sources: readonly Source[]
  readonly top: TimeMs
  readonly bottom: TimeMs
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
 * Requests that look for a candle between two times, nearest first. A service may count the places of a page instead of
 * its candles. Therefore one page may be silent and the next one not.
 */
export function windowsBelow({ sources, top, bottom, isFloor, lengthMs, isSample }: Below): Look[] {
  return sources.flatMap((source) => {
    const pageMs = pageLength(source, lengthMs)
    const lowest = isFloor ? bottom - pageMs : bottom
    // The known reach may be wrong, so this source is asked for the whole range.
    if (source.hasReach) {
      const split = Math.max(lowest, top - firstPages * pageMs)
      const halves = [{ from: split, to: top }, ...(split > lowest ? [{ from: lowest, to: split }] : [])]
      return halves.map((window) => ({ source, window }))
    }
    const windows = pageWindows(top, bottom, pageMs, isSample || isSampled(top, bottom, lengthMs))
    const last = isFloor ? [{ from: lowest, to: bottom }] : []
    return [...windows, ...last].map((window) => ({ source, window }))
  })
}

/** Returns true if there are too many pages between two times to look at each of them. */
export function isSampled(top: TimeMs, bottom: TimeMs, lengthMs: number): boolean {
  return candleSources.some((source) => !source.hasReach && top - bottom > maxPages * pageLength(source, lengthMs))
}

/** Pages between two times: all of them, or a sample at ever longer distances with the lowest one. */
function pageWindows(top: TimeMs, bottom: TimeMs, pageMs: number, isSample: boolean): TimeRange[] {
  const windows: TimeRange[] = []
  for (let distance = 0; top - distance > bottom; distance = isSample ? distance * 4 + pageMs : distance + pageMs) {
    windows.push({ from: Math.max(bottom, top - distance - pageMs), to: top - distance })
  }
  if (isSample && top > bottom) windows.push({ from: bottom, to: bottom + pageMs })
  return windows
}

/** The time that a page covers, in milliseconds. One row is spared in case the end is inclusive. */
function pageLength(source: Source, lengthMs: number): number {
  return Math.max(1, pagePlaces(source, lengthMs) - 1) * lengthMs
}
