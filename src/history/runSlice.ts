import type { Kysely } from 'kysely'
import type { ExchangeClient } from '../exchange/client.js'
import { ExchangeError, type ExchangeErrorKind } from '../exchange/errors.js'
import { gridOf, withCandles } from '../market/candleGrid.js'
import { type CandleSeries, intervalMs, seriesText } from '../market/candle.js'
import { type TimeRange, intersect, normalized, subtract, union } from '../market/timeRange.js'
import type { TimeMs } from '../market/values.js'
import type { Clock } from '../runtime/clock.js'
import type { Logger } from '../runtime/logger.js'
import { addEmptyRanges, missingCandles, openGaps, replaceGaps, settleGaps } from '../ledger/missing.js'
import { loadReach, saveReach } from '../ledger/candleReach.js'
import { type CandleSlice, type SliceResult, settleSlice } from '../ledger/candleSlices.js'
import {
  confirmNoTrade,
  isSparse,
  isUnanswered,
  putOffLook,
  replaceUnanswered,
  unansweredRanges,
} from '../ledger/noTrade.js'
import { lastRevision } from '../ledger/restatements.js'
import { noteReview } from '../ledger/reviews.js'
import { lockInTransaction, lockNames } from '../db/locks.js'
import type { Database } from '../db/schema.js'
import { CandleWriter } from './candleWriter.js'
import { fetchRange } from './fetchRange.js'
import { PageSource } from './pageSource.js'
import { ReachBook } from './reach.js'
import type { Asking } from './slices.js'
import { foldRestatement } from './restatement.js'
import { confirmEmptyAfterMs, readAllAgain } from './review.js'
import { messageOf } from '../runtime/messageOf.js'

/** The objects and settings that all slices of a process share. */
export interface SliceContext {
  readonly db: Kysely<Database>
  readonly client: ExchangeClient
  readonly clock: Clock
  readonly logger: Logger
  readonly settleMs: number
}

/** Refusals that the service would repeat for every page of the series. */
const refusalsOfSeries: ReadonlySet<ExchangeErrorKind> = new Set([
  'unknown-symbol',
  'removed-symbol',
  'unknown-category',
  'unsupported-interval',
  'unsupported-symbol',
  'absent',
  'retired-version',
])

/** Fetches slices. They share what is learned about the reach of an operation. */
export class SliceRunner {
  readonly #context: SliceContext
  readonly #reach = new Map<string, Promise<ReachBook>>()

  constructor(context: SliceContext) {
    this.#context = context
  }

  /**
   * Fetches the missing candles of a slice, records the result and releases the slice. All received candles are
   * committed when the promise resolves. It rejects only when the database does not store the result.
   *
   * @param onAsk called with each operation that the slice asks
   */
  async run(slice: CandleSlice, onAsk: (operation: Asking) => void, signal: AbortSignal): Promise<SliceResult> {
    const { db, client, clock, logger, settleMs } = this.#context
    const { series } = slice
    const [state] = await missingCandles(db, [{ series, range: hullOf(slice.ranges) }])
    const oldestKnown = state?.oldestKnown ?? null
    const missing = slice.again ? slice.ranges : intersect(slice.ranges, state?.missing ?? [])
    const wanted = withCandles(gridOf(series.interval, oldestKnown), missing)

    const before = slice.again ? await lastRevision(db) : 0
    const writer = new CandleWriter(db, { series, clock, logger, signal })
    const source = new PageSource({
      client,
      series,
      settleMs,
      priority: slice.kind === 'repair' ? 'repair' : 'backfill',
      clock,
      signal,
      store: (page) => writer.add(page),
    })
    const counts = () => {
      const { inserted, updated } = writer.counts
      return { requests: source.counts.requests, candles: source.counts.rows, inserted, updated }
    }
    try {
      const { empty, silent, anchor } = await fetchRange(
        {
          lengthMs: intervalMs[series.interval],
          wanted,
          floor: slice.floor,
          anchor: oldestKnown,
          oldestKnown,
          isSparse: oldestKnown !== null && (await isSparse(db, series)),
          isAskedBefore: !slice.again && (await isUnanswered(db, series, slice.ranges)),
        },
        {
          ask: (request) => {
            onAsk(request.operation)
            return source.ask(request)
          },
          now: () => source.now(),
          sleep: (ms) => clock.sleep(ms, signal),
          reach: await this.#reachOf(series),
        },
      )
      await writer.finish()
      const { updated, turnedUp, rejected } = writer.counts
      if (turnedUp > 0) {
        logger.warn(
          `${seriesText(series)}: ${turnedUp} candle(s) came that the service had left out before; they are stored`,
        )
      }
      // Silence that was found below the slice counts as done, so that the next slice does not look there.
      const looked = union(slice.ranges, intersect(normalized(silent), slice.missing))
      return await db.transaction().execute(async (trx) => {
        // Slices are concluded one at a time, because each replaces what is noted about the time around it.
        await lockInTransaction(trx, lockNames.candleWants)
        const shown = { empty, anchor, hasRejected: rejected > 0, now: clock.now() }
        const provisional = await concludeMissing(trx, series, looked, shown)
        if (slice.kind === 'review' && slice.again) await concludeReview(trx, slice, source.silence, clock.now())
        const restatedBy = slice.again && updated > 0 ? await foldRestatement(trx, series, before, logger) : null
        if (restatedBy !== null) await readAllAgain(trx, series, restatedBy)
        const result = { ...counts(), done: union(looked, intersect(provisional, slice.missing)) }
        await settleSlice(trx, slice, result)
        return result
      })
    } catch (error) {
      // Candles that were received before the failure are stored and counted.
      await writer.finish().catch(() => undefined)
      const result: SliceResult = { ...counts(), ...breakingOff(error, slice, signal) }
      await db.transaction().execute((trx) => settleSlice(trx, slice, result))
      return result
    }
  }

