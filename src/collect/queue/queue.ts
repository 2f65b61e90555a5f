import type { Batch } from '../../ledger/batch.js'
import type { StoredBatch } from '../../ledger/storeBatches.js'
import type { InstrumentKey } from '../../market/category.js'
import { type StreamName, streamNames } from '../../market/stream.js'
import type { TimeMs } from '../../market/values.js'
import { type Clock, systemClock } from '../../runtime/clock.js'
import type { Disk } from '../../runtime/disk.js'
import type { Incidents } from '../../runtime/incidents.js'
import { messageOf } from '../../runtime/text.js'
import type { RecorderMetrics } from '../../runtime/metrics.js'
import type { CollectorStats } from '../streams/streamStats.js'
import { Lane, type LaneOptions, type Store } from './lane.js'
import { type SetAside, Spool, type SpoolOptions } from './spool.js'

export interface QueueOptions extends Pick<SpoolOptions, 'root' | 'maxBytes' | 'segmentBytes' | 'onDamage'> {
  readonly clock?: Clock
  readonly disk?: Disk
  readonly incidents: Incidents
  readonly stats: CollectorStats
  readonly metrics?: RecorderMetrics
  /** Reports what was durable on the disk and had to make room there. */
  readonly onDropped?: (batches: readonly Batch[]) => void
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

/** Where responses become durable: in the ledger, or on the disk while the ledger does not take them. Each stream has a lane. */
export class Queue {
  readonly #options: QueueOptions
  readonly #spool: Spool
  readonly #lanes: ReadonlyMap<StreamName, Lane>
  /** In the order of arrival, so the first is the oldest. */
  readonly #waiting = new Set<Batch>()

  private constructor(store: Store, spool: Spool, options: QueueOptions) {
    const { clock = systemClock, incidents } = options
    const onStored: LaneOptions['onStored'] = (batch, outcome, tookMs) => this.#count(batch, outcome, tookMs)
    const lane = (stream: StreamName) => new Lane({ stream, store, spool, clock, incidents, onStored })
    this.#options = options
    this.#spool = spool
    this.#lanes = new Map(streamNames.map((stream) => [stream, lane(stream)]))
  }

  /** Opens the queue and begins to store what earlier recorders left on the disk. Rejects when the folder cannot be used. */
  static async open(store: Store, options: QueueOptions): Promise<Queue> {
    const { onDropped, ...others } = options
    const spool = await Spool.open({
      ...others,
      onDropped: (batches, lack) => {
        queue.#dropped(batches, lack === 'bound' ? 'raise collector.spoolMaxBytes' : freeSpace)
        onDropped?.(batches)
      },
      onSetAside: (segment) => queue.#setAside(segment),
    })
    const queue = new Queue(store, spool, options)
    queue.#readDisk()
    return queue
  }

  /** Stores also what recorders left on this disk that have ended in the meantime, before what is written from now on. */
  async adopt(): Promise<void> {
    await this.#spool.adopt()
    this.#readDisk()
  }

  /**
   * Resolves to true when everything in the batch is durable: committed, or on the disk. Rejects never: what neither database nor disk
   * takes is lost, which is counted, and of snapshots becomes a gap; then it resolves to false.
   */
  async write(batch: Batch): Promise<boolean> {
    this.#waiting.add(batch)
    try {
      const isDurable = await this.#laneOf(batch).write(batch)
      if (!isDurable) this.#lose(batch)
      return isDurable
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
    const isSpooling = [...this.#lanes.values()].some((lane) => lane.isSpooling)
    return { batches: this.#waiting.size, rows, oldestReceivedAt, spooledBytes: this.#spool.bytes, isSpooling }
  }

  /** Goes on storing until `signal` aborts or the database is away, then leaves the rest on disk for the next start. */
  async close(signal: AbortSignal): Promise<void> {
    await Promise.all([...this.#lanes.values()].map((lane) => lane.close(signal)))
    await this.#spool.close()
  }

  #laneOf({ stream }: Pick<Batch, 'stream'>): Lane {
    return this.#lanes.get(stream) as Lane
  }

  #readDisk(): void {
    for (const [stream, lane] of this.#lanes) if (this.#spool.has(stream)) lane.readDisk()
  }

  #lose(batch: Batch): void {
    this.#options.stats[batch.stream].rowsDropped += batch.rows.length
    this.#laneOf(batch).lost(batch)
  }

  #dropped(batches: readonly Batch[], advice: string): void {
    for (const batch of batches) this.#lose(batch)
    this.#options.incidents.failed('spool', `it is full: the oldest responses are dropped; ${advice}`)
  }

  #setAside({ file, stream, range, error }: SetAside): void {
    const todo = 'when the disk reads it again, remove the last part of its name and restart the recorder'
    this.#options.incidents.failed('spool', `${messageOf(error)}: ${file} is left out; ${todo}`)
    this.#laneOf({ stream }).lostRange(range, 'left out: a segment of the spool could not be read')
  }

  #count(batch: Batch, outcome: StoredBatch, tookMs: number): void {
    const { clock = systemClock, stats, metrics, incidents } = this.#options
    const { stream: name, receivedAt, target } = batch
    const stream = stats[name]
    stream.rowsWritten += outcome.inserted + outcome.updated
    stream.rowsUnchanged += outcome.unchanged
    stream.rowsRejected += outcome.rejected
    stream.gapsFound += outcome.gapsFound
    stream.lastStoredAt = clock.now()
    metrics?.writeDuration.observe({ stream: name }, tookMs / 1000)
    metrics?.storeLag.observe({ stream: name }, Math.max(0, clock.now() - receivedAt) / 1000)
    for (const remark of outcome.remarks) incidents.failed(`${name} rows`, remark)
    if (!metrics?.instrumentStored || !isInstrument(target)) return
    const { category, symbol } = target
    metrics.instrumentStored.set({ stream: name, category, symbol }, clock.now() / 1000)
  }
}

const freeSpace = 'free space on the disk that holds database.dataDir'

function isInstrument(target: unknown): target is InstrumentKey {
  return typeof target === 'object' && target !== null && 'category' in target && 'symbol' in target
}
