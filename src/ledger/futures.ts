import { type Kysely, sql } from 'kysely'
import type { FutureKey, InstrumentKey } from '../market/category.js'
import {
  fundingPageRows,
  type FundingRate,
  fundingSteps,
  type Liquidation,
  liquidationPageRows,
  liquidationReachMs,
  longestFundingMs,
} from '../market/funding.js'
import type { RowOf, StreamName } from '../market/stream.js'
import { normalized, type Ranges, subtract, type TimeRange } from '../market/timeRange.js'
import {
  addMs,
  earlierOf,
  hourMs,
  largest,
  laterOf,
  minuteMs,
  type ServiceMs,
  serviceMs,
  smallest,
} from '../market/values.js'
import { instant } from '../db/columns.js'
import { callFunction } from '../db/database.js'
import type { Database } from '../db/schema.js'
import { instrumentStream, ofInstrument, sameSeries, type Series } from '../db/series.js'
import { appendRows, type WriteResult } from '../db/writeRows.js'
import { type Batch, missingRows } from './batch.js'
import { hasVerdict, knownOf, multirangeText } from './verdicts.js'
import { attemptsWhere, type RepairAttempts } from './wants.js'

/**
 * Time for a settled rate or a liquidation to appear. A rate usually takes a second. A liquidation may appear after
 * later ones.
 */
const lateMs = minuteMs

interface StoredEvents extends WriteResult {
  readonly gapsFound: number
}

interface StoredRates extends StoredEvents {
  /** Ranges that the stored rates prove. */
  readonly proven: Ranges
}

const missedSettlement = 'settlements are missing by the interval of the instrument'
/** Stored rates this far around the new ones are read too. They show whether a settlement is missing between rates. */
const marginMs = 3 * longestFundingMs

/** Stores a live response with what it proves. `trx` must be a transaction. */
export async function storeFundingBatch(
  trx: Kysely<Database>,
  batch: Batch<FutureKey, FundingRate>,
): Promise<StoredEvents> {
  return storeFundingRates(trx, batch.target, batch.rows, shownRates(batch))
}

/** Returns the range of which a live response certainly shows all rates; null if there is none. */
function shownRates(batch: Batch<FutureKey, FundingRate>): TimeRange | null {
  const { rows, requestTime, provesNothing, tooOld = 0 } = batch
  if (rows.length === 0 || provesNothing || missingRows(batch) > 0) return null
  const times = rows.map(({ ts }) => ts)
  const [oldest, newest] = [smallest(times), largest(times)]
  const from = rows.length + tooOld < fundingPageRows ? addMs(oldest, -longestFundingMs) : oldest
  return { from, to: laterOf(addMs(newest, 1), addMs(requestTime, -lateMs)) }
}

/**
 * Stores settled rates with what they prove. `trx` must be a transaction. The interval of a rate is the time since the
 * settlement before it, if that is known.
 *
 * @param shown range of which `rates` are all rates that the service has; null: unknown
 */
export async function storeFundingRates(
  trx: Kysely<Database>,
  key: FutureKey,
  rates: readonly FundingRate[],
  shown: TimeRange | null,
): Promise<StoredRates> {
  const series = instrumentStream('funding_rates', key)
  const times = rates.map(({ ts }) => ts)
  const newest = largest(times)
  const [from, to] = [earlierOf(smallest(times), shown?.from ?? newest), laterOf(newest, shown?.to ?? newest)]
  const stored = await trx
    .selectFrom('market.funding_rates')
    .select(['ts', 'interval_hours'])
    .where(ofInstrument(key))
    .where('ts', '>=', instant(addMs(from, -marginMs)))
    .where('ts', '<=', instant(addMs(to, marginMs)))
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
      .where(ofInstrument(key))
      .where('ts', '=', instant(ts))
      .execute()
  }
  const proven = shown === null ? [] : subtract(normalized([shown]), notProven(steps, newest))
  const gapsFound = await claimEvents(trx, series, proven, missedSettlement)
  return { ...written, gapsFound, proven }
}

function wholeHours({ from, to }: TimeRange): number | null {
  return (to - from) % hourMs === 0 ? (to - from) / hourMs : null
}

