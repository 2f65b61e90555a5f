import { errorKinds, ExchangeError } from '../exchange/errors.js'
import type { RequestOptions } from '../exchange/sender.js'
import { isTradedCategory } from '../market/category.js'
import type { StreamName } from '../market/stream.js'
import type { Ranges } from '../market/timeRange.js'
import { messageOf } from '../runtime/text.js'
import { insertRejectedRows } from '../ledger/rejectedRows.js'
import { settleSlice, type Slice, type SliceResult } from '../ledger/slices.js'
import type { WantCounts } from '../ledger/wants.js'
import { lockInTransaction, lockNames } from '../db/locks.js'
import { candlesOf } from '../db/series.js'
import { CandleFetcher } from './candleSlice.js'
import { type EventHistory, type EventSeries, fetchEvents } from './fetchEvents.js'
import { fillHistory, fundingHistory, liquidationHistory } from './eventHistories.js'
import { type Concluding, Patience, type SliceContext, type SliceWork } from './sliceWork.js'
import type { Asking } from './workload.js'

type FetchEvents = (slice: Slice, series: EventSeries, work: SliceWork) => Promise<Concluding>

/** Fetches slices from the histories of their streams. */
export class SliceRunner {
  readonly #context: SliceContext
  readonly #candles: CandleFetcher
  /** The histories of streams whose rows have times of their own. */
  readonly #events: Partial<Record<StreamName, FetchEvents>>

  constructor(context: SliceContext) {
    this.#context = context
    this.#candles = new CandleFetcher(context)
    this.#events = {
      fills: this.#fetchingFrom(fillHistory(context.db, context.series)),
      funding_rates: this.#fetchingFrom(fundingHistory(context.db)),
      liquidations: this.#fetchingFrom(liquidationHistory(context.db)),
    }
  }

  /**
   * Fetches the missing rows of a slice, records the result and releases the slice. All received rows are committed
   * when the promise resolves. It rejects only if the database does not store the result.
   *
   * @param onAsk called with each operation that the slice requests
   */
  async run(slice: Slice, onAsk: (operation: Asking) => void, signal: AbortSignal): Promise<SliceResult> {
    const { db, clock } = this.#context
    const counts = { received: 0, inserted: 0, updated: 0 }
    const patience = new Patience(clock, signal)
    const request: RequestOptions = { priority: slice.kind === 'repair' ? 'repair' : 'backfill', signal }
    const counted = (): WantCounts => ({ requests: patience.requests, ...counts })
    try {
      const conclude = await this.#fetch(slice, { patience, request, counts, onAsk, signal })
      return await db.transaction().execute(async (trx) => {
        // Slices are concluded one at a time, because each replaces the verdicts on the time around it.
        await lockInTransaction(trx, lockNames.wants)
        const result: SliceResult = { ...counted(), ...(await conclude(trx)) }
        await settleSlice(trx, slice, result)
        return result
      })
    } catch (error) {
      const result: SliceResult = { ...counted(), ...breakingOff(error, slice, signal) }
      await db.transaction().execute((trx) => settleSlice(trx, slice, result))
      return result
    }
  }

  #fetch(slice: Slice, work: SliceWork): Promise<Concluding> {
    const { series } = slice
    const candles = candlesOf(series)
    if (candles !== null) return this.#candles.fetch(candles, slice, work)
    const fetch = this.#events[series.stream]
    const { category } = series
    if (fetch === undefined || !isTradedCategory(category)) throw new RangeError(`no history of ${series.stream}`)
    return fetch(slice, { ...series, category }, work)
  }

  #fetchingFrom<Row>(source: EventHistory<Row>): FetchEvents {
    const { db, client, states, incidents } = this.#context
    return async (slice, series, { patience, request, counts, onAsk }) => {
      const operation = source.operationOf(series.category)
      const known = states.stateOf(operation)
      if (known === 'absent' || known === 'resting')
        return finished(slice.ranges, `${operation} is not asked: it is ${known}`)
      onAsk(operation)
      const ask: typeof patience.ask = async (send) => {
        try {
          const page = await patience.ask(send)
          states.note(operation, 'present')
          await insertRejectedRows(db, page.rejected, page.receivedAt)
          return page
        } catch (error) {
          if (error instanceof ExchangeError && error.kind === 'absent') states.note(operation, 'absent')
          throw error
        }
      }
      const outcome = await fetchEvents(source, series, slice.ranges, {
        client,
        request,
        ask,
        now: () => patience.now(),
        counts,
      })
      if (outcome.refusalOfAll !== undefined) {
        states.note(operation, 'resting')
        incidents.failed(operation, outcome.refusalOfAll)
      }
      return finished(outcome.refused, outcome.refusalOfAll)
    }
  }
}

function finished(done: Ranges, failure?: string): Concluding {
  return () => Promise.resolve(failure === undefined ? { done } : { done, failure })
}

/** The result of a slice that broke off: a `problem` is retried later, a `failure` is final, an abort is neither. */
function breakingOff(
  error: unknown,
  slice: Slice,
  signal: AbortSignal,
): Pick<SliceResult, 'done' | 'problem' | 'failure'> {
  if (signal.aborted) return { done: [] }
  const message = messageOf(error)
  if (!(error instanceof ExchangeError) || error.retryable || error.kind === 'aborted') {
    return { done: [], problem: message }
  }
  return { done: errorKinds[error.kind].isOfSeries === true ? 'series' : slice.ranges, failure: message }
}
