import type { Kysely } from 'kysely'
import { candlesIn, gridOf, withCandles } from '../market/candle.js'
import { normalized, type TimeRange } from '../market/timeRange.js'
import { missingCandles } from '../ledger/missing.js'
import type { NewWant, WantKind } from '../ledger/wants.js'
import type { Database } from '../db/schema.js'
import { candleStream } from '../db/series.js'
import type { RequestedSeries } from './request.js'

/** A requested series with the ranges that have to be fetched. */
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
      return {
        ...options,
        series: candleStream(series),
        ranges: missing,
        floor: range.from,
        isUrgent,
        hasOpenBeginning,
      }
    })
}

export function candlesMissing(planned: readonly PlannedSeries[]): number {
  return planned.reduce((sum, { series, missing }) => sum + candlesIn(gridOf(series.interval, null), missing), 0)
}
