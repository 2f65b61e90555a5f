import type { Kysely } from 'kysely'
import { ExchangeError } from '../exchange/errors.js'
import type { ExchangeClient, Page } from '../exchange/client.js'
import type { RequestOptions } from '../exchange/sender.js'
import type { CandleSeries } from '../market/candle.js'
import type { TimeMs } from '../market/values.js'
import { type Backoff, backoffMs, type Clock } from '../runtime/clock.js'
import type { Incidents } from '../runtime/incidents.js'
import type { Logger } from '../runtime/logger.js'
import type { Database } from '../db/schema.js'
import type { SliceResult } from '../ledger/slices.js'
import type { OperationStates } from './reach.js'
import type { Asking } from './workload.js'

/** The objects and settings that all slices of a process share. */
export interface SliceContext {
  readonly db: Kysely<Database>
  readonly client: ExchangeClient
  readonly states: OperationStates
  readonly clock: Clock
  readonly logger: Logger
  readonly incidents: Incidents
  readonly settleMs: number
  /** The candles that are being recorded now. */
  readonly series: () => readonly CandleSeries[]
}

/** Objects that the work on one slice uses. */
export interface SliceWork {
  readonly patience: Patience
  readonly request: RequestOptions
  readonly counts: { received: number; inserted: number; updated: number }
  readonly onAsk: (operation: Asking) => void
  readonly signal: AbortSignal
}

/** Records the result of a slice in the transaction that releases it. */
export type Concluding = (trx: Kysely<Database>) => Promise<Pick<SliceResult, 'done' | 'failure'>>

/** Thrown when the service has been away for too long. The slice is then released. */
class Postponed extends Error {
  override readonly name = 'Postponed'
}

const retry: Backoff = { minMs: 500, maxMs: 15_000 }
/** A slice that gets no response for this long makes room for others. */
const patienceMs = 180_000

/** Repeats the requests of one slice while the service is away, and counts them. */
export class Patience {
  requests = 0
  readonly #clock: Clock
  readonly #signal: AbortSignal
  #respondedMs: number
  #skewMs = 0

  constructor(clock: Clock, signal: AbortSignal) {
    this.#clock = clock
    this.#signal = signal
    this.#respondedMs = clock.monotonicMs()
  }

  /** Returns the time of the service's clock, as the last response told it. */
  now(): TimeMs {
    return this.#clock.now() + this.#skewMs
  }

  /** Repeats a request until it succeeds. Rejects with `Postponed` after too long, or with an error that is final. */
  async ask<Row>(request: () => Promise<Page<Row>>): Promise<Page<Row>> {
    for (let failures = 1; ; failures++) {
      try {
        this.requests += 1
        const page = await request()
        this.#respondedMs = this.#clock.monotonicMs()
        this.#skewMs = page.requestTime - page.receivedAt
        return page
      } catch (error) {
        if (!(error instanceof ExchangeError) || !error.retryable) throw error
        const isAway = this.#clock.monotonicMs() - this.#respondedMs > patienceMs
        if (isAway) throw new Postponed(error.message, { cause: error })
      }
      await this.#clock.sleep(backoffMs(failures, retry), this.#signal)
    }
  }
}
