import type { Kysely } from 'kysely'
import pLimit from 'p-limit'
import type { InstrumentKey } from '../market/category.js'
import type { TimeMs } from '../market/values.js'
import type { Clock } from '../runtime/clock.js'
import type { RecorderMetrics } from '../runtime/metrics.js'
import { describeDatabaseError, isConnectionError } from '../store/databaseError.js'
import type { Database } from '../store/schema.js'
import type { Batch } from './batch.js'
import type { Incidents } from './incidents.js'
import { storeBatch } from './storeBatch.js'
import type { CollectorStats } from './streamStats.js'

export interface SinkOptions {
  readonly maxInFlightWrites: number
  readonly clock: Clock
  readonly incidents: Incidents
  readonly stats: CollectorStats
  readonly metrics?: RecorderMetrics | undefined
}

/** Answers in memory that are not committed yet. */
export interface Backlog {
  readonly batches: number
  readonly rows: number
  /** When the oldest of them was received; null when there is none. */
  readonly oldestReceivedAt: TimeMs | null
}

const firstRetryMs = 250
const lastRetryMs = 5_000

/** Where answers become rows: bounded writes, patient with a database that is away, and no good row lost to a bad one. */
export class Sink {
  readonly #db: Kysely<Database>
  readonly #options: SinkOptions
  readonly #limit: ReturnType<typeof pLimit>
  readonly #giveUp = new AbortController()
  /** In the order of arrival, so the first is the oldest. */
  readonly #waiting = new Set<Batch>()

  constructor(db: Kysely<Database>, options: SinkOptions) {
    this.#db = db
    this.#options = options
    this.#limit = pLimit(options.maxInFlightWrites)
  }

  /** Resolves when everything in the batch is committed. Rejects only after `abandon`. */
  async write(batch: Batch): Promise<void> {
    this.#waiting.add(batch)
    try {
      await this.#limit(() => this.#writePatiently(batch))
    } finally {
      this.#waiting.delete(batch)
    }
  }

  backlog(): Backlog {
    let rows = 0
    let oldestReceivedAt: TimeMs | null = null
    for (const batch of this.#waiting) {
      rows += batch.rows.length
      oldestReceivedAt ??= batch.receivedAt
    }
    return { batches: this.#waiting.size, rows, oldestReceivedAt }
  }

  /** Ends all waiting for a database that is away; what waited is lost, and its writers are told. */
  abandon(): void {
    this.#giveUp.abort(new Error('the database did not come back before the recorder had to stop'))
  }

  async #writePatiently(batch: Batch): Promise<void> {
    const { clock, incidents, stats, metrics } = this.#options
    for (let delayMs = firstRetryMs; ; delayMs = Math.min(lastRetryMs, delayMs * 2)) {
      const startedMs = clock.monotonicMs()
      try {
        const result = await storeBatch(this.#db, batch)
        incidents.succeeded('database')
        const stream = stats[batch.stream]
        stream.rowsWritten += result.inserted + result.updated
        stream.rowsUnchanged += result.unchanged
        stream.rowsRejected += result.rejected
        stream.gapsFound += batch.gaps.length
        stream.lastStoredAt = clock.now()
        metrics?.writeDuration.observe({ stream: batch.stream }, (clock.monotonicMs() - startedMs) / 1000)
        metrics?.storeLag.observe({ stream: batch.stream }, Math.max(0, clock.now() - batch.receivedAt) / 1000)
        if (metrics?.instrumentStored && isInstrument(batch.target)) {
          const { category, symbol } = batch.target
          metrics.instrumentStored.set({ stream: batch.stream, category, symbol }, clock.now() / 1000)
        }
        return
      } catch (error) {
        if (!isConnectionError(error)) throw error
        incidents.failed('database', describeDatabaseError(error))
        await clock.sleep(delayMs, this.#giveUp.signal)
      }
    }
  }
}

function isInstrument(target: unknown): target is InstrumentKey {
  return typeof target === 'object' && target !== null && 'category' in target && 'symbol' in target
}
