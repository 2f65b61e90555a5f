import type { Kysely } from 'kysely'
import { describeDatabaseError } from '../../db/databaseError.js'
import type { Database } from '../../db/schema.js'
import { instrumentStream } from '../../db/series.js'
import type { Batch } from '../../ledger/batch.js'
import { type NewGap, recordGap } from '../../ledger/gaps.js'
import { storeBatches, type StoredBatch } from '../../ledger/storeBatches.js'
import type { Category } from '../../market/category.js'
import { categoriesOf, isProven, type StreamName, streamNames } from '../../market/stream.js'
import type { TimeRange } from '../../market/timeRange.js'
import { addMs, earlierOf, laterOf, type MachineMs } from '../../market/values.js'
import type { Incidents } from '../../runtime/incidents.js'
import type { RecorderMetrics } from '../../runtime/metrics.js'
import { messageOf } from '../../runtime/text.js'
import type { CollectorStats } from '../streams/stream.js'
import { freeSpace, Lane, type Store } from './lane.js'
import { type SetAside, Spool, type SpoolOptions } from './spool.js'

/** Functions of the ledger that the queue calls. */
interface QueueLedger {
  readonly store: Store
  readonly recordGap: (gap: NewGap) => Promise<void>
}

/** The ledger of a database. Each write waits for `mayStore`: it may hold another service or an older schema. */
export function ledgerOf(db: Kysely<Database>, mayStore = () => Promise.resolve()): QueueLedger {
  return {
    store: (batches) => mayStore().then(() => storeBatches(db, batches)),
    recordGap: (gap) => mayStore().then(() => recordGap(db, gap)),
  }
}

export interface QueueOptions extends Pick<
  SpoolOptions,
  'root' | 'maxBytes' | 'clock' | 'serviceNow' | 'disk' | 'onDamage'
> {
  readonly incidents: Incidents
  readonly stats: CollectorStats
  readonly metrics?: RecorderMetrics
  /** Called with batches that were durable on the disk and had to make room there. */
  readonly onDropped?: (batches: readonly Batch[]) => void
}

/** Responses that are not committed yet. */
interface Backlog {
  /** Batches in memory, on their way to the database or the disk. */
  readonly batches: number
  readonly rows: number
  /** When the oldest batch in memory was received; null if there is none. */
  readonly oldestReceivedAt: MachineMs | null
  /** Bytes on the disk that wait for the database. */
  readonly spooledBytes: number
  readonly isSpooling: boolean
}

const droppedReason = 'dropped: neither the database nor the disk took it'

/** Makes responses durable: in the ledger or, while it does not take them, on the disk. Each stream has a lane. */
export class Queue {
  readonly #options: QueueOptions
  readonly #ledger: QueueLedger
  readonly #spool: Spool
  readonly #lanes: ReadonlyMap<StreamName, Lane>
  /** Batches in memory, in the order of arrival, so that the first is the oldest. */
  readonly #waiting = new Set<Batch>()
  /**
   * Losses of snapshots that no gap records yet, as one range of time for each stream, category and reason. They are
   * recorded when the next batch is stored, and are forgotten when the process ends.
   */
  readonly #losses = new Map<string, NewGap>()

  private constructor(ledger: QueueLedger, spool: Spool, options: QueueOptions) {
    const { clock, incidents } = options
    const lane = (stream: StreamName) =>
      new Lane({
        stream,
        store: ledger.store,
        spool,
        clock,
        incidents,
        onStored: (batch, outcome, tookMs) => this.#count(batch, outcome, tookMs),
      })
    this.#options = options
    this.#ledger = ledger
    this.#spool = spool
    this.#lanes = new Map(streamNames.map((stream) => [stream, lane(stream)]))
  }

  /** Opens the queue and begins to store what earlier recorders left on the disk. Rejects if the folder is unusable. */
  static async open(ledger: QueueLedger, options: QueueOptions): Promise<Queue> {
    const { onDropped, ...others } = options
    const spool = await Spool.open({
      ...others,
      onDropped: (batches, lack) => {
        queue.#dropped(batches, lack === 'bound' ? 'raise collector.spoolMaxBytes' : freeSpace)
        onDropped?.(batches)
      },
      onSetAside: (segment) => queue.#setAside(segment),
    })
    const queue = new Queue(ledger, spool, options)
    queue.#readDisk()
    return queue
  }

