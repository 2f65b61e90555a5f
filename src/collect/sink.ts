import type { Kysely } from 'kysely'
import pLimit from 'p-limit'
import type { Clock } from '../runtime/clock.js'
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
}

const firstRetryMs = 250
const lastRetryMs = 5_000

/** Where answers become rows: bounded writes, patient with a database that is away, and no good row lost to a bad one. */
export class Sink {
  readonly #db: Kysely<Database>
  readonly #options: SinkOptions
  readonly #limit: ReturnType<typeof pLimit>
  readonly #giveUp = new AbortController()

  constructor(db: Kysely<Database>, options: SinkOptions) {
    this.#db = db
    this.#options = options
    this.#limit = pLimit(options.maxInFlightWrites)
  }

  /** Resolves when everything in the batch is committed. Rejects only after `abandon`. */
  async write(batch: Batch): Promise<void> {
    await this.#limit(() => this.#writePatiently(batch))
  }

  /** Ends all waiting for a database that is away; what waited is lost, and its writers are told. */
  abandon(): void {
    this.#giveUp.abort(new Error('the database did not come back before the recorder had to stop'))
  }

  async #writePatiently(batch: Batch): Promise<void> {
    const { clock, incidents, stats } = this.#options
    for (let delayMs = firstRetryMs; ; delayMs = Math.min(lastRetryMs, delayMs * 2)) {
      try {
        const result = await storeBatch(this.#db, batch)
        incidents.succeeded('database')
        const stream = stats[batch.stream]
        stream.rowsWritten += result.inserted + result.updated
        stream.rowsUnchanged += result.unchanged
        stream.rowsRejected += result.rejected
        stream.gapsFound += batch.gaps.length
        stream.lastStoredAt = clock.now()
        return
      } catch (error) {
        if (!isConnectionError(error)) throw error
        incidents.failed('database', describeDatabaseError(error))
        await clock.sleep(delayMs, this.#giveUp.signal)
      }
    }
  }
}
