import { type Kysely, sql } from 'kysely'
import type { FutureKey, InstrumentKey } from '../market/category.js'
import {
  type FundingRate,
  fundingSteps,
  type Liquidation,
  longestFundingMs,
  nominalSettlement,
  requestedReachMs,
} from '../market/funding.js'
import type { RowOf } from '../market/stream.js'
import { normalized, type Ranges, subtract, type TimeRange, union } from '../market/timeRange.js'
import {
  addMs,
  earlierOf,
  hourMs,
  largest,
  laterOf,
  minuteMs,
  secondMs,
  type ServiceMs,
  smallest,
  trimmed,
} from '../market/values.js'
import { instant } from '../db/columns.js'
import { callFunction } from '../db/database.js'
import type { Database } from '../db/schema.js'
import { instrumentStream, ofInstrument, sameSeries, type Series, seriesValues } from '../db/series.js'
import { appendRows, type WriteResult } from '../db/writeRows.js'
import { type Batch, missingRows, unreadTimes } from './batch.js'
import { withoutFinal } from './missing.js'
import { provenBy, runOf } from './run.js'
import { hasVerdict, multirange, multirangeText, rangeTexts } from './verdicts.js'
import { attemptsWhere, type RepairAttempts } from './wants.js'

/**
 * Time for a settled rate or a liquidation to appear. A rate usually takes a second. A liquidation may appear after
 * later ones.
 */
export const eventLateMs = minuteMs

interface StoredEvents extends WriteResult {
  readonly gapsFound: number
  /** Ranges that the stored rows prove. */
  readonly proven: Ranges
}

const missedSettlement = 'settlements are missing by the interval of the instrument'
/** Stored rates this far around the new ones are read too. They show whether a settlement is missing between rates. */
const marginMs = 3 * longestFundingMs

/** Returns the time that a live response proves. */
export function provenByBatch<Row extends { readonly ts: ServiceMs }>(batch: Batch<FutureKey, Row>): Ranges {
  const { rows, requestTime, provesNothing } = batch
  if (provesNothing || missingRows(batch) > 0) return []
  return provenBy(runOf(rows.map(({ ts }) => ts)), addMs(requestTime, -eventLateMs))
}

/**
 * Stores settled rates with what they prove. `trx` must be a transaction. The nominal time of a settlement is its key.
 * The interval of a rate is the time since the settlement before it, if that is known.
 *
 * @param shown time of which `rates` are all rates that the service has. Each rate also proves its own second.
 * @param silent time that two responses showed to be silent. It is proven, whatever the interval says, unless a rate is
 *   stored in `beyond`, the time beyond the list, that is not among `rates`.
 */
export async function storeFundingRates(
  trx: Kysely<Database>,
  key: FutureKey,
  rates: readonly FundingRate[],
  shown: Ranges,
  { silent, beyond }: { readonly silent: Ranges; readonly beyond: Ranges } = { silent: [], beyond: [] },
): Promise<StoredEvents> {
  const series = instrumentStream('funding_rates', key)
  if (rates.length === 0) return { inserted: 0, updated: 0, gapsFound: 0, proven: [] }
  const named = rates.map((rate) => ({ ...rate, ts: nominalSettlement(rate.ts) }))
  const times = named.map(({ ts }) => ts)
  const stored = await trx
    .selectFrom('market.funding_rates')
    .select(['ts', 'interval_hours', 'funding_rate as fundingRate'])
    .where(ofInstrument(key))
    .where('ts', '>=', instant(earlierOf(beyond[0]?.from ?? smallest(times), addMs(smallest(times), -marginMs))))
    .where('ts', '<=', instant(laterOf(beyond.at(-1)?.to ?? largest(times), addMs(largest(times), marginMs))))
    .execute()
  const steps = fundingSteps([...new Set([...times, ...stored.map(({ ts }) => ts)])].toSorted((a, b) => a - b))
  const hours = new Map(steps.map((step) => [step.to, step.isWhole === true ? wholeHours(step) : null]))
  const written = await appendRows(
    trx,
    'funding_rates',
    (await withoutFinal(trx, series, named)).map((rate) => ({ ...rate, intervalHours: hours.get(rate.ts) ?? null })),
  )
  await weighRates(trx, series, stored, named)
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
  const isShown = new Set(times)
  const leftOutOf = (ranges: Ranges) =>
    stored.some(({ ts }) => !isShown.has(ts) && ranges.some(({ from, to }) => ts >= from && ts < to))
  const settled = shown.at(-1)?.to ?? 0
  // Whether the newest step is whole is neither proven nor missing before the next settlement.
  const known = Math.min(settled, steps.find(({ isWhole }) => isWhole === null)?.from ?? settled)
  const moments = times.filter((ts) => ts <= known).map((ts) => ({ from: ts, to: addMs(ts, secondMs) }))
  const run = shown.length === 0 || leftOutOf(shown) ? [] : union(shown, normalized(moments))
  const proven = union(subtract(run, notProven(steps)), leftOutOf(beyond) ? [] : silent)
  return { ...written, gapsFound: await claimEvents(trx, series, proven, missedSettlement), proven }
}