/** Returns the ranges that lack a settlement, and the time after which the next settlement is overdue. */
function notProven(steps: ReturnType<typeof fundingSteps>, newest: ServiceMs): TimeRange[] {
  const last = steps.at(-1)
  const broken = steps
    .filter(({ isWhole }) => isWhole === false)
    .map((step) => ({ from: addMs(step.from, 1), to: step.to }))
  const after =
    last?.isWhole === null ? addMs(last.from, 1) : addMs(laterOf(newest, last?.to ?? newest), longestFundingMs)
  return normalized([...broken, { from: after, to: serviceMs(Infinity) }])
}

const missedLiquidations = 'more liquidations happened between two responses than one response shows'

/** Returns text that is equal for equal liquidations, and different for others. */
export function liquidationText({ ts, side, price, amount }: Liquidation): string {
  return `${ts} ${side} ${price} ${amount}`
}

/**
 * Numbers equal liquidations of one millisecond: 1, 2, 3. Each response, or group of joined pages, begins with 1 again.
 * Storing a response twice thus gives the same keys, and a liquidation that came late gets the next number.
 */
export function numberOccurrences(rows: readonly Liquidation[]): RowOf<'liquidations'>[] {
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
): Promise<StoredEvents> {
  const { target, rows, requestTime, provesNothing, tooOld = 0, hasMore = false } = batch
  const to = addMs(requestTime, -lateMs)
  const isFull = hasMore || rows.length + tooOld >= liquidationPageRows
  let from = addMs(requestTime, -liquidationReachMs)
  if (isFull) from = addMs(smallest(rows.map(({ ts }) => ts)), 1)
  else if (rows.length === 0) {
    // An empty response alone proves nothing. It extends the proven time if it reaches back to the end of that time.
    const until = await recordedUntil(trx, instrumentStream('liquidations', target))
    from = until !== null && until >= from ? until : to
  }
  const isProof = !provesNothing && missingRows(batch) === 0 && from < to
  return storeLiquidations(trx, target, rows, isProof ? { from, to } : null)
}

/**
 * Stores liquidations with what they prove. `trx` must be a transaction.
 *
 * @param shown range of which `rows` are all liquidations that the service has; null: unknown
 */
export async function storeLiquidations(
  trx: Kysely<Database>,
  key: FutureKey,
  rows: readonly Liquidation[],
  shown: TimeRange | null,
): Promise<StoredEvents> {
  const written = await appendRows(trx, 'liquidations', numberOccurrences(rows))
  const claim = shown === null ? [] : [shown]
  return {
    ...written,
    gapsFound: await claimEvents(trx, instrumentStream('liquidations', key), claim, missedLiquidations),
  }
}

/** Adds proven ranges of an instrument, and records gaps between them. Resolves to the number of new gaps. */
export async function claimEvents(
  trx: Kysely<Database>,
  { stream, category, symbol }: Series,
  claim: Ranges,
  reason: string,
): Promise<number> {
  if (claim.length === 0) return 0
  return callFunction(trx, 'recorder.claim_events', stream, category, symbol, multirangeText(claim), reason)
}

/** Resolves to the end of the proven time of an instrument; null if nothing is proven. */
async function recordedUntil(db: Kysely<Database>, series: Series): Promise<ServiceMs | null> {
  const row = await db
    .selectFrom('recorder.ledger')
    .select(({ fn }) => fn<ServiceMs | null>('upper', ['ranges']).as('until'))
    .where(knownOf(series, 'recorded'))
    .executeTakeFirst()
  return row?.until ?? null
}

/** A missing range of an instrument, with the repairs that were tried in vain. */
interface MissingRange extends InstrumentKey, RepairAttempts {
  readonly range: TimeRange
}

/** Finds each range that an instrument with proven time lacks, between `since` and the end of that time. */
export async function missingOfStream(
  db: Kysely<Database>,
  stream: StreamName,
  since: ServiceMs,
): Promise<MissingRange[]> {
  const begin = instant(since)
  const { rows } = await sql<Omit<MissingRange, 'range'> & TimeRange>`
    select k.category, k.symbol, lower(missing) as "from", upper(missing) as "to", w.*
    from recorder.ledger k
    cross join lateral unnest(
      tstzmultirange(tstzrange(${begin}, greatest(${begin}, upper(k.ranges)))) - k.ranges) as missing
    cross join lateral (${attemptsWhere(sql`${sameSeries('w', 'k')} and w.ranges && missing`)}) w
    where k.stream = ${stream} and ${hasVerdict('recorded', 'k')} and k.part = '-infinity'
    order by k.category, k.symbol, missing`.execute(db)
  return rows.map(({ from, to, ...of }) => ({ ...of, range: { from, to } }))
}
