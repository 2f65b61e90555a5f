import type { Kysely } from 'kysely'
import { type FutureKey, type Liquidation, liquidationPageRows, liquidationReachMs } from '../market/funding.js'
import type { TimeRange } from '../market/timeRange.js'
import { minuteMs } from '../market/values.js'
import type { Database } from '../db/schema.js'
import { instrumentStream } from '../db/series.js'
import { appendRows, type WriteResult } from '../db/writeRows.js'
import { type Batch, missingRows } from './batch.js'
import { claimEvents, recordedUntil } from './events.js'

interface CountedLiquidation extends Liquidation {
  /** Number of this liquidation among equal ones, from 1. Liquidations have no id. */
  readonly occurrence: number
}

/** Time within which a liquidation appears. It may appear after later ones. */
const lateMs = minuteMs
const missedReason = 'more liquidations happened between two responses than one response shows'

/** Returns text that is equal for equal liquidations, and different for others. */
export function liquidationText({ ts, side, price, amount }: Liquidation): string {
  return `${ts} ${side} ${price} ${amount}`
}

/**
 * Numbers equal liquidations of one response, or of several that were joined. Each time, those of a moment are
 * counted from 1 again. So a late one gets the next number, and a replay changes nothing.
 */
export function numberOccurrences(rows: readonly Liquidation[]): CountedLiquidation[] {
  const counts = new Map<string, number>()
  return rows.map((row) => {
    const text = liquidationText(row)
    const occurrence = (counts.get(text) ?? 0) + 1
    counts.set(text, occurrence)
    return { ...row, occurrence }
  })
}

/** Stores a live response with what it proves. `trx` must be a transaction. */
export async function storeLiquidationBatch(
  trx: Kysely<Database>,
  batch: Batch<FutureKey, Liquidation>,
): Promise<WriteResult & { readonly gapsFound: number }> {
  const { target, rows, requestTime, isPart, tooOld = 0, hasMore = false } = batch
  const to = requestTime - lateMs
  const isFull = hasMore || rows.length + tooOld >= liquidationPageRows
  let from = requestTime - liquidationReachMs
  if (isFull) from = Math.min(...rows.map(({ ts }) => ts)) + 1
  else if (rows.length === 0) {
    // An empty response proves nothing alone. It extends earlier proof, if it reaches back to the end of that.
    const until = await recordedUntil(trx, instrumentStream('liquidations', target))
    from = until !== null && until >= from ? until : to
  }
  return storeLiquidations(trx, target, rows, isPart || missingRows(batch) > 0 || from >= to ? null : { from, to })
}

/** @param shown the time of which `rows` are all liquidations that the service has; null: unknown */
export async function storeLiquidations(
  trx: Kysely<Database>,
  key: FutureKey,
  rows: readonly Liquidation[],
  shown: TimeRange | null,
): Promise<WriteResult & { readonly gapsFound: number }> {
  const written = await appendRows(trx, 'liquidations', numberOccurrences(rows))
  const claim = shown === null ? [] : [shown]
  return { ...written, gapsFound: await claimEvents(trx, instrumentStream('liquidations', key), claim, missedReason) }
}