const disputedRate = 'a response gave a stored settlement another rate'

/** Notes settlements that come again with another rate as evidence, which ends where they come with the stored one. */
async function weighRates(
  trx: Kysely<Database>,
  series: Series,
  stored: readonly Pick<FundingRate, 'ts' | 'fundingRate'>[],
  shown: readonly Pick<FundingRate, 'ts' | 'fundingRate'>[],
): Promise<void> {
  const known = new Map([...shown.toReversed(), ...stored].map(({ ts, fundingRate }) => [ts, trimmed(fundingRate)]))
  const other = shown.filter(({ ts, fundingRate }) => known.get(ts) !== trimmed(fundingRate))
  const secondsOf = (rates: typeof shown) => normalized(rates.map(({ ts }) => ({ from: ts, to: addMs(ts, secondMs) })))
  const same = subtract(secondsOf(shown), secondsOf(other))
  const key = seriesValues(series)
  await callFunction(trx, 'recorder.end_evidence', ...key, 'disputed', multirangeText(same))
  if (other.length === 0) return
  await callFunction(trx, 'recorder.note_evidence', ...key, rangeTexts(secondsOf(other)), disputedRate)
}

function wholeHours({ from, to }: TimeRange): number | null {
  return (to - from) % hourMs === 0 ? (to - from) / hourMs : null
}

/** Returns the ranges that lack a settlement by the interval of the instrument, or may lack one. */
function notProven(steps: ReturnType<typeof fundingSteps>): TimeRange[] {
  return normalized(
    steps.filter(({ isWhole }) => isWhole !== true).map(({ from, to }) => ({ from: addMs(from, 1), to })),
  )
}

