import type { Kysely } from 'kysely'
import type { Candle, CandleSeries } from '../../market/candle.js'
import type { RejectedRow } from '../../market/rejectedRow.js'
import type { TimeMs } from '../../market/values.js'
import type { Clock } from '../../runtime/clock.js'
import type { Logger } from '../../runtime/logger.js'
import { describeDatabaseError, isConnectionError } from '../../store/databaseError.js'
import type { Database } from '../../store/schema.js'
import { storeBatch } from '../storeBatch.js'

export interface CandlePage {
  readonly candles: readonly Candle[]
  readonly rejected: readonly RejectedRow[]
  readonly requestTime: TimeMs
  readonly receivedAt: TimeMs
}

export interface CandleWriterOptions {
  readonly series: CandleSeries
  readonly clock: Clock
  readonly logger: Logger
  readonly signal: AbortSignal
}

/** Pages that wait while an earlier transaction is under way are stored together, so the disk sets the pace of commits. */
const mostRowsPerCommit = 5_000
/** So many rows may wait before those who bring them have to. */
const mostRowsWaiting = 10_000
const firstRetryMs = 250
const lastRetryMs = 5_000

/** Stores the pages of one series in the order in which they come, several in one transaction when they come quickly. */
export class CandleWriter {
  readonly #db: Kysely<Database>
  readonly #options: CandleWriterOptions
  #waiting: CandlePage[] = []
  #rowsWaiting = 0
  #writing: Promise<void> | null = null
  #failure: unknown = null
  readonly counts = { inserted: 0, updated: 0, rejected: 0 }

  constructor(db: Kysely<Database>, options: CandleWriterOptions) {
    this.#db = db
    this.#options = options
  }

  /** Resolves when there is room for more. Rejects when storing has failed for good. */
  async add(page: CandlePage): Promise<void> {
    this.#waiting.push(page)
    this.#rowsWaiting += page.candles.length
    this.#writing ??= this.#writeAll()
    while (this.#rowsWaiting > mostRowsWaiting && this.#writing !== null) await this.#writing
    this.#throwFailure()
  }

  /** Resolves when everything that was added is committed. */
  async idle(): Promise<void> {
    while (this.#writing !== null) await this.#writing
    this.#throwFailure()
  }

  #throwFailure(): void {
    if (this.#failure !== null) throw this.#failure
  }

  async #writeAll(): Promise<void> {
    try {
      while (this.#waiting.length > 0) await this.#write(this.#nextPages())
    } catch (error) {
      this.#failure = error
      this.#waiting = []
      this.#rowsWaiting = 0
    } finally {
      this.#writing = null
    }
  }

  #nextPages(): CandlePage[] {
    let rows = 0
    let count = 0
    for (const { candles } of this.#waiting) {
      if (count > 0 && rows + candles.length > mostRowsPerCommit) break
      rows += candles.length
      count++
    }
    this.#rowsWaiting -= rows
    return this.#waiting.splice(0, count)
  }

  async #write(pages: readonly CandlePage[]): Promise<void> {
    const { clock, logger, signal, series } = this.#options
    const [first] = pages
    if (first === undefined) return
    const batch = {
      stream: 'candles' as const,
      target: series,
      requestTime: first.requestTime,
      receivedAt: first.receivedAt,
      rows: pages.flatMap(({ candles }) => candles),
      rejected: pages.flatMap(({ rejected }) => rejected),
      proven: [],
      gaps: [],
      isPart: true,
    }
    for (let delayMs = firstRetryMs; ; delayMs = Math.min(lastRetryMs, delayMs * 2)) {
      try {
        const { inserted, updated, rejected } = await storeBatch(this.#db, batch)
        this.counts.inserted += inserted
        this.counts.updated += updated
        this.counts.rejected += rejected
        return
      } catch (error) {
        if (!isConnectionError(error)) throw error
        logger.warn(`backfill: ${describeDatabaseError(error)}`)
        await clock.sleep(delayMs, signal)
      }
    }
  }
}
