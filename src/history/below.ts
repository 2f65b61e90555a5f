import type { TimeRange } from '../market/timeRange.js'
import type { TimeMs } from '../market/values.js'
import { candleSources, pagePlaces, type Source } from './sources.js'

/** So many pages are all looked at; of more than that, a sample. */
const maxPages = 64
/** A first question of the source with the longest pages covers so many of them, and a second one the rest. */
const firstPages = 8

export interface Below {
  /** Whom to ask first. */
  readonly sources: readonly Source[]
  readonly top: TimeMs
  readonly bottom: TimeMs
  /** Below the bottom nothing is wanted: a page below it tells candles there from the beginning of the series. */
  readonly isFloor: boolean
  readonly lengthMs: number
  readonly isSample: boolean
}

export interface Look {
  readonly source: Source
  readonly window: TimeRange
}

/**
 * Questions that look for a candle between two times, nearest first. A service may count the places of a page and not its candles,
 * so one page may be silent and the next one not.
 */
export function windowsBelow({ sources, top, bottom, isFloor, lengthMs, isSample }: Below): Look[] {
  return sources.flatMap((source) => {
    const pageMs = pageLength(source, lengthMs)
    const lowest = isFloor ? bottom - pageMs : bottom
    // What is believed of its reach may be wrong: it is asked for all of the time.
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

/** Whether there are more pages between two times than are all looked at. */
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

/** One row less than a page holds: it has room for one too many at its end, should that be inclusive. */
function pageLength(source: Source, lengthMs: number): number {
  return Math.max(1, pagePlaces(source, lengthMs) - 1) * lengthMs
}
