import type { Kysely } from 'kysely'
import { type CandleSeries, gridOf, intervalMs, withCandles } from '../market/candle.js'
import { type InstrumentKey, instrumentText, tradedCategories } from '../market/category.js'
import { fundingReachMs, liquidationReachMs, requestedReachMs } from '../market/funding.js'
import { type Operation, operationOfPastFills, pastFillsOperations } from '../market/operation.js'
import { type StreamName, streamTraits } from '../market/stream.js'
import { type Ranges, type TimeRange, union } from '../market/timeRange.js'
import { addMs, dayMs, hourMs, minuteMs, minuteOf, serviceMs, type ServiceMs } from '../market/values.js'
import { type Backoff, backoffMs } from '../runtime/clock.js'
import type { Logger } from '../runtime/logger.js'
import type { Database } from '../db/schema.js'
import { candleStream, instrumentStream, type Series } from '../db/series.js'
import { missingOfStream } from '../ledger/futures.js'
import {
  candlesWithGaps,
  type FillGap,
  loseGaps,
  noteUnknown,
  recordGap,
  reopenGaps,
  selectFillGaps,
} from '../ledger/gaps.js'
import { isSparse, missingCandles, type SeriesRange, settleGaps } from '../ledger/missing.js'
import { insertWants, type NewWant, repairAttempts, type RepairAttempts } from '../ledger/wants.js'
import { historyLateMs } from '../ledger/storePastFills.js'
import { fillReachMs } from './fillsWalk.js'
import type { OperationStates } from './reach.js'

/** The wait before ranges that a repair did not fill are wanted again. */
const repairBackoff: Backoff = { minMs: minuteMs, maxMs: dayMs, factor: 10 }

/** The waits before rows that contradict a claim are asked for: the first time, the second, and so on. */
const evidenceWaitsMs = [10 * minuteMs, hourMs, 6 * hourMs, dayMs] as const
/** Largest number of contradicted gaps that one look wants. Where candles contradict all fills, asking helps little. */
const contradictedPerLook = 20

/** Returns true if a contradicted gap has waited long enough since it was noted, or asked for in vain. */
function isEvidenceDue({ attempts, sinceMs }: RepairAttempts, ageMs: number): boolean {
  const waitMs = evidenceWaitsMs[Math.min(attempts, evidenceWaitsMs.length - 1)] ?? dayMs
  return (attempts === 0 || sinceMs !== null) && ageMs >= waitMs
}

/** Returns true if no earlier repair is open, and the last one ended long enough ago. */
function isDueAgain({ attempts, sinceMs }: RepairAttempts): boolean {
  return attempts === 0 || (sinceMs !== null && sinceMs >= backoffMs(attempts, repairBackoff))
}

/** Returns a want for ranges that live recording missed. */
export function repairOf(series: Series, ranges: readonly TimeRange[]): NewWant {
  const floor = ranges[0]?.from ?? serviceMs(0)
  return { kind: 'repair', series, ranges, floor, again: false, isUrgent: false, hasOpenBeginning: false }
}

interface CandleRepairOptions {
  readonly db: Kysely<Database>
  /** The candles that are being recorded now. */
  readonly series: () => readonly CandleSeries[]
  /** When the last live response for a series came. Without it, a series that ends early always counts as behind. */
  readonly respondedAt?: (series: CandleSeries) => ServiceMs | undefined
  readonly settleMs: number
  readonly logger: Logger
}

/** Gaps that nobody may want filled, and that begin longer ago, are not repaired. A backfill of their range fills them. */
const lookbackMs = 30 * dayMs
/** The database gives gaps in fills the same reason. */
const unaskedReason = 'not recorded: nobody asked for it, or the recorder or the service was away'
const oldGapReason =
  'not recorded for long: nobody asked for it, or the recorder or the service was away; a backfill of this time fills it'
/** The live streams have this long to catch up at the end of the coverage. */
const overdueMs = 10 * minuteMs

/**
 * Looks for gaps in the recorded candles, and has them filled before any backfill. A restart or an outage leaves a gap
 * between two covered ranges. Overdue candles after the last covered range are a gap, too.
 */
