import type { Kysely } from 'kysely'
import type { Candle, CandleSeries } from '../market/candle.js'
import { normalized, type TimeRange } from '../market/timeRange.js'
import type { RejectedRow } from '../market/rows.js'
import { type MachineMs, type ServiceMs, sum } from '../market/values.js'
import { type Backoff, backoffMs, type Clock } from '../runtime/clock.js'
import type { Logger } from '../runtime/logger.js'
import { describeDatabaseError, traitsOf } from '../db/databaseError.js'
import type { Database } from '../db/schema.js'
import type { Batch } from '../ledger/batch.js'
import { storeBatch } from '../ledger/storeBatches.js'

export interface CandlePage {
  readonly candles: readonly Candle[]
  /** Ranges that the service left out between two candles of the page. */
  readonly silence: readonly TimeRange[]
  readonly rejected: readonly RejectedRow[]
  readonly requestTime: ServiceMs
  readonly receivedAt: MachineMs
}

interface CandleWriterOptions {
  readonly series: CandleSeries
  readonly clock: Clock
  readonly logger: Logger
  readonly signal: AbortSignal
}

/** Pages wait until they hold this many rows, because a statement costs nearly as much as a page of 100 rows. */
const enoughRows = 500
/** The first page after this time ends the wait. After a crash, pages that were not stored are requested again. */
const gatherMs = 1_000
const retry: Backoff = { minMs: 250, maxMs: 5_000 }

/** Stores the pages of one series in the order in which they come, several in one transaction. */
export class CandleWriter {
  readonly #db: Kysely<Database>
  readonly #options: CandleWriterOptions
  readonly #waiting: CandlePage[] = []
  #waitingSinceMs = 0
  /** The last write, which goes on while the next pages are requested. */
  #writing: Promise<void> = Promise.resolve()
  readonly counts = { inserted: 0, updated: 0, rejected: 0, lateCandles: 0 }

  constructor(db: Kysely<Database>, options: CandleWriterOptions) {
    this.#db = db
    this.#options = options
  }

  /** Takes a page. Resolves when the next one may come; rejects when an earlier one could not be stored. */
  async add(page: CandlePage): Promise<void> {
    const nowMs = this.#options.clock.monotonicMs()
    if (this.#waiting.length === 0) this.#waitingSinceMs = nowMs
    this.#waiting.push(page)
    const rows = sum(this.#waiting.map(({ candles }) => candles.length))
    if (rows < enoughRows && nowMs - this.#waitingSinceMs < gatherMs) return
    await this.#writing
    this.#writing = this.#write(this.#waiting.splice(0))
    // The next call throws the failure.
    this.#writing.catch(() => undefined)
  }

  /** Resolves when all pages are committed; rejects when one could not be. */
  async finish(): Promise<void> {
    await this.#writing
    await this.#write(this.#waiting.splice(0))
  }

  async #write(pages: readonly CandlePage[]): Promise<void> {
    const { clock, logger, signal, series } = this.#options
    const [first] = pages
    if (first === undefined) return
    const { requestTime, receivedAt } = first
    const batch: Batch = {
      stream: 'candles',
      target: series,
      requestTime,
      receivedAt,
      rows: pages.flatMap(({ candles }) => candles),
      silence: normalized(pages.flatMap(({ silence }) => silence)),
      rejected: pages.flatMap(({ rejected }) => rejected),
    }
    for (let failures = 1; ; failures++) {
      try {
        const { inserted, updated, rejected, lateCandles } = await storeBatch(this.#db, batch)
        this.counts.inserted += inserted
        this.counts.updated += updated
        this.counts.rejected += rejected
        this.counts.lateCandles += lateCandles
        return
      } catch (error) {
        if (!traitsOf(error).isPassing) throw error
        logger.warn(`backfill: ${describeDatabaseError(error)}`)
        await clock.sleep(backoffMs(failures, retry), signal)
      }
    }
  }
}
