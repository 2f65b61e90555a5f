import type { Kysely } from 'kysely'
import { ExchangeError, failureTraits } from '../exchange/errors.js'
import { isTradedCategory } from '../market/category.js'
import type { StreamName } from '../market/stream.js'
import { type Ranges, subtract } from '../market/timeRange.js'
import type { ServiceMs } from '../market/values.js'
import { messageOf } from '../runtime/text.js'
import { noteMissing } from '../ledger/missing.js'
import { insertRejectedRows } from '../ledger/rejectedRows.js'
import { putOffReview } from '../ledger/reviews.js'
import { settleSlice, type Slice, type SliceResult } from '../ledger/slices.js'
import type { WantCounts } from '../ledger/wants.js'
import { lockInTransaction, lockNames } from '../db/locks.js'
import type { Database } from '../db/schema.js'
import { candlesOf } from '../db/series.js'
import { CandleFetcher } from './candleSlice.js'
import { fillHistory } from './pastFills.js'
import { fundingHistory, liquidationHistory } from './pastFutures.js'
import {
  type Concluding,
  type EventHistory,
  type EventSeries,
  type SliceContext,
  SliceRequests,
  WalkTooLong,
} from './sliceWork.js'
import type { Asking } from './workload.js'

/** Fetches slices from the histories of their streams. */
export class SliceRunner {
  readonly #context: SliceContext
  readonly #candles: CandleFetcher
  /** The histories of streams whose rows have times of their own. */
  readonly #events: Partial<Record<StreamName, EventHistory>>

  constructor(context: SliceContext) {
    this.#context = context
    this.#candles = new CandleFetcher(context)
    this.#events = {
      fills: fillHistory(context.db),
      funding_rates: fundingHistory(context.db),
      liquidations: liquidationHistory(context.db),
    }
  }

  /**
   * Fetches the missing rows of a slice, records the result and releases the slice. All received rows are committed
   * when the promise resolves. It rejects only if the database does not store the result.
   *
   * @param onAsk called with each operation that the slice requests
   */
  async run(slice: Slice, onAsk: (operation: Asking) => void, signal: AbortSignal): Promise<SliceResult> {
    const { db, clock, serviceNow } = this.#context
    const now = serviceNow()
    if (now === null) throw new Error('slices wait for the time of the service')
    const requests = new SliceRequests(clock, now, slice.kind === 'repair' ? 'repair' : 'backfill', signal)
    const counted = (): WantCounts => ({ requests: requests.sent, ...requests.counts })
    try {
      const conclude = await this.#fetch(slice, requests, onAsk)
      return await db.transaction().execute(async (trx) => {
        // Slices are concluded one at a time, because each replaces the verdicts on the time around it.
        await lockInTransaction(trx, lockNames.wants)
        const result: SliceResult = { ...counted(), ...(await conclude(trx)) }
        await settleSlice(trx, slice, result)
        return result
      })
    } catch (error) {
      const result: SliceResult = { ...counted(), ...breakingOff(error, slice, signal) }
      await db.transaction().execute(async (trx) => {
        await lockInTransaction(trx, lockNames.wants)
        if (result.failure !== undefined) await noteRefused(trx, slice, result.done, result.failure, requests.now())
        await settleSlice(trx, slice, result)
      })
      return result
    }
  }

  #fetch(slice: Slice, requests: SliceRequests, onAsk: (operation: Asking) => void): Promise<Concluding> {
    const { series } = slice
    const candles = candlesOf(series)
    if (candles !== null) return this.#candles.fetch(candles, slice, requests, onAsk)
    const history = this.#events[series.stream]
    const { category } = series
    if (history === undefined || !isTradedCategory(category)) throw new RangeError(`no history of ${series.stream}`)
    return this.#fetchEvents(history, { ...series, category }, slice, requests, onAsk)
  }

  async #fetchEvents(
    history: EventHistory,
    series: EventSeries,
    slice: Slice,
    requests: SliceRequests,
    onAsk: (operation: Asking) => void,
  ): Promise<Concluding> {
    const { ranges } = slice
    const { db, client, states, incidents } = this.#context
    const operation = history.operationOf(series.category)
    if (!states.isAsked(operation))
      return concluded(slice, `${operation} is not asked: it is ${states.stateOf(operation)}`)
    onAsk(operation)
    const ask: typeof requests.ask = async (send) => {
      try {
        const page = await requests.ask(send)
        states.note(operation, 'present')
        await insertRejectedRows(db, page.rejected, page.receivedAt)
        return page
      } catch (error) {
        if (error instanceof ExchangeError && error.kind === 'absent') states.note(operation, 'absent')
        if (error instanceof ExchangeError && error.kind === 'perhaps-absent') {
          states.note(operation, 'unclear')
          incidents.failed(operation, error.message)
        }
        throw error
      }
    }
    const { request, counts } = requests
    const context = { client, request, ask, now: () => requests.now(), counts }
    const { refused, refusalOfAll } = await history.fetch(series, ranges, context)
    if (refusalOfAll !== undefined) {
      states.note(operation, 'unusable')
      incidents.failed(operation, refusalOfAll)
    } else if (subtract(ranges, refused).length > 0) incidents.succeeded(operation)
    // All of the slice was requested. Evidence may withhold the claim of what came: it is wanted again in its own time.
    return concluded(slice, refusalOfAll, refused)
  }
}

function concluded({ series, ranges: done, again }: Slice, failure?: string, refused: Ranges = []): Concluding {
  return async (trx) => {
    if (failure === undefined) return { done, refused }
    if (!again) await noteMissing(trx, series, done, failure)
    return { done, failure }
  }
}

/** Notes as gaps what the service refuses to give. What is read again is recorded already, and is asked for later. */
async function noteRefused(
  trx: Kysely<Database>,
  { kind, series, missing, again }: Slice,
  done: SliceResult['done'],
  reason: string,
  at: ServiceMs,
): Promise<void> {
  const refused = done === 'series' ? missing : done
  const candles = candlesOf(series)
  if (kind === 'review' && candles !== null) await putOffReview(trx, candles, refused, at)
  if (!again) await noteMissing(trx, series, refused, reason)
}

/** The result of a slice that broke off: a `problem` is retried later, a `failure` is final, an abort is neither. */
function breakingOff(
  error: unknown,
  slice: Slice,
  signal: AbortSignal,
): Pick<SliceResult, 'done' | 'problem' | 'failure'> {
  if (signal.aborted) return { done: [] }
  const message = messageOf(error)
  if (error instanceof WalkTooLong) return { done: slice.ranges, failure: message }
  if (!(error instanceof ExchangeError) || error.retryable || error.kind === 'aborted') {
    return { done: [], problem: message }
  }
  return { done: failureTraits[error.kind].endsSeries === true ? 'series' : slice.ranges, failure: message }
}
