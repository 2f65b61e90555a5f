import { join } from 'node:path'
import { promisify } from 'node:util'
import { deflateRaw, inflateRaw } from 'node:zlib'
import type { StreamName } from '../../market/stream.js'
import type { Clock } from '../../runtime/clock.js'
import type { Disk } from '../../runtime/disk.js'
import { type Damage, type Segment, SegmentLog } from '../../store/spool/segmentLog.js'
import { type SpoolFolder, takeSpoolFolder } from '../../store/spool/spoolFolder.js'
import type { Batch } from '../../store/batch/batch.js'
import { gapsOfDropped } from './droppedBatches.js'

export interface BatchSpoolOptions {
  /** Folder of the spools of all recorders that run here. */
  readonly root: string
  /** Most bytes on disk. When they are used up, the oldest batches go: first those that can be fetched again. */
  readonly maxBytes: number
  /** Default 4 MB. */
  readonly segmentBytes?: number
  readonly onDamage: (damage: Damage) => void
  readonly disk?: Disk
  readonly clock?: Clock
}

/** Batches of a stream are all in the same lane, and in their order. */
export const lanes = ['unrepeatable', 'refetchable'] as const
export type Lane = (typeof lanes)[number]

export interface SpooledSegment {
  /** Tells it from all other segments; its name is the lane's own. */
  readonly key: string
  readonly lane: Lane
  readonly segment: Segment
}

/** What the service still has can be asked for again: it goes first when the disk is full. */
const laneOfStream: Readonly<Record<StreamName, Lane>> = {
  instruments: 'refetchable',
  rpi_symbols: 'refetchable',
  tickers: 'unrepeatable',
  order_books: 'unrepeatable',
  rpi_order_books: 'unrepeatable',
  fills: 'unrepeatable',
  candles: 'refetchable',
}
const segmentBytesByDefault = 4 * 1024 * 1024
/** A batch is made of one response, which is bounded; a record that unpacks to more is damaged. */
const maxBatchBytes = 128 * 1024 * 1024
const deflate = promisify(deflateRaw)
const inflate = promisify(inflateRaw)

/** Batches that wait on disk for the database. */
export class BatchSpool {
  readonly #options: BatchSpoolOptions
  readonly #folder: SpoolFolder
  readonly #logs: Readonly<Record<Lane, SegmentLog>>
  /** Names of segments that are being replayed: they are not dropped under the hands of whoever does. */
  readonly #busy: Readonly<Record<Lane, Set<string>>> = { unrepeatable: new Set(), refetchable: new Set() }
  #appending = 0
  /** Told of what was given up for lack of room. */
  onDropped: (batches: readonly Batch[]) => void = () => undefined
  /** Given the notes of gaps for which there is no room either: whoever has them keeps them until there is. */
  onUnnoted: (note: Batch) => void = () => undefined

  private constructor(options: BatchSpoolOptions, folder: SpoolFolder, logs: Record<Lane, SegmentLog>) {
    this.#options = options
    this.#folder = folder
    this.#logs = logs
  }

  /** Opens the spool, with what recorders left that do not run any more. Rejects when the folder cannot be written to. */
  static async open(options: BatchSpoolOptions): Promise<BatchSpool> {
    const { root, segmentBytes = Math.min(segmentBytesByDefault, options.maxBytes / 8) } = options
    try {
      const folder = await takeSpoolFolder(root, lanes, options.disk)
      const openLog = (lane: Lane) => SegmentLog.open(join(folder.directory, lane), { ...options, segmentBytes })
      const logs = { unrepeatable: await openLog('unrepeatable'), refetchable: await openLog('refetchable') }
      return new BatchSpool(options, folder, logs)
    } catch (cause) {
      const why = cause instanceof Error ? cause.message : String(cause)
      throw new Error(`the spool in ${root} cannot be used: ${why}; make database.dataDir a writable folder`, { cause })
    }
  }

  /** Takes over what recorders left that have ended since it was opened. Rejects when the folder cannot be read. */
  async adopt(): Promise<void> {
    await this.#folder.adopt()
    for (const lane of lanes) await this.#logs[lane].findMoved()
  }

  get bytes(): number {
    return this.#logs.unrepeatable.bytes + this.#logs.refetchable.bytes
  }

  get isEmpty(): boolean {
    return this.#appending === 0 && this.#logs.unrepeatable.isEmpty && this.#logs.refetchable.isEmpty
  }

  /** Resolves when the batch is on disk for good. Rejects with the file system's error. */
  async append(batch: Batch): Promise<void> {
    this.#appending++
    try {
      const body = await deflate(JSON.stringify(batch), { level: 1 })
      while (this.bytes + body.length > this.#options.maxBytes) {
        const before = this.bytes
        if (!(await this.dropOldest())) break
        // Notes of gaps stay, in another place: where there is nothing else in the spool, dropping makes no room.
        if (this.bytes >= before) break
      }
      await this.#logs[laneOf(batch)].append(body)
    } finally {
      this.#appending--
    }
  }

  /** Gives up the oldest segment that can be given up and keeps a note of the gaps. False when there is none. */
  async dropOldest(): Promise<boolean> {
    for (const lane of [...lanes].reverse()) {
      const busy = this.#busy[lane]
      const segment = await this.#logs[lane].oldest(busy)
      if (segment === null || busy.has(segment.name)) continue
      busy.add(segment.name)
      try {
        const batches: Batch[] = []
        for (const record of segment.records) batches.push(...(await this.decode(record)))
        await this.#logs[lane].remove(segment)
        this.onDropped(batches)
        for (const note of gapsOfDropped(batches)) await this.#note(note).catch(() => this.onUnnoted(note))
      } finally {
        busy.delete(segment.name)
      }
      return true
    }
    return false
  }

  /** The oldest segment of a lane, for replay; null when the lane is empty. */
  async oldest(lane: Lane): Promise<SpooledSegment | null> {
    const segment = await this.#logs[lane].oldest()
    if (segment === null) return null
    this.#busy[lane].add(segment.name)
    return { key: `${lane}/${segment.name}`, lane, segment }
  }

  /** Ends a replay; the segment is removed when everything in it is stored. */
  async release({ lane, segment }: SpooledSegment, isStored: boolean): Promise<void> {
    if (isStored) await this.#logs[lane].remove(segment)
    this.#busy[lane].delete(segment.name)
  }

  /** The batch in a record: none when it cannot be understood, which is reported. */
  async decode(record: Buffer): Promise<Batch[]> {
    try {
      return [JSON.parse((await inflate(record, { maxOutputLength: maxBatchBytes })).toString()) as Batch]
    } catch {
      this.#options.onDamage({ file: this.#folder.directory, stretches: 1, bytes: record.length })
      return []
    }
  }

  /** What is in it stays for the next recorder. */
  async close(): Promise<void> {
    for (const lane of lanes) await this.#logs[lane].close()
    await this.#folder.release()
  }

  /** Small enough to be kept beyond the bound. */
  async #note(batch: Batch): Promise<void> {
    await this.#logs.unrepeatable.append(await deflate(JSON.stringify(batch), { level: 1 }))
  }
}

function laneOf({ stream, rows }: Batch): Lane {
  // A batch without rows is a note of gaps, which nothing else remembers.
  return rows.length > 0 ? laneOfStream[stream] : 'unrepeatable'
}
