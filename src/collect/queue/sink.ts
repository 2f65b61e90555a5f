import { type Kysely, sql } from 'kysely'
import type { InstrumentKey } from '../../market/category.js'
import type { TimeMs } from '../../market/values.js'
import { type Clock, within } from '../../runtime/clock.js'
import type { RecorderMetrics } from '../../runtime/metrics.js'
import { describeDatabaseError } from '../../db/databaseError.js'
import type { Database } from '../../db/schema.js'
import type { Batch } from '../../ledger/batch/batch.js'
import type { BatchSpool } from './batchSpool.js'
import { gapsOfDropped } from './droppedBatches.js'
import type { Incidents } from '../../runtime/incidents.js'
import { Replay } from './replay.js'
import { storeBatch, storeBatches, type StoredBatch } from '../../ledger/batch/storeBatches.js'
import type { CollectorStats } from '../streamStats.js'
import { UnnotedGaps } from './unnotedGaps.js'
import { messageOf } from '../../runtime/messageOf.js'

export interface SinkOptions {
  readonly maxInFlightWrites: number
  readonly clock: Clock
  readonly incidents: Incidents
  readonly stats: CollectorStats
  readonly spool: BatchSpool
  readonly metrics?: RecorderMetrics | undefined
}

/** Responses that are not committed yet. */
export interface Backlog {
  /** In memory, on their way to the database or the disk. */
  readonly batches: number
  readonly rows: number
  /** When the oldest of those in memory was received; null when there is none. */
  readonly oldestReceivedAt: TimeMs | null
  /** On disk, waiting for the database. */
  readonly spooledBytes: number
  readonly isSpooling: boolean
}

/** A database that takes longer than this to store a batch does not hold up the next one: the batch goes to the disk. */
const patienceMs = 2_000
const handoverMs = 250
/** What one call stores: few enough that a slow database is done with them in time. */
const maxGroup = 64
const maxGroupRows = 5_000

/**
 * Where responses become durable: in the database, or in the spool while the database does not take them.
 *
 * direct ──a write fails or takes too long──▶ spooling ──everything replayed──▶ direct
 *
 * While spooling, all responses go to the spool, so that they reach the database in their order; asking goes on at its own
 * speed. What an earlier process left in the spool makes a recorder start as spooling.
 */
export class Sink {
  readonly #db: Kysely<Database>
  readonly #options: SinkOptions
  /** Batches that wait for a connection: those that may go together are stored in one transaction. */
  readonly #queue: Queued[] = []
  #writes = 0
  readonly #replay: Replay
  /** In the order of arrival, so the first is the oldest. */
  readonly #waiting = new Set<Batch>()
  #isSpooling = false
  readonly #unnoted: UnnotedGaps
  /** Told of what was durable and had to be given up for lack of room on the disk. */
  onDropped: (batches: readonly Batch[]) => void = () => undefined