export async function repairCandles(options: CandleRepairOptions, now: ServiceMs): Promise<void> {
  const { db, series, logger } = options
  // Live candles may have filled open gaps already.
  for (const one of await candlesWithGaps(db)) await settleGaps(db, one)
  const due: NewWant[] = []
  const found = await findGaps(db, series(), now, options)
  const old = found.map(({ series: one, older }) => ({ series: candleStream(one), ranges: older }))
  await noteUnknown(
    db,
    old.filter(({ ranges }) => ranges.length > 0),
    oldGapReason,
  )
  for (const { series: one, missing } of found) {
    if (missing.length === 0) continue
    const stream = candleStream(one)
    const ranges = (await repairAttempts(db, stream, missing)).filter((range) => isDueAgain(range))
    if (ranges.length === 0) continue
    // A sparse series may have had no trade there, so no gap is recorded before the service responds.
    for (const range of (await isSparse(db, one)) ? [] : ranges) {
      await recordGap(db, {
        ...stream,
        range,
        reason: unaskedReason,
        detectedAt: now,
      })
    }
    due.push({ ...repairOf(stream, ranges), floor: addMs(now, -lookbackMs) })
  }
  await insertWants(db, due)
  if (due.length > 0) logger.info(`repair: ${due.length} series have gaps; they are being filled`)
}

/**
 * Finds gaps between covered ranges, and after the last one if its next candles are overdue: those that began in the
 * last days, to be repaired, and older ones.
 */
export async function findGaps(
  db: Kysely<Database>,
  series: readonly CandleSeries[],
  now: ServiceMs,
  { settleMs, respondedAt }: Pick<CandleRepairOptions, 'settleMs' | 'respondedAt'>,
): Promise<{ readonly series: CandleSeries; readonly missing: Ranges; readonly older: Ranges }[]> {
  const range = { from: serviceMs(0), to: addMs(now, -settleMs) }
  const requested: SeriesRange[] = series.map((one) => ({ series: one, range }))
  const known = await missingCandles(db, requested, { now })
  return known.flatMap(({ series: one, missing, oldestKnown }) => {
    // A series without any known candle was never recorded, so it has no gap.
    if (oldestKnown === null) return []
    const lengthMs = intervalMs[one.interval]
    const lastResponseAt = respondedAt?.(one) ?? Number.NEGATIVE_INFINITY
    // Live responses came later and showed no newer candle. Probably nothing was traded; the next candle will show it.
    const isQuiet = (since: ServiceMs) => one.type === 'market' && lastResponseAt >= since + overdueMs + settleMs
    const isOverdue = (gap: TimeRange) => gap.to - gap.from > lengthMs + overdueMs && !isQuiet(gap.from)
    // Days need not open at midnight, so that closed candles are counted from the last claim.
    const withoutForming = ({ from, to }: TimeRange) => ({ from, to: addMs(to, -((to - from) % lengthMs)) })
    const after = missing
      .filter((gap) => gap.from > oldestKnown && (gap.to < range.to || isOverdue(gap)))
      .map((gap) => (gap.to < range.to ? gap : withoutForming(gap)))
    const gaps = withCandles(gridOf(one.interval, oldestKnown), after)
    const isOld = (gap: TimeRange) => gap.from <= now - lookbackMs
    if (gaps.length === 0) return []
    return [{ series: one, missing: gaps.filter((gap) => !isOld(gap)), older: gaps.filter(isOld) }]
  })
}

interface FillRepairOptions {
  readonly db: Kysely<Database>
  /** Returns true if only this recorder requests the fills of an instrument. */
  readonly isOwn: (instrument: InstrumentKey) => boolean
  readonly states: OperationStates
}

/** The largest number of gaps that one look goes through. */
const gapsPerLook = 500

/** Adds wants for open gaps in fills, and marks gaps as lost that the service's history cannot fill any more. */
export class FillRepair {
  readonly #options: FillRepairOptions
  /** The number of the last gap of a full look; null if the next look begins with the newest gap. */
  #before: number | null = null
  /** Operations that the service turned out to have. Gaps that were lost without them are open again. */
  readonly #found = new Set<Operation>()

  constructor(options: FillRepairOptions) {
    this.#options = options
  }

