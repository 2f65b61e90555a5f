import { join } from 'node:path'
import { promisify } from 'node:util'
import { deflateRaw, inflateRaw } from 'node:zlib'
import pLimit from 'p-limit'
import type { StreamName } from '../../market/stream.js'
import type { Clock } from '../../runtime/clock.js'
import { type Disk, isFullDisk } from '../../runtime/disk.js'
import { messageOf } from '../../runtime/messageOf.js'
import { type Damage, type Segment, SegmentLog } from './segmentLog.js'
import { Reserve } from './reserve.js'
import { type SpoolFolder, takeSpoolFolder } from './spoolFolder.js'
import type { Batch } from '../../ledger/batch/batch.js'
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

/** Why something has to go: what the spool may hold, or what the disk has. */
export type LackOfRoom = 'bound' | 'disk'

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
/** Besides the lanes, in the folder of a spool. */
const reserveFolder = 'reserve'
/** A file takes whole blocks, and its name takes room as well. */
const slackBytes = 16_384
/** A batch is made of one response, which is bounded; a record that unpacks to more is damaged. */
const maxBatchBytes = 128 * 1024 * 1024
const deflate = promisify(deflateRaw)
const inflate = promisify(inflateRaw)

/** Batches that wait on disk for the database. */
export class BatchSpool {
  readonly #options: BatchSpoolOptions
  readonly #folder: SpoolFolder
  readonly #logs: Readonly<Record<Lane, SegmentLog>>
  readonly #reserve: Reserve
  /** What recorders that have ended had kept in the reserve. */
  #keptBefore: Batch[] = []
  /** Names of segments that are being replayed: they are not dropped under the hands of whoever does. */
  readonly #busy: Readonly<Record<Lane, Set<string>>> = { unrepeatable: new Set(), refetchable: new Set() }
  #appending = 0
  /** One after the other: what one has given up may be room enough for all who wait. */
  readonly #oneByOne = pLimit(1)
  /** What the disk has got back since it last took something, in bytes. */
  #freedBytes = 0
  /** Told of what was given up for lack of room. */
  onDropped: (batches: readonly Batch[], lack: LackOfRoom) => void = () => undefined
  /**
   * Given the notes of gaps for which the disk has no room: whoever has them keeps them until there is. Resolves to whether they
   * outlive a crash; otherwise nothing is given up.
   */
  onUnnoted: (notes: readonly Batch[]) => Promise<boolean> = () => Promise.resolve(false)

  private constructor(
    options: BatchSpoolOptions,
    folder: SpoolFolder,
    logs: Record<Lane, SegmentLog>,
    reserve: Reserve,
  ) {
    this.#options = options
    this.#folder = folder
    this.#logs = logs
    this.#reserve = reserve
  }

  /** Opens the spool, with what recorders left that do not run any more. Rejects when the folder cannot be written to. */
  static async open(options: BatchSpoolOptions): Promise<BatchSpool> {
    const { root, segmentBytes = Math.min(segmentBytesByDefault, options.maxBytes / 8) } = options
    try {
      const folder = await takeSpoolFolder(root, [...lanes, reserveFolder], options.disk)
      const openLog = (lane: Lane) => SegmentLog.open(join(folder.directory, lane), { ...options, segmentBytes })
      const logs = { unrepeatable: await openLog('unrepeatable'), refetchable: await openLog('refetchable') }
      const reserve = await Reserve.open(join(folder.directory, reserveFolder), options.disk)
      const spool = new BatchSpool(options, folder, logs, reserve)
      await spool.#findKept()
      return spool
    } catch (cause) {
      throw new Error(
        `the spool in ${root} cannot be used: ${messageOf(cause)}; make database.dataDir a writable folder`,
        { cause },
      )
    }
  }

  /** Takes over what recorders left that have ended since it was opened. Rejects when the folder cannot be read. */
  async adopt(): Promise<void> {
    await this.#folder.adopt()
    for (const lane of lanes) await this.#logs[lane].findMoved()
    await this.#findKept()
  }

  /** Notes of gaps that earlier recorders had found no room for; each once. They stay in the reserve until others are kept. */
  takeKeptBefore(): Batch[] {
    const kept = this.#keptBefore
    this.#keptBefore = []
    return kept
  }

  /** Keeps exactly these notes in room that was taken before. False when there is none. Not to be called twice at once. */
  async keep(notes: readonly Batch[]): Promise<boolean> {
    return this.#reserve.keep(notes.length === 0 ? new Uint8Array() : await packed(notes))
  }

