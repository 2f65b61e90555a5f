import type { Kysely } from 'kysely'
import { candlesIn, gridOf, withCandles } from '../market/candle.js'
import { normalized, type TimeRange } from '../market/timeRange.js'
import { missingCandles, missingEvents } from '../ledger/missing.js'
import type { NewWant, WantKind } from '../ledger/wants.js'
import type { Database } from '../db/schema.js'
import { candlesOf, rowMs } from '../db/series.js'
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
  const candles = requested.flatMap(({ series, range }) => {
    const one = candlesOf(series)
    return one === null ? [] : [{ series: one, range }]
  })
  const known = await missingCandles(db, candles, { leaveOutAskedLately: true })
  const planned: PlannedSeries[] = []
  for (const request of requested) {
    const { series, range } = request
    const whole = normalized([range])
    if (series.interval === null) {
      planned.push({ ...request, missing: options.again ? whole : await missingEvents(db, series, range) })
      continue
    }
    const { missing = [range], oldestKnown = null } = known.shift() ?? {}
    const grid = gridOf(series.interval, oldestKnown)
    planned.push({ ...request, missing: withCandles(grid, options.again ? whole : missing) })
  }
  return planned
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

/** Counts the missing candles, and the missing minutes of rows with times of their own. */
export function rowsMissing(planned: readonly PlannedSeries[]): number {
  return planned.reduce((sum, { series, missing }) => sum + candlesIn({ lengthMs: rowMs(series) }, missing), 0)
}