  /** Takes over the batches of recorders that have ended since `open`. They are stored before what is written later. */
  async claimOrphans(): Promise<void> {
    await this.#spool.claimOrphans()
    this.#readDisk()
  }

  /**
   * Resolves to true when the batch is durable: committed, or on the disk. Resolves to false if neither database nor
   * disk took it. Such a batch is lost: its rows are counted, and a gap tells of lost snapshots. Never rejects.
   */
  async write(batch: Batch): Promise<boolean> {
    this.#waiting.add(batch)
    try {
      const isDurable = await (this.#lanes.get(batch.stream) as Lane).write(batch)
      if (isDurable) this.#options.incidents.succeeded('lost responses')
      else this.#lose(batch)
      return isDurable
    } finally {
      this.#waiting.delete(batch)
    }
  }

  backlog(): Backlog {
    let rows = 0
    let oldestReceivedAt: MachineMs | null = null
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

  #readDisk(): void {
    for (const [stream, lane] of this.#lanes) if (this.#spool.has(stream)) lane.readDisk()
  }

  #lose({ stream, target, requestTime, rows }: Batch): void {
    this.#options.stats[stream].rowsDropped += rows.length
    if (rows.length === 0) return
    const { category } = target as { readonly category?: Category }
    const range = { from: requestTime, to: addMs(requestTime, 1) }
    this.#noteLoss(stream, range, droppedReason, category === undefined ? categoriesOf(stream) : [category])
  }

  /**
   * Notes that snapshots were lost. Streams with coverage need no note, because all time outside their coverage counts
   * as missing.
   */
  #noteLoss(stream: StreamName, range: TimeRange, reason: string, categories: readonly Category[]): void {
    if (isProven(stream)) return
    for (const category of categories)
      this.#widenLoss({ ...instrumentStream(stream, { category, symbol: '*' }), range, reason, verdict: 'lost' })
  }

  #widenLoss(gap: NewGap): void {
    const key = [gap.stream, gap.category, gap.reason].join(' ')
    const { from, to } = this.#losses.get(key)?.range ?? gap.range
    this.#losses.set(key, { ...gap, range: { from: earlierOf(from, gap.range.from), to: laterOf(to, gap.range.to) } })
  }

  /** Records the lost ranges as gaps, when the database seems to be back. */
  #recordLosses(): void {
    const { incidents, stats } = this.#options
    for (const [key, gap] of this.#losses) {
      this.#losses.delete(key)
      void this.#ledger.recordGap(gap).then(
        () => {
          stats[gap.stream].gapsFound += 1
          incidents.succeeded('lost snapshots', key)
        },
        (error: unknown) => {
          this.#widenLoss(gap)
          incidents.failed('lost snapshots', `${describeDatabaseError(error)}; their gap is recorded later`, key)
        },
      )
    }
  }

  #dropped(batches: readonly Batch[], advice: string): void {
    for (const batch of batches) this.#lose(batch)
    this.#options.incidents.failed('lost responses', `the spool is full, and the oldest are dropped; ${advice}`)
  }

  #setAside({ file, stream, range, error }: SetAside): void {
    const todo = 'when the disk reads it again, remove the last part of its name and restart the recorder'
    this.#options.incidents.failed('spool', `${messageOf(error)}: ${file} is left out; ${todo}`)
    this.#noteLoss(stream, range, 'left out: a segment of the spool could not be read', categoriesOf(stream))
    this.#recordLosses()
  }

  #count(batch: Batch, outcome: StoredBatch, tookMs: number): void {
    const { clock, stats, metrics, incidents } = this.#options
    const { stream: name, receivedAt } = batch
    const stream = stats[name]
    stream.rowsWritten += outcome.inserted + outcome.updated
    stream.rowsUnchanged += outcome.unchanged
    stream.rowsRejected += outcome.rejected
    stream.gapsFound += outcome.gapsFound
    stream.lastStoredAt = clock.now()
    metrics?.writeDuration.observe({ stream: name }, tookMs / 1000)
    metrics?.storeLag.observe({ stream: name }, Math.max(0, clock.now() - receivedAt) / 1000)
    this.#recordLosses()
    for (const remark of outcome.remarks) incidents.failed(`${name} rows`, remark)
  }
}
