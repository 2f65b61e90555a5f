import type { Kysely } from 'kysely'
import type { Candle, CandleSeries } from '../market/candle.js'
import { normalized, type TimeRange } from '../market/timeRange.js'
import type { RejectedRow } from '../market/rejectedRow.js'
import { sum, type TimeMs } from '../market/values.js'
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
  readonly requestTime: TimeMs
  readonly receivedAt: TimeMs
}

interface CandleWriterOptions {
  readonly series: CandleSeries
  readonly clock: Clock
  readonly logger: Logger
  readonly signal: AbortSignal
}

/** The largest number of rows in a transaction. Pages that wait for an earlier one are stored together up to it. */
const maxRowsPerCommit = 5_000
/** Pages wait until they hold this many rows, because a statement costs nearly as much as a page of 100 rows. */
const enoughRows = 500
/** The longest wait for more pages. After a crash, pages that were not stored are requested again. */
const gatherMs = 1_000
const retry: Backoff = { minMs: 250, maxMs: 5_000 }

/** Stores the pages of one series in the order in which they come, several in one transaction. */
export class CandleWriter {
  readonly #db: Kysely<Database>
  readonly #options: CandleWriterOptions
  #waiting: CandlePage[] = []
  #writing: Promise<void> | null = null
  #failure: { readonly error: unknown } | null = null
  #isEnding = false
  /** Ends the wait for more pages. */
  #hasEnough: (() => void) | undefined
  readonly counts = { inserted: 0, updated: 0, rejected: 0, lateCandles: 0 }

  constructor(db: Kysely<Database>, options: CandleWriterOptions) {
    this.#db = db
    this.#options = options
  }

  /** Resolves when another page may come; rejects when an earlier one could not be stored. */
  async add(page: CandlePage): Promise<void> {
    this.#throwFailure()
    this.#waiting.push(page)
    this.#writing ??= this.#writeAll()
    if (this.#isEnough()) this.#hasEnough?.()
    if (this.#rowsWaiting() > maxRowsPerCommit) await this.#writing
    this.#throwFailure()
  }

  /** Resolves when all pages are committed; rejects when one could not be. */
  async finish(): Promise<void> {
    this.#isEnding = true
    this.#hasEnough?.()
    await this.#writing
    this.#throwFailure()
  }

  #throwFailure(): void {
    if (this.#failure !== null) throw this.#failure.error
  }

  /** Never rejects. The next call of `add` or `finish` throws the failure. */
  async #writeAll(): Promise<void> {
    try {
      while (this.#waiting.length > 0) {
        await this.#gather()
        await this.#write(this.#nextPages())
      }
    } catch (error) {
      this.#failure = { error }
      this.#waiting = []
    }
    this.#writing = null
  }

  async #gather(): Promise<void> {
    if (this.#isEnough()) return
    await new Promise<void>((resolve) => {
      const cancel = this.#options.clock.after(gatherMs, resolve)
      this.#hasEnough = () => {
        cancel()
        resolve()
      }
    })
    this.#hasEnough = undefined
  }

  #isEnough(): boolean {
    return this.#isEnding || this.#rowsWaiting() >= enoughRows
  }

  #rowsWaiting(): number {
    return sum(this.#waiting.map(({ candles }) => candles.length))
  }

  #nextPages(): CandlePage[] {
    let rows = 0
    let count = 0
    for (const { candles } of this.#waiting) {
      if (count > 0 && rows + candles.length > maxRowsPerCommit) break
      rows += candles.length
      count++
    }
    return this.#waiting.splice(0, count)
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