/** Returns text that is equal for equal liquidations, and different for others. Zeros at the end tell nothing. */
export function liquidationText({
  ts,
  side,
  price,
  amount,
}: Pick<Liquidation, 'ts' | 'side' | 'price' | 'amount'>): string {
  // Joined, it is one string. Of a template, a walk would hold all of its parts for each of its rows.
  return [ts, side, trimmed(price), trimmed(amount)].join(' ')
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

/**
 * Stores liquidations with what they prove. `trx` must be a transaction. Rows that lack stored ones of their time prove
 * nothing.
 *
 * @param shown time of which `rows` are all liquidations that the service has
 * @param beyond the time beyond a list of rows, where stored rows deny a silence too
 * @param after what a live response came after
 */
export async function storeLiquidations(
  trx: Kysely<Database>,
  key: FutureKey,
  rows: readonly Liquidation[],
  shown: Ranges,
  beyond: Ranges = [],
  after?: Batch['after'],
): Promise<StoredEvents> {
  const numbered = numberOccurrences(rows)
  const keyOf = (row: Parameters<typeof liquidationText>[0] & { readonly occurrence: number }) =>
    `${liquidationText(row)} ${row.occurrence}`
  const keys = new Set(numbered.map(keyOf))
  const weighed = union(shown, beyond)
  const [first, last] = [weighed[0], weighed.at(-1)]
  const stored =
    first === undefined || last === undefined
      ? []
      : await trx
          .selectFrom('market.liquidations')
          .select(['ts', 'side', 'price', 'amount', 'occurrence'])
          .where(ofInstrument(key))
          .where('ts', '>=', instant(first.from))
          .where('ts', '<', instant(last.to))
          .where(sql<boolean>`${multirange(weighed)} @> ts`)
          // With one more than these, one is left out.
          .limit(numbered.length + 1)
          .execute()
  const leftOut = stored.filter(
    (row) => !keys.has(keyOf(row)) && weighed.some(({ from, to }) => row.ts >= from && row.ts < to),
  )
  const series = instrumentStream('liquidations', key)
  const written = await appendRows(trx, 'liquidations', await withoutFinal(trx, series, numbered))
  const proven = leftOut.length > 0 ? [] : shown
  const gapsFound = await claimEvents(trx, series, proven, null, after)
  return { ...written, gapsFound, proven }
}

/**
 * Adds proven ranges of an instrument, and records gaps between them. Resolves to the number of new gaps.
 *
 * @param reason why rows are missing. null: because a response shows only the newest ones
 */
export async function claimEvents(
  trx: Kysely<Database>,
  { stream, category, symbol }: Series,
  claim: Ranges,
  reason: string | null,
  after: Batch['after'] | null = null,
): Promise<number> {
  if (claim.length === 0) return 0
  return callFunction(trx, 'recorder.claim_events', stream, category, symbol, multirangeText(claim), reason, after)
}

/** Notes what lies before the rows of a live response that proves nothing as a gap, if the response was cut. */
export async function missEvents(
  trx: Kysely<Database>,
  stream: keyof typeof requestedReachMs,
  { target: { category, symbol }, rows, requestTime, after }: Batch<FutureKey, { readonly ts: ServiceMs }>,
): Promise<void> {
  if (rows.length === 0) return
  const times = rows.map(({ ts }) => (stream === 'funding_rates' ? nominalSettlement(ts) : ts))
  const oldest = Math.min(...times, requestTime - eventLateMs)
  const reached = new Date(requestTime - requestedReachMs[stream])
  await callFunction(trx, 'recorder.miss_events', stream, category, symbol, new Date(oldest), reached, after ?? null)
}

/**
 * Withdraws what is claimed of the time of rows that could not be understood.
 *
 * @param lengthMs what a row of the stream proves by itself
 */
export async function withdrawUnread(
  trx: Kysely<Database>,
  stream: keyof typeof requestedReachMs,
  { target: { category, symbol }, rows, rejected }: Batch<FutureKey, { readonly ts: ServiceMs }>,
  lengthMs: number,
): Promise<void> {
  const times = unreadTimes(
    rejected,
    rows.map(({ ts }) => ts),
  )
  if (times.length === 0) return
  const nominal = times.map((ts) => (stream === 'funding_rates' ? nominalSettlement(ts) : ts))
  const places = multirangeText(normalized(nominal.map((ts) => ({ from: ts, to: addMs(ts, lengthMs) }))))
  await callFunction(trx, 'recorder.withdraw_unread', stream, category, symbol, places, `${lengthMs} ms`)
}

/** A missing range of an instrument, with the repairs that were tried in vain. */
interface MissingRange extends InstrumentKey, RepairAttempts {
  readonly range: TimeRange
}

/**
 * Finds each range that an instrument lacks, between `since` and the end of its proven time or its last gap. Nothing
 * lacks before it was launched for the first time.
 */
export async function missingOfStream(
  db: Kysely<Database>,
  stream: keyof typeof requestedReachMs,
  since: ServiceMs,
): Promise<MissingRange[]> {
  const begin = instant(since)
  const { rows } = await sql<Omit<MissingRange, 'range'> & TimeRange>`
    select k.category, k.symbol, lower(missing) as "from", upper(missing) as "to", w.*
    from recorder.ledger k
    cross join lateral (
      select greatest(${begin}, min(i.launch_time)) as begin from market.instrument_history i
      where i.category = k.category and i.symbol = k.symbol
    ) b
    cross join lateral (
      select max(g.gap_until) as until from recorder.ledger g where ${sameSeries('g', 'k')} and ${hasVerdict('missing', 'g')}
    ) g
    cross join lateral unnest(tstzmultirange(tstzrange(b.begin, greatest(b.begin, upper(k.ranges), g.until))) - k.ranges
      - recorder.final_from(k.stream, k.category, k.symbol, k.type, k.interval, b.begin)) as missing
    cross join lateral (${attemptsWhere(sql`${sameSeries('w', 'k')} and w.ranges && missing`)}) w
    where k.stream = ${stream} and ${hasVerdict('recorded', 'k')} and k.part = '-infinity'
    order by k.category, k.symbol, missing`.execute(db)
  return rows.map(({ from, to, ...of }) => ({ ...of, range: { from, to } }))
}
