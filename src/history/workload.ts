import { candlesIn, intervalMs } from '../market/candle.js'
import type { Operation } from '../market/operation.js'
import type { StreamName } from '../market/stream.js'
import type { TimeRange } from '../market/timeRange.js'
import { addMs, dayMs, laterOf } from '../market/values.js'
import type { OpenWant } from '../ledger/slices.js'

/** Largest slice: 200 pages of `history-candles`. They take some ten seconds, or minutes if others share the limit. */
const maxCandles = 20_000
/**
 * Smallest slice: one page of `candles`, or ten of `history-candles`. The last slice keeps one worker busy while the
 * others have nothing left to do, so it must be short.
 */
const minCandles = 1_000
/** Missing candles are divided by this number for a slice, so that several workers end at about the same time. */
const slicesPerWant = 16
/** Slices are this much larger while the beginning of a series is unknown, because each has to look for it. */
const openBeginningFactor = 20

/** Longest slice of events. It may be long, because each of its pages is stored by itself. */
const eventSliceMs = dayMs
const maxEventRanges = 500

/** Cuts the newest part off the missing ranges of a want: whole pages of both operations, some minutes of work. */
export function cutSlice({ series, ranges, hasOpenBeginning }: OpenWant): TimeRange[] {
  if (series.interval === '') {
    // Numbered pages begin with the newest row each time, so they are fetched in one slice.
    const isNumbered = series.stream !== 'fills'
    return newest(ranges.slice(-maxEventRanges), isNumbered ? Number.POSITIVE_INFINITY : eventSliceMs)
  }
  const lengthMs = intervalMs[series.interval]
  const share = Math.ceil(candlesIn({ lengthMs }, ranges) / slicesPerWant / 1000) * 1000
  const size = Math.min(maxCandles, Math.max(minCandles, share))
  return newest(ranges, (hasOpenBeginning ? size * openBeginningFactor : size) * lengthMs)
}

/** Returns the newest parts of the ranges, which together are no longer than `roomForMs`. */
function newest(ranges: readonly TimeRange[], roomForMs: number): TimeRange[] {
  let roomMs = roomForMs
  const slice: TimeRange[] = []
  for (const { from, to } of ranges.toReversed()) {
    if (roomMs <= 0) break
    slice.unshift({ from: laterOf(from, addMs(to, -roomMs)), to })
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

/** Pages of a series of events are requested one after another, so several series keep the limit busy. */
const maxEventSlices = 8

/** The operation that a running slice requests at the moment. Null before its first page. */
export type Asking = Operation | null

/**
 * Returns true if another slice of a stream may run. Candles stay within `maxSlices`, `maxRecentSlices` and
 * `enoughWaiting`. Each other stream has `maxEventSlices` of its own, so that a slow operation holds back no other.
 *
 * @param waiting number of repair and backfill requests that wait for the rate limits
 */
export function hasRoom(
  stream: StreamName,
  running: readonly { readonly stream: StreamName; readonly asking: Asking }[],
  waiting: number,
): boolean {
  const alike = running.filter((slice) => slice.stream === stream)
  if (stream !== 'candles') return alike.length < maxEventSlices
  const recent = alike.filter(({ asking }) => asking === 'candles').length
  const starting = alike.filter(({ asking }) => asking === null).length
  const others = Math.max(0, waiting - recent - (running.length - alike.length))
  return alike.length < maxSlices && recent < maxRecentSlices && others + starting < enoughWaiting
}
