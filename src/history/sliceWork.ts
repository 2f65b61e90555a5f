import type { Kysely } from 'kysely'
import { ExchangeError } from '../exchange/errors.js'
import type { ExchangeClient, Page } from '../exchange/client.js'
import type { RequestOptions } from '../exchange/sender.js'
import type { TradedCategory } from '../market/category.js'
import { bounds } from '../market/bounds.js'
import type { Operation } from '../market/operation.js'
import type { Ranges } from '../market/timeRange.js'
import { addMs, type ServiceMs } from '../market/values.js'
import { type Backoff, backoffMs, type Clock } from '../runtime/clock.js'
import type { Incidents } from '../runtime/incidents.js'
import type { Logger } from '../runtime/logger.js'
import type { Database } from '../db/schema.js'
import type { Series } from '../db/series.js'
import type { SliceResult } from '../ledger/slices.js'
import type { OperationStates } from './reach.js'

/** The objects and settings that all slices of a process share. */
export interface SliceContext {
  readonly db: Kysely<Database>
  /** The client, whose priority classes keep the live streams first. */
  readonly client: ExchangeClient
  /** States of operations, which the repairs share. */
  readonly states: OperationStates
  readonly clock: Clock
  /** Returns the time of the service's clock; null before its first response. */
  readonly serviceNow: () => ServiceMs | null
  readonly logger: Logger
  readonly incidents: Incidents
  /** How long after its close a candle counts as final. */
  readonly settleMs: number
}

/** An instrument's series of rows that have times of their own, such as fills or settled funding rates. */
export type EventSeries = Series & { readonly category: TradedCategory }

/** Objects that the walks through the pages of a history use. */
export interface EventContext {
  readonly client: ExchangeClient
  readonly request: RequestOptions
  /** Sends a request, and repeats it while the service is away. */
  readonly ask: <Row>(request: () => Promise<Page<Row>>) => Promise<Page<Row>>
  /** Returns the time of the service's clock. */
  readonly now: () => ServiceMs
  readonly counts: { received: number; inserted: number }
}

/** Why time below the oldest row stays unproven that the operation has shown. */
export const nothingOlder = 'its history shows nothing older'

export interface EventOutcome {
  /** Ranges that were requested in vain. */
  readonly refused: Ranges
  /** Reason why everything that the operation gives is refused. */
  readonly refusalOfAll?: string
}

/** The history of a stream of events, by how its pages are requested and stored. */
export interface EventHistory {
  readonly operationOf: (category: TradedCategory) => Operation
  /** Fetches ranges, and stores each page before it requests the next. */
  readonly fetch: (series: EventSeries, ranges: Ranges, context: EventContext) => Promise<EventOutcome>
}

/** Records the result of a slice in the transaction that releases it. */
export type Concluding = (trx: Kysely<Database>) => Promise<Pick<SliceResult, 'done' | 'refused' | 'failure'>>

/** Thrown when the service has been away for too long. The slice is then released. */
class Postponed extends Error {
  override readonly name = 'Postponed'
}

/** Thrown when a walk through a history exceeds a bound. What is left of its slice becomes a gap. */
export class WalkTooLong extends Error {
  override readonly name = 'WalkTooLong'
}

const retry: Backoff = { minMs: 500, maxMs: 15_000 }
/** A slice that gets no response for this long makes room for others. */
const patienceMs = 180_000

/** Sends the requests of one slice, repeats them while the service is away, and counts what they bring. */
export class SliceRequests {
  sent = 0
  readonly counts = { received: 0, inserted: 0, updated: 0 }
  readonly signal: AbortSignal
  readonly request: RequestOptions
  readonly #clock: Clock
  /** The time of the service as the last response told it, and when that was on the monotonic clock. */
  #told: { readonly at: ServiceMs; readonly ms: number }

  constructor(clock: Clock, serviceNow: ServiceMs, priority: 'repair' | 'backfill', signal: AbortSignal) {
    this.#clock = clock
    this.request = { priority, signal }
    this.signal = signal
    this.#told = { at: serviceNow, ms: clock.monotonicMs() }
  }

  /** Returns the time of the service's clock, as the last response told it. */
  now(): ServiceMs {
    return addMs(this.#told.at, Math.floor(this.#clock.monotonicMs() - this.#told.ms))
  }

  /** Repeats a request until it succeeds. Rejects with `Postponed` after too long, or with an error that is final. */
  async ask<Row>(request: () => Promise<Page<Row>>): Promise<Page<Row>> {
    for (let failures = 1; ; failures++) {
      if (this.sent >= bounds.walkRequests)
        throw new WalkTooLong('its history takes more requests than are sent at once')
      try {
        this.sent += 1
        const page = await request()
        this.#told = { at: page.requestTime, ms: this.#clock.monotonicMs() }
        return page
      } catch (error) {
        if (!(error instanceof ExchangeError) || !error.retryable) throw error
        const isAway = this.#clock.monotonicMs() - this.#told.ms > patienceMs
        if (isAway) throw new Postponed(error.message, { cause: error })
      }
      await this.#clock.sleep(backoffMs(failures, retry), this.signal)
    }
  }
}