  constructor(db: Kysely<Database>, options: SinkOptions) {
    this.#db = db
    this.#options = options
    this.#replay = new Replay({
      spool: options.spool,
      clock: options.clock,
      parallel: options.maxInFlightWrites,
      store: (batch) => this.#store(batch),
      probe: async () => void (await sql`select`.execute(db)),
      onFailure: (error) => options.incidents.failed('database', describeDatabaseError(error)),
      onDone: () => {
        this.#isSpooling = false
        options.incidents.succeeded('database')
      },
    })
    const { spool, clock, incidents, stats } = options
    this.#unnoted = new UnnotedGaps({
      clock,
      keep: (notes) => spool.keep(notes),
      store: (note) => this.#storeInTime(note),
      append: (note) =>
        spool.appendNote(note).then(
          () => (this.#replay.start(), true),
          () => false,
        ),
    })
    spool.onDropped = (batches, lack) => {
      for (const batch of batches) stats[batch.stream].rowsDropped += batch.rows.length
      const action =
        lack === 'bound' ? 'raise collector.spoolMaxBytes' : 'free space on the disk that holds database.dataDir'
      incidents.failed('spool', `it is full: the oldest responses are dropped; ${action}`)
      this.onDropped(batches)
    }
    spool.onUnnoted = (notes) => this.#unnoted.add(notes)
    this.#replayLeft()
  }

  /** Stores also what recorders left on this disk that have ended in the meantime, before what is written from now on. */
  async adopt(): Promise<void> {
    await this.#options.spool.adopt()
    this.#replayLeft()
  }

  /**
   * Resolves to true when everything in the batch is durable: committed, or on the disk for replay. Rejects never: what neither
   * database nor disk takes is lost, which is counted and becomes a gap; then it resolves to false.
   */
  async write(batch: Batch): Promise<boolean> {
    this.#waiting.add(batch)
    try {
      await this.#handedOver()
      if (!this.#isSpooling && (await this.#writeDirectly(batch))) {
        await this.#unnoted.store()
        return true
      }
      return await this.#writeToSpool(batch)
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
    const { spool } = this.#options
    return {
      batches: this.#waiting.size,
      rows,
      oldestReceivedAt,
      spooledBytes: spool.bytes,
      isSpooling: this.#isSpooling,
    }
  }

  /** Goes on replaying until `signal` aborts or the database is away, then leaves the rest on disk for the next start. */
  async close(signal: AbortSignal): Promise<void> {
    await this.#replay.close(signal)
    await this.#unnoted.close()
    await this.#options.spool.close()
  }

  #replayLeft(): void {
    const { spool } = this.#options
    void this.#unnoted.add(spool.takeKeptBefore())
    if (spool.isEmpty) return
    this.#isSpooling = true
    this.#replay.start()
  }

  /** Resolves when the last of what was spooled is stored, or when that takes longer than the disk would. */
  async #handedOver(): Promise<void> {
    const { handover } = this.#replay
    if (handover === undefined) return
    await within(this.#options.clock, handoverMs, handover, undefined)
  }

  /** False when the database did not take it, or not in time. */
  async #writeDirectly(batch: Batch): Promise<boolean> {
    const { clock, incidents } = this.#options
    const queued: Queued = { batch, isWanted: true, resolve: () => undefined, reject: () => undefined }
    const writing = new Promise<boolean>((resolve, reject) => Object.assign(queued, { resolve, reject }))
    this.#queue.push(queued)
    this.#writeQueued()
    try {
      const outcome = await within(clock, patienceMs, writing, 'late' as const)
      if (outcome === 'late') {
        // It may still succeed, which does no harm: storing twice is storing once.
        queued.isWanted = false
        incidents.failed('database', `a write has taken longer than ${patienceMs / 1000} s; responses go to the spool`)
        this.#isSpooling = true
        return false
      }
      if (outcome) incidents.succeeded('database')
      return outcome
    } catch (error) {
      incidents.failed('database', `${describeDatabaseError(error)}; responses go to the spool`)
      this.#isSpooling = true
      return false
    }
  }

  /** Never lets a batch wait for others to come: groups are made of what waits while all connections are busy. */
  #writeQueued(): void {
    while (this.#writes < this.#options.maxInFlightWrites && this.#queue.length > 0) {
      const group = this.#takeGroup().filter((queued) => {
        // Its turn came too late: it is on the disk, or about to be.
        const isWanted = queued.isWanted && !this.#isSpooling
        if (!isWanted) queued.resolve(false)
        return isWanted
      })
      if (group.length === 0) continue
      this.#writes++
      void this.#storeGroup(group).finally(() => {
        this.#writes--
        this.#writeQueued()
      })
    }
  }

  #takeGroup(): Queued[] {
    let [count, rows] = [0, 0]
    for (const { batch } of this.#queue) {
      rows += batch.rows.length
      if (count > 0 && (count >= maxGroup || rows > maxGroupRows)) break
      count++
    }
    return this.#queue.splice(0, count)
  }

  /** Never rejects: each batch is told what became of it. */
  async #storeGroup(group: readonly Queued[]): Promise<void> {
    const startedMs = this.#options.clock.monotonicMs()
    const outcomes = await storeBatches(
      this.#db,
      group.map(({ batch }) => batch),
    )
    for (const [index, { batch, resolve, reject }] of group.entries()) {
      const outcome = outcomes[index]
      if (outcome?.isStored !== true) reject(outcome?.error)
      else {
        this.#count(batch, outcome, startedMs)
        resolve(true)
      }
    }
  }

  async #writeToSpool(batch: Batch): Promise<boolean> {
    const { spool, incidents, stats } = this.#options
    try {
      await spool.append(batch)
    } catch (error) {
      incidents.failed('spool', `${messageOf(error)}; free space on the disk that holds database.dataDir`)
      // If nothing is left to replay, the next response goes to the database again; perhaps this one can, too.
      this.#replay.start()
      const isStored = await this.#unnoted.addUnless(gapsOfDropped([batch]), () => this.#storeInTime(batch))
      if (!isStored) stats[batch.stream].rowsDropped += batch.rows.length
      return isStored
    }
    incidents.succeeded('spool')
    this.#replay.start()
    await this.#unnoted.append()
    return true
  }

  async #storeInTime(batch: Batch): Promise<boolean> {
    const stored = this.#store(batch).then(
      () => true,
      () => false,
    )
    return within(this.#options.clock, patienceMs, stored, false)
  }

  /** Rejects when the database is away. */
  async #store(batch: Batch): Promise<void> {
    const startedMs = this.#options.clock.monotonicMs()
    this.#count(batch, await storeBatch(this.#db, batch), startedMs)
  }

  #count(batch: Batch, result: StoredBatch, startedMs: number): void {
    const { clock, stats, metrics, incidents } = this.#options
    const { stream: name, receivedAt, target } = batch
    const stream = stats[name]
    stream.rowsWritten += result.inserted + result.updated
    stream.rowsUnchanged += result.unchanged
    stream.rowsRejected += result.rejected
    stream.gapsFound += result.gapsFound
    stream.lastStoredAt = clock.now()
    metrics?.writeDuration.observe({ stream: name }, (clock.monotonicMs() - startedMs) / 1000)
    metrics?.storeLag.observe({ stream: name }, Math.max(0, clock.now() - receivedAt) / 1000)
    for (const remark of result.remarks) incidents.failed(`${name} rows`, remark)
    if (!metrics?.instrumentStored || !isInstrument(target)) return
    const { category, symbol } = target
    metrics.instrumentStored.set({ stream: name, category, symbol }, clock.now() / 1000)
  }
}

interface Queued {
  readonly batch: Batch
  /** False once it was given to the spool instead. */
  isWanted: boolean
  readonly resolve: (isStored: boolean) => void
  readonly reject: (error: unknown) => void
}

function isInstrument(target: unknown): target is InstrumentKey {
  return typeof target === 'object' && target !== null && 'category' in target && 'symbol' in target
}
