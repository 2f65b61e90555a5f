import { candlesIn } from '../market/candleGrid.js'
import { intervalMs } from '../market/candle.js'
import type { TimeRange } from '../market/timeRange.js'
import type { OpenWant } from '../ledger/candleSlices.js'
import type { CandleOperation } from './sources.js'

/** The largest slice: 200 pages of `history-candles`, some ten seconds of a whole budget, minutes of a shared one. */
const maxCandles = 20_000
/** The smallest slice, which the last worker may still have in hand: a page of `candles`, ten of `history-candles`. */
const minCandles = 1_000
/** Missing candles are divided by this number for a slice, so that several workers end at about the same time. */
const slicesPerWant = 16
/** Slices are this much larger while the beginning of a series is unknown, because each has to look for it. */
const openBeginningFactor = 20

/** Cuts the newest part off the missing ranges of a want: whole pages of both operations, some minutes of work. */
export function cutSlice({ series, ranges, hasOpenBeginning }: OpenWant): TimeRange[] {
  const lengthMs = intervalMs[series.interval]
  const share = Math.ceil(candlesIn({ lengthMs }, ranges) / slicesPerWant / 1000) * 1000
  const size = Math.min(maxCandles, Math.max(minCandles, share))
  let roomMs = (hasOpenBeginning ? size * openBeginningFactor : size) * lengthMs
  const slice: TimeRange[] = []
  for (const { from, to } of ranges.toReversed()) {
    if (roomMs <= 0) break
    slice.unshift({ from: Math.max(from, to - roomMs), to })
    roomMs -= to - from
  }
  return slice
}

/** A slice requests one page at a time. Slices are added until this many requests wait for the limit. */
const enoughWaiting = 3
const maxSlices = 32
/**
 * No slice is added while this many request `candles`, because the live streams need that operation for much of each
 * minute. Their requests do not count as waiting, so that other slices keep `history-candles` busy.
 */
const maxRecentSlices = 6

/** The operation that a running slice requests at the moment. Null before its first page. */
export type Asking = CandleOperation | null

/**
 * Returns true if another slice stays within `maxSlices`, `maxRecentSlices` and `enoughWaiting`.
 *
 * @param waiting number of repair and backfill requests that wait for the rate limits
 */
export function hasRoom(asking: readonly Asking[], waiting: number): boolean {
  const recent = asking.filter((operation) => operation === 'candles').length
  const starting = asking.filter((operation) => operation === null).length
  return (
    asking.length < maxSlices && recent < maxRecentSlices && Math.max(0, waiting - recent) + starting < enoughWaiting
  )
}
