import type { Kysely } from 'kysely'
import type { Candle, CandleSeries } from '../market/candle.js'
import { normalized, type TimeRange } from '../market/timeRange.js'
import { type RejectedRow, rejectedRow } from '../market/rejectedRow.js'
import type { TimeMs } from '../market/values.js'
import { type Backoff, backoffMs } from '../runtime/backoff.js'
import type { Clock } from '../runtime/clock.js'
import type { Logger } from '../runtime/logger.js'
import { describeDatabaseError, isConnectionError, isDataError } from '../store/db/databaseError.js'
import type { Database } from '../store/db/schema.js'
import { findRefusedRows } from '../store/batch/refusedRows.js'
import { insertRejectedRows } from '../store/live/rejectedRows.js'
import { storeCandles } from '../store/batch/storeCandles.js'

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
}

/** Pages that wait while an earlier transaction is under way are stored together, so the disk sets the pace of commits. */
const maxRowsPerCommit = 5_000
const retry: Backoff = { minMs: 250, maxMs: 5_000 }

interface Waiting {
  readonly page: CandlePage
  readonly done: (error: Error | null) => void
}

/** Stores the pages of one series in the order in which they come, several in one transaction when they come quickly. */
export class CandleWriter {
  readonly #db: Kysely<Database>
  readonly #options: CandleWriterOptions
  #waiting: Waiting[] = []
  #writing: Promise<void> | null = null
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
    })
  }

  /** Resolves when nothing waits to be stored any more. */
  async idle(): Promise<void> {
    while (this.#writing !== null) await this.#writing
  }

  /** Never rejects: each page is told what became of it. */
  async #writeAll(): Promise<void> {
    while (this.#waiting.length > 0) {
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
    const batch: CandlePage = {
      candles: pages.flatMap(({ candles }) => candles),
      silence: normalized(pages.flatMap(({ silence }) => silence)),
      rejected: pages.flatMap(({ rejected }) => rejected),
      requestTime: first.requestTime,
      receivedAt: first.receivedAt,
    }
    for (let failures = 1; ; failures++) {
      try {
        const { inserted, updated, rejected, turnedUp } = await storePage(this.#db, series, batch)
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

/** Stores a page, all of it or nothing; without the rows that the database refuses for their content, which are kept as rejected ones. */
async function storePage(db: Kysely<Database>, series: CandleSeries, page: CandlePage) {
  const { silence, receivedAt } = page
  const commit = async ({ candles, rejected }: Pick<CandlePage, 'candles' | 'rejected'>, untried = 0) => {
    if (rejected.length === 0) return { ...(await storeCandles(db, candles, silence)), rejected: untried }
    return db.transaction().execute(async (trx) => {
      const written = await storeCandles(trx, candles, silence)
      await insertRejectedRows(trx, rejected, receivedAt)
      return { ...written, rejected: rejected.length + untried }
    })
  }
  try {
    return await commit(page)
  } catch (error) {
    if (!isDataError(error)) throw error
    const { good, refused, untried } = await findRefusedRows(db, page.candles, storeCandles)
    const { category, symbol, type, interval } = series
    const request = { operation: 'candles' as const, parameters: { category, symbol, type, interval } }
    const rejected = refused.map(({ row, error: reason }) =>
      rejectedRow(request, describeDatabaseError(reason), JSON.stringify(row)),
    )
    return commit({ candles: good, rejected: [...page.rejected, ...rejected] }, untried)
  }
}
