import { type Batch, seriesKey } from '../../ledger/batch.js'
import type { StreamName } from '../../market/stream.js'
import { unlessAborted } from '../../runtime/abort.js'
import { backoffMs, type Clock, sleepFor } from '../../runtime/clock.js'
import type { Incidents } from '../../runtime/incidents.js'
import { messageOf } from '../../runtime/text.js'
import type { Segment, Spool } from './spool.js'

/** What became of a batch. It is `late` if its statement took too long: others may be stored before it is tried again. */
export type End = 'stored' | 'failed' | 'late'

interface DiskReaderOptions {
  readonly stream: StreamName
  readonly spool: Spool
  readonly clock: Clock
  readonly incidents: Incidents
  /** Ends reading. */
  readonly signal: AbortSignal
  /** Returns the number of consecutive failures of the database. */
  readonly failures: () => number
  /** Largest number of rows from the disk in memory at once. The last batch may exceed it. */
  readonly maxRowsInHand: number
  /** Stores a batch in its turn, and calls `settle` once. */
  readonly store: (batch: Batch, settle: (end: End) => void) => void
}

/**
 * Wait before the next attempt after a failure of the database. A batch that the disk has refused stays in memory for
 * two seconds and is lost then. Waits are shorter than that, so that such a batch is attempted at least once.
 */
export const retry = { minMs: 250, maxMs: 1_000 }
/** Wait while no segment is free: about as long as a write and a sync take. */
const segmentPollMs = 10

/** Brings the batches of one stream back from the disk, the oldest segment first. */
export class DiskReader {
  readonly #options: DiskReaderOptions
  #rowsInHand = 0
  #onRoom = () => {}
  /** The segment that is being stored, and the indexes of its records that are stored already. */
  #begun: { readonly name: string; readonly stored: Set<number> } | undefined

  constructor(options: DiskReaderOptions) {
    this.#options = options
  }

  /** Stores batches from the disk until none is left. */
  async readAll(): Promise<void> {
    const { spool, stream, clock, incidents, signal, failures: ofDatabase } = this.#options
    for (let failures = 0; !signal.aborted && spool.has(stream);) {
      try {
        const segment = await spool.takeOldest(stream)
        failures = 0
        incidents.succeeded('spool', stream)
        // Segments of the stream exist, but each is being written, or being dropped to make room.
        if (segment === null) await sleepFor(clock, segmentPollMs, signal)
        else if (!(await this.#storeSegment(segment))) await sleepFor(clock, backoffMs(ofDatabase(), retry), signal)
      } catch (error) {
        failures++
        incidents.failed('spool', `${messageOf(error)}; what is on the disk stays there and is tried again`, stream)
        await sleepFor(clock, backoffMs(failures, retry), signal)
      }
    }
  }

  /**
   * Resolves to false if some of the segment is not stored. It then stays on the disk, where it may be dropped. Late
   * batches move to the end of the spool.
   */
  async #storeSegment(segment: Segment): Promise<boolean> {
    const { spool, signal, maxRowsInHand } = this.#options
    if (this.#begun?.name !== segment.name) this.#begun = { name: segment.name, stored: new Set() }
    const { stored } = this.#begun
    const storing: Promise<void>[] = []
    const late = new Map<number, Batch>()
    const lateSeries = new Set<string>()
    let hasFailed = false
    let isRead = false
    try {
      for (const [index, record] of segment.records.entries()) {
        if (stored.has(index)) continue
        while (this.#rowsInHand > maxRowsInHand && !signal.aborted)
          await unlessAborted(signal, new Promise<void>((resolve) => (this.#onRoom = resolve)))
        // While the database is away, try one batch at a time until one is stored.
        if (this.#options.failures() > 0) await unlessAborted(signal, storing.at(-1) ?? Promise.resolve())
        const batch = await spool.unpack(record)
        // After a failed batch, no later one of its series may be stored.
        if (signal.aborted || hasFailed) break
        if (batch === undefined) {
          // Its damage is reported, so it is not unpacked again.
          stored.add(index)
          continue
        }
        const key = seriesKey(batch)
        const settle = (end: End) => {
          if (end === 'stored') stored.add(index)
          else if (end === 'failed') hasFailed = true
          else {
            late.set(index, batch)
            lateSeries.add(key)
          }
        }
        if (lateSeries.has(key)) settle('late')
        else storing.push(this.#store(batch, settle))
      }
      await unlessAborted(signal, Promise.all(storing))
      if (signal.aborted || hasFailed) return false
      for (const [index, batch] of [...late].toSorted(([a], [b]) => a - b)) {
        await spool.append(batch)
        stored.add(index)
      }
      isRead = true
      return late.size === 0
    } finally {
      await spool.release(segment, isRead)
    }
  }

  #store(batch: Batch, onSettled: (end: End) => void): Promise<void> {
    this.#rowsInHand += rowsIn(batch)
    return new Promise((resolve) => {
      const settle = (end: End) => {
        this.#rowsInHand -= rowsIn(batch)
        this.#onRoom()
        onSettled(end)
        resolve()
      }
      this.#options.store(batch, settle)
    })
  }
}

export function rowsIn({ rows, rejected }: Batch): number {
  return rows.length + rejected.length
}
