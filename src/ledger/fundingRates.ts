import type { Kysely } from 'kysely'
import { type FutureKey, fundingPageRows, type FundingRate, fundingSteps, longestFundingMs } from '../market/funding.js'
import { normalized, type Ranges, subtract, type TimeRange } from '../market/timeRange.js'
import { hourMs, minuteMs, type TimeMs } from '../market/values.js'
import { instant } from '../db/columns.js'
import type { Database } from '../db/schema.js'
import { instrumentStream } from '../db/series.js'
import { appendRows, type WriteResult } from '../db/writeRows.js'
import { type Batch, missingRows } from './batch.js'
import { claimEvents } from './events.js'

interface StoredRates extends WriteResult {
  readonly gapsFound: number
  /** Ranges that the stored rates prove. */
  readonly proven: Ranges
}

const missedReason = 'settlements are missing by the interval of the instrument'
/** Stored rates this far around the new ones are read too. They show whether a settlement is missing between rates. */
const marginMs = 3 * longestFundingMs
/** Time for a settled rate to appear. It usually takes a second; the rest allows for a late service. */
const lateMs = minuteMs

/** Returns the time of which a live response shows all rates; null if it shows none for certain. */
export function shownRates(batch: Batch<FutureKey, FundingRate>): TimeRange | null {
  const { rows, requestTime, isPart, tooOld = 0 } = batch
  if (rows.length === 0 || isPart || missingRows(batch) > 0) return null
  const times = rows.map(({ ts }) => ts)
  const [oldest, newest] = [Math.min(...times), Math.max(...times)]
  const from = rows.length + tooOld < fundingPageRows ? oldest - longestFundingMs : oldest
  return { from, to: Math.max(newest + 1, requestTime - lateMs) }
}

/**
 * Stores settled rates with what they prove. `trx` must be a transaction. The interval of a rate is the time since the
 * settlement before it, if that is known.
 *
 * @param shown the time of which `rates` are all that the service has; null: unknown
 */
export async function storeFundingRates(
  trx: Kysely<Database>,
  { category, symbol }: FutureKey,
  rates: readonly FundingRate[],
  shown: TimeRange | null,
): Promise<StoredRates> {
  const series = instrumentStream('funding_rates', { category, symbol })
  const times = rates.map(({ ts }) => ts)
  const [from, to] = [Math.min(...times, shown?.from ?? Infinity), Math.max(...times, shown?.to ?? -Infinity)]
  const stored = await trx
    .selectFrom('market.funding_rates')
    .select(['ts', 'interval_hours'])
    .where('category', '=', category)
    .where('symbol', '=', symbol)
    .where('ts', '>=', instant(from - marginMs))
    .where('ts', '<=', instant(to + marginMs))
    .execute()
  const steps = fundingSteps([...new Set([...times, ...stored.map(({ ts }) => ts)])].toSorted((a, b) => a - b))
  const hours = new Map(steps.map((step) => [step.to, step.isWhole === true ? wholeHours(step) : null]))
  const written = await appendRows(
    trx,
    'funding_rates',
    rates.map((rate) => ({ ...rate, intervalHours: hours.get(rate.ts) ?? null })),
  )
  for (const { ts, interval_hours: before } of stored) {
    const known = hours.get(ts) ?? null
    if (before !== null || known === null) continue
    await trx
      .updateTable('market.funding_rates')
      .set({ interval_hours: known })
      .where('category', '=', category)
      .where('symbol', '=', symbol)
      .where('ts', '=', instant(ts))
      .execute()
  }
  const proven = shown === null ? [] : subtract(normalized([shown]), notProven(steps, Math.max(...times)))
  const gapsFound = await claimEvents(trx, series, proven, missedReason)
  return { ...written, gapsFound, proven }
}

function wholeHours({ from, to }: TimeRange): number | null {
  return (to - from) % hourMs === 0 ? (to - from) / hourMs : null
}

/** Returns steps in which a settlement is missing, and the time from the next expected one on. */
function notProven(steps: ReturnType<typeof fundingSteps>, newest: TimeMs): TimeRange[] {
  const last = steps.at(-1)
  const broken = steps.filter(({ isWhole }) => isWhole === false).map((step) => ({ from: step.from + 1, to: step.to }))
  const after = last?.isWhole === null ? last.from + 1 : Math.max(newest, last?.to ?? newest) + longestFundingMs
  return normalized([...broken, { from: after, to: Infinity }])
}