  #reachOf({ category, type, interval }: CandleSeries): Promise<ReachBook> {
    const { db, clock } = this.#context
    const key = `${category} ${type} ${interval}`
    const kind = { category, type, interval }
    const memory = { load: () => loadReach(db, kind), save: (ageMs: number) => saveReach(db, kind, ageMs) }
    const book = this.#reach.get(key) ?? ReachBook.open(memory, clock)
    this.#reach.set(key, book)
    // After a failed load the next slice tries again.
    book.catch(() => this.#reach.delete(key))
    return book
  }
}

function hullOf(ranges: readonly TimeRange[]): TimeRange {
  return { from: ranges[0]?.from ?? 0, to: ranges.at(-1)?.to ?? 0 }
}

/** The result of a slice that broke off: a `problem` is retried later, a `failure` is final, an abort is neither. */
function breakingOff(
  error: unknown,
  slice: CandleSlice,
  signal: AbortSignal,
): Pick<SliceResult, 'done' | 'problem' | 'failure'> {
  if (signal.aborted) return { done: [] }
  const message = messageOf(error)
  if (!(error instanceof ExchangeError) || error.retryable || error.kind === 'aborted') {
    return { done: [], problem: message }
  }
  return { done: refusalsOfSeries.has(error.kind) ? 'series' : slice.ranges, failure: message }
}

/**
 * Records the ranges that are empty, unanswered or gaps. The database tells which candles are still missing. Resolves
 * to the empty ranges that are not confirmed yet.
 *
 * An empty range counts as unanswered at first. A second look at least an hour later confirms it. Other missing candles
 * of a dense series are a gap. In a sparse series no response may be long enough to show a candle on both sides of a
 * silence. Nothing is claimed about such a range, and it is requested again later.
 */
async function concludeMissing(
  trx: Kysely<Database>,
  series: CandleSeries,
  ranges: readonly TimeRange[],
  shown: {
    readonly empty: readonly TimeRange[]
    readonly anchor: TimeMs | null
    readonly hasRejected: boolean
    readonly now: TimeMs
  },
): Promise<TimeRange[]> {
  const unanswered = await unansweredRanges(trx, series, union(ranges, shown.empty))
  const before = shown.now - confirmEmptyAfterMs
  const confirmed = intersect(shown.empty, normalized(unanswered.filter(({ askedAt }) => askedAt <= before)))
  const provisional = subtract(shown.empty, confirmed)
  await addEmptyRanges(trx, series, confirmed)

  const known = await openGaps(trx, series)
  const touched = known.filter((gap) => intersect([gap], union(ranges, provisional)).length > 0)
  const asked = union(union(ranges, provisional), union(touched, normalized(unanswered)))
  const states = await missingCandles(
    trx,
    asked.map((range) => ({ series, range })),
  )
  const grid = gridOf(series.interval, states[0]?.oldestKnown ?? shown.anchor)
  const left = withCandles(
    grid,
    states.flatMap(({ missing }) => missing),
  )
  const isSilent = !shown.hasRejected && series.type === 'market' && left.length > 0 && (await isSparse(trx, series))
  const open = isSilent ? union(provisional, subtract(left, known)) : union(provisional, normalized(unanswered))
  const still = withCandles(grid, intersect(open, left))
  // A range that is noted already keeps the time of its first look.
  const isNoted = (range: TimeRange) =>
    !isSilent && unanswered.some(({ from, to }) => from === range.from && to === range.to)
  await replaceUnanswered(trx, series, union(ranges, provisional), {
    fresh: still.filter((range) => !isNoted(range)),
    kept: still.filter(isNoted),
  })
  // In the usual case no candle is missing and there was no gap.
  if (left.length > 0 || known.length > 0) {
    const reason = shown.hasRejected ? sliceGapReasons.rejected : sliceGapReasons.silent
    await replaceGaps(trx, series, union(ranges, provisional), subtract(left, open), reason)
    await settleGaps(trx, series)
  }
  return provisional
}

/** Reasons of the gaps that a fetched slice leaves, as market.gaps shows them. */
export const sliceGapReasons = {
  silent: 'the service does not give these candles',
  rejected:
    'the service does not give these candles, or not so that they can be understood (see recorder.rejected_row)',
} as const

/** Records a review: the silence that it showed again, and the end of the stretch that is due next. */
async function concludeReview(
  trx: Kysely<Database>,
  { series, ranges, nextTo }: CandleSlice,
  silence: readonly TimeRange[],
  now: TimeMs,
): Promise<void> {
  await confirmNoTrade(trx, series, normalized(silence))
  await putOffLook(trx, series, ranges)
  await noteReview(trx, series, now, nextTo)
}
