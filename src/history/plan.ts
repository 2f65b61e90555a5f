import type { Kysely } from 'kysely'
import { candlesIn, gridOf, withCandles } from '../market/candleGrid.js'
import { intervalMs } from '../market/candle.js'
import { type TimeRange, normalized } from '../market/timeRange.js'
import { missingCandles } from '../ledger/history/candleCoverage.js'
import type { OpenWant } from '../ledger/history/candleSlices.js'
import type { NewWant, WantKind } from '../ledger/history/candleWants.js'
import type { Database } from '../db/schema.js'
import type { RequestedSeries } from './request.js'

/** A requested series and what of it has to be got. */
export interface PlannedSeries extends RequestedSeries {
  readonly missing: readonly TimeRange[]
}

export async function planSeries(
  db: Kysely<Database>,
  requested: readonly RequestedSeries[],
  options: { readonly again: boolean },
): Promise<PlannedSeries[]> {
  const known = await missingCandles(db, requested, { leaveOutAskedLately: true })
  return requested.map((request, index) => {
    const { missing = [request.range], oldestKnown = null } = known[index] ?? {}
    const wanted = options.again ? normalized([request.range]) : missing
    return { ...request, missing: withCandles(gridOf(request.series.interval, oldestKnown), wanted) }
  })
}

export function wantsOf(
  planned: readonly PlannedSeries[],
  options: { readonly kind: WantKind; readonly again: boolean },
): NewWant[] {
  return planned
    .filter(({ missing }) => missing.length > 0)
    .map(({ series, range, missing, isUrgent, hasOpenBeginning }) => {
      return { ...options, series, ranges: missing, floor: range.from, isUrgent, hasOpenBeginning }
    })
}

export function candlesMissing(planned: readonly PlannedSeries[]): number {
  return planned.reduce((sum, { series, missing }) => sum + candlesIn(gridOf(series.interval, null), missing), 0)
}

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
