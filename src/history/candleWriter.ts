import type { Kysely } from 'kysely'
import type { Candle, CandleSeries } from '../market/candle.js'
import { normalized, type TimeRange } from '../market/timeRange.js'
import type { RejectedRow } from '../market/rejectedRow.js'
import type { TimeMs } from '../market/values.js'
import { type Backoff, backoffMs } from '../runtime/backoff.js'
import type { Clock } from '../runtime/clock.js'
import type { Logger } from '../runtime/logger.js'
import { describeDatabaseError, isConnectionError } from '../db/databaseError.js'
import type { Database } from '../db/schema.js'
import type { Batch } from '../ledger/batch/batch.js'
import { storeBatch } from '../ledger/batch/storeBatch.js'

export interface CandlePage {
  readonly candles: readonly Candle[]
  /** What it left out between two candles that it gave. */
  readonly silence: readonly TimeRange[]
  readonly rejected: readonly RejectedRow[]
  readonly requestTime: TimeMs
  readonly receivedAt: TimeMs
}

export interface CandleWriterOptions {
  readonly series: CandleSeries
  readonly clock: Clock
  readonly logger: Logger
  readonly signal: AbortSignal
  /** How many pages are asked for and not stored yet, those that wait here among them. */
  readonly pagesUnderWay: () => number
}

/** Pages that wait while an earlier transaction is under way are stored together, so the disk sets the pace of commits. */
const maxRowsPerCommit = 5_000
/**
 * A statement costs as much as most of a page of 100, and nobody waits for a single page of the past: while others are under way,
 * pages wait for so many rows, and not for long.
 */
const enoughRows = 500
const gatherMs = 500
const retry: Backoff = { minMs: 250, maxMs: 5_000 }

interface Waiting {
  readonly page: CandlePage
  readonly done: (error: Error | null) => void
}

/** Stores the pages of one series in the order in which they come, several in one transaction. */
export class CandleWriter {
  readonly #db: Kysely<Database>
  readonly #options: CandleWriterOptions
  #waiting: Waiting[] = []
  #writing: Promise<void> | null = null
  /** Ends the wait for more pages. */
  #hasEnough: (() => void) | undefined
  readonly counts = { inserted: 0, updated: 0, rejected: 0, turnedUp: 0 }

  constructor(db: Kysely<Database>, options: CandleWriterOptions) {
    this.#db = db
    this.#options = options
  }

  /** Resolves when the page is committed; rejects when it cannot be stored. */
  store(page: CandlePage): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ page, done: (error) => (error === null ? resolve() : reject(error)) })
      this.#writing ??= this.#writeAll()
      this.lookAgain()
    })
  }

  /** To be called when fewer pages are under way, too: the last of them has nothing to wait for. */
  lookAgain(): void {
    if (this.#isEnough()) this.#hasEnough?.()
  }

  /** Resolves when nothing waits to be stored any more. */
  async idle(): Promise<void> {
    while (this.#writing !== null) await this.#writing
  }

  /** Never rejects: each page is told what became of it. */
  async #writeAll(): Promise<void> {
    while (this.#waiting.length > 0) {
      await this.#gathered()
      const next = this.#nextPages()
      const pages = next.map(({ page }) => page)
      const error = await this.#write(pages).then(
        () => null,
        (reason: unknown) => (reason instanceof Error ? reason : new Error(String(reason))),
      )
      for (const { done } of next) done(error)
    }
    this.#writing = null
  }

  async #gathered(): Promise<void> {
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
    const rows = this.#waiting.reduce((sum, { page }) => sum + page.candles.length, 0)
    return rows >= enoughRows || this.#waiting.length >= this.#options.pagesUnderWay()
  }

  #nextPages(): Waiting[] {
    let rows = 0
    let count = 0
    for (const { page } of this.#waiting) {
      if (count > 0 && rows + page.candles.length > maxRowsPerCommit) break
      rows += page.candles.length
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
      proven: [],
      gaps: [],
      isPart: false,
    }
    for (let failures = 1; ; failures++) {
      try {
        const { inserted, updated, rejected, turnedUp } = await storeBatch(this.#db, batch)
        this.counts.inserted += inserted
        this.counts.updated += updated
        this.counts.rejected += rejected
        this.counts.turnedUp += turnedUp
        return
      } catch (error) {
        if (!isConnectionError(error)) throw error
        logger.warn(`backfill: ${describeDatabaseError(error)}`)
        await clock.sleep(backoffMs(failures, retry), signal)
      }
    }
  }
}