  get bytes(): number {
    return this.#logs.unrepeatable.bytes + this.#logs.refetchable.bytes
  }

  get isEmpty(): boolean {
    return this.#appending === 0 && this.#logs.unrepeatable.isEmpty && this.#logs.refetchable.isEmpty
  }

  /** Resolves when the batch is on disk for good, for which older ones may have to go. Rejects with the file system's error. */
  async append(batch: Batch): Promise<void> {
    this.#appending++
    try {
      const body = await packed(batch)
      while (this.bytes + body.length > this.#options.maxBytes) {
        const before = this.bytes
        if ((await this.dropOldest('bound')) === 0) break
        // Notes of gaps stay, in another place: where there is nothing else in the spool, dropping makes no room.
        if (this.bytes >= before) break
      }
      await this.#appendMakingRoom(laneOf(batch), body)
    } finally {
      this.#appending--
    }
  }

  /** The same for a batch without rows, small enough to be kept beyond the bound, for which nothing has to go. */
  async appendNote(note: Batch): Promise<void> {
    this.#appending++
    try {
      await this.#logs.unrepeatable.append(await packed(note))
    } finally {
      this.#appending--
    }
  }

  async #appendMakingRoom(lane: Lane, body: Uint8Array): Promise<void> {
    const neededBytes = body.length + slackBytes
    for (let isRetry = false; ; isRetry = true) {
      try {
        await this.#logs[lane].append(body)
        this.#freedBytes = 0
        return
      } catch (error) {
        // Something else takes the room as soon as there is some: nothing more is given up for that.
        const isInVain = isRetry && this.#freedBytes >= neededBytes
        if (!isFullDisk(error) || isInVain) throw error
        if (!(await this.#oneByOne(() => this.#freeAtLeast(neededBytes)))) throw error
      }
    }
  }

  async #freeAtLeast(bytes: number): Promise<boolean> {
    while (this.#freedBytes < bytes) {
      const freed = await this.dropOldest('disk')
      if (freed === 0) return false
      this.#freedBytes += freed
    }
    return true
  }

  /**
   * Gives up the oldest segment that can be given up, once a note of the gaps is kept: a crash in between leaves both. Returns its
   * bytes; 0 when there is none, or no room for the note.
   */
  async dropOldest(lack: LackOfRoom): Promise<number> {
    for (const lane of [...lanes].reverse()) {
      const busy = this.#busy[lane]
      const segment = await this.#logs[lane].oldest(busy)
      if (segment === null || busy.has(segment.name)) continue
      busy.add(segment.name)
      try {
        const batches: Batch[] = []
        for (const record of segment.records) batches.push(...(await this.decode(record)))
        if (!(await this.#isNoted(gapsOfDropped(batches)))) return 0
        await this.#logs[lane].remove(segment)
        this.onDropped(batches, lack)
      } finally {
        busy.delete(segment.name)
      }
      return Math.max(1, segment.bytes)
    }
    return 0
  }

  async #isNoted(notes: readonly Batch[]): Promise<boolean> {
    try {
      for (const note of notes) await this.appendNote(note)
      return true
    } catch {
      return this.onUnnoted(notes)
    }
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
    const batch = await this.#unpacked(record)
    return batch === undefined ? [] : [batch as Batch]
  }

  /** What is in it stays for the next recorder. */
  async close(): Promise<void> {
    for (const lane of lanes) await this.#logs[lane].close()
    await this.#reserve.close()
    await this.#folder.release()
  }

  async #findKept(): Promise<void> {
    for (const body of await this.#reserve.find()) {
      this.#keptBefore.push(...(((await this.#unpacked(body)) as readonly Batch[] | undefined) ?? []))
    }
  }

  /** Undefined when it cannot be understood, which is reported. */
  async #unpacked(body: Buffer): Promise<unknown> {
    try {
      return JSON.parse((await inflate(body, { maxOutputLength: maxBatchBytes })).toString())
    } catch {
      this.#options.onDamage({ file: this.#folder.directory, stretches: 1, bytes: body.length })
      return undefined
    }
  }
}

function packed(what: unknown): Promise<Buffer> {
  return deflate(JSON.stringify(what), { level: 1 })
}

function laneOf({ stream, rows }: Batch): Lane {
  // A batch without rows is a note of gaps, which nothing else remembers.
  return rows.length > 0 ? laneOfStream[stream] : 'unrepeatable'
}