  /** Goes through the next gaps, the newest first, and begins again after the oldest. */
  async look(now: ServiceMs): Promise<void> {
    const { db } = this.#options
    const reachedSince = addMs(now, -fillReachMs)
    // A gap is lost while the service's history does not reach it.
    await loseGaps(db, 'fills', reachedSince)
    const gaps: FillGap[] = []
    for (const operation of pastFillsOperations) {
      gaps.push(...(await this.#followOperation(operation, now, reachedSince)))
    }
    gaps.push(...(await this.#nextGaps(now, reachedSince)))
    await wantRanges(db, 'fills', gaps)
  }

  /**
   * Marks gaps as lost while the service lacks the operation, and opens them again once the service has it. While this
   * is not known, resolves to one lost gap: the request for it will tell.
   */
  async #followOperation(operation: Operation, now: ServiceMs, since: ServiceMs): Promise<FillGap[]> {
    const { db, states } = this.#options
    const categories = tradedCategories.filter((category) => operationOfPastFills(category) === operation)
    const state = states.stateOf(operation)
    if (state === 'unknown') {
      const lost = await selectFillGaps(db, { verdict: 'lost', categories, since, limit: gapsPerLook })
      return lost.filter((gap) => this.#isDue(gap, now)).slice(0, 1)
    }
    if (state === 'absent') await loseGaps(db, 'fills', 'infinity', categories)
    if (state !== 'present') this.#found.delete(operation)
    else if (!this.#found.has(operation)) {
      await reopenGaps(db, 'fills', since, categories)
      this.#found.add(operation)
    }
    return []
  }

  /** Resolves to the next open gaps of this recorder's instruments that are due. */
  async #nextGaps(now: ServiceMs, since: ServiceMs): Promise<FillGap[]> {
    const { db, states } = this.#options
    const gaps = await selectFillGaps(db, {
      verdict: 'missing',
      categories: tradedCategories,
      since,
      before: this.#before,
      limit: gapsPerLook,
    })
    this.#before = gaps.length < gapsPerLook ? null : (gaps.at(-1)?.id ?? null)
    const isAsked = ({ category }: FillGap) => states.isAsked(operationOfPastFills(category))
    const due = gaps.filter((gap) => this.#isDue(gap, now) && isAsked(gap))
    const contradicted = due.filter(({ evidenceAgeMs }) => evidenceAgeMs !== null)
    const tooMany = new Set(contradicted.slice(contradictedPerLook))
    return due.filter((gap) => !tooMany.has(gap))
  }

  #isDue(gap: FillGap, now: ServiceMs): boolean {
    if (!this.#options.isOwn(gap) || !isOver(gap, now)) return false
    if (gap.reason === unaskedReason && gap.range.from <= now - lookbackMs) return false
    if (gap.evidenceAgeMs !== null) return isEvidenceDue(gap, gap.evidenceAgeMs)
    return isDueAgain(gap)
  }
}

/** Returns true if the last minute of a gap is over, so that the minute has its candle. */
const isOver = ({ range }: FillGap, now: ServiceMs) => minuteOf(addMs(range.to, -1)) + minuteMs <= now - historyLateMs

interface FuturesRepairOptions {
  readonly db: Kysely<Database>
  /** The streams to repair, each with the time for which its rows are kept, in milliseconds; null: for ever. */
  readonly streams: readonly { readonly name: keyof typeof reachMs; readonly keptMs: number | null }[]
  /** Returns true if only this recorder requests the instrument. */
  readonly isOwn: (instrument: InstrumentKey) => boolean
  readonly states: OperationStates
}

const reachMs = { funding_rates: fundingReachMs, liquidations: liquidationReachMs } as const

/**
 * Adds wants for missing funding rates and liquidations. No live response shows their rows: they are older than the
 * first recording, or the recorder was away for long.
 */
export async function repairFutures(
  { db, streams, isOwn, states }: FuturesRepairOptions,
  now: ServiceMs,
): Promise<void> {
  for (const { name, keptMs } of streams) {
    await loseGaps(db, name, addMs(now, -reachMs[name]))
    if (!states.isAsked(streamTraits[name].operation)) continue
    const since = addMs(now, -Math.min(requestedReachMs[name], keptMs ?? Infinity))
    const found = await missingOfStream(db, name, since)
    await wantRanges(
      db,
      name,
      found.filter((one) => isOwn(one) && isDueAgain(one)),
    )
  }
}

/** Adds wants for ranges of instruments: one want for all ranges of an instrument, because it is wanted once. */
async function wantRanges(
  db: Kysely<Database>,
  stream: StreamName,
  found: readonly (InstrumentKey & { readonly range: TimeRange })[],
): Promise<void> {
  const wants = new Map<string, NewWant>()
  for (const one of found) {
    const known = wants.get(instrumentText(one))?.ranges ?? []
    wants.set(instrumentText(one), repairOf(instrumentStream(stream, one), union(known, [one.range])))
  }
  await insertWants(db, [...wants.values()])
}
