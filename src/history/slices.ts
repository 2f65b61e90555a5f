import { candlesIn } from '../market/candleGrid.js'
import { intervalMs } from '../market/candle.js'
import type { TimeRange } from '../market/timeRange.js'
import type { OpenWant } from '../ledger/history/candleSlices.js'
import type { CandleOperation } from './sources.js'

/** 200 pages of `history-candles`: some ten seconds of a whole budget, minutes of a shared one. */
const maxCandles = 20_000
/** A page of `candles`, ten of the other operation: what the last worker may have left when the others are done. */
const minCandles = 1_000
/** So many slices at least of what is left, so that several workers end at about the same time. */
const slicesPerWant = 16
/** While nobody knows where a series begins, each of its slices would have to find out. */
const openBeginningFactor = 20

/** The newest part of what is missing of a want: whole pages of both operations, some minutes' work. */
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

/** A slice asks for one page after the other, so as many are taken as keep the limit busy: until some requests wait for it. */
const enoughWaiting = 3
const maxSlices = 32
/**
 * The live streams ask for candles, too, for most of each minute. Beside so many slices that wait for that operation, others are
 * taken that ask `history-candles`, which nobody else does.
 */
const maxRecentSlices = 6

/** What the slices in hand ask for at the moment: null before their first page. */
export type Asking = CandleOperation | null

/**
 * Whether another slice would find something to do.
 *
 * @param waiting requests of the past that wait for their place within the limits
 */
export function hasRoom(asking: readonly Asking[], waiting: number): boolean {
  const recent = asking.filter((operation) => operation === 'candles').length
  const starting = asking.filter((operation) => operation === null).length
  return (
    asking.length < maxSlices && recent < maxRecentSlices && Math.max(0, waiting - recent) + starting < enoughWaiting
  )
}
