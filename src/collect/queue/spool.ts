import { join } from 'node:path'
import { type StreamName, streamNames, streamTraits } from '../../market/stream.js'
import type { TimeRange } from '../../market/timeRange.js'
import type { Clock } from '../../runtime/clock.js'
import { type Disk, isFullDisk } from '../../runtime/disk.js'
import { messageOf } from '../../runtime/text.js'
import { type Batch, seriesKey } from '../../ledger/batch.js'
import { pack, scanRecords, SegmentWriter, unpack } from './segmentWriter.js'
import { becomeSpoolOwner, createdAt, parseSegmentName, segmentName, type SpoolOwner } from './spoolOwner.js'

export interface SpoolOptions {
  /** Folder of the spools of all recorders on this machine. */
  readonly root: string
  /** Most bytes on disk. Beyond, the oldest segments go: first of streams that can be fetched again. */
  readonly maxBytes: number
  /** Default 4 MB. */
  readonly segmentBytes?: number
  readonly disk: Disk
  readonly clock: Clock
  /** Reports records that are lost because their bytes are damaged. */
  readonly onDamage: (damage: Damage) => void
  /** Reports batches that were on the disk and had to make room. */
  readonly onDropped: (batches: readonly Batch[], lack: LackOfRoom) => void
  /** Reports a segment that stays on the disk under another name because it cannot be read. */
  readonly onSetAside: (segment: SetAside) => void
}

export interface Damage {
  readonly file: string
  readonly stretches: number
  readonly bytes: number
}

/** Why batches have to make room: what the spool may hold is used up, or what the disk has. */
type LackOfRoom = 'bound' | 'disk'

export interface SetAside {
  readonly file: string
  readonly stream: StreamName
  /** Within which its batches were received. */
  readonly range: TimeRange
  readonly error: unknown
}

/** A closed segment with its records in memory. It stays on disk until it is removed. */
export interface Segment {
  readonly name: string
  readonly records: readonly Buffer[]
}

/** Batches that the service can be asked for again make room first. */
const repeatable = streamNames.filter((name) => streamTraits[name].isRepeatable)
const unrepeatable = streamNames.filter((name) => !streamTraits[name].isRepeatable)
const segmentBytesByDefault = 4 * 1024 * 1024
/** A disk that is short of handles or out of reach for a moment reads again within this time. */
const unreadableForMs = 60_000
/** A response is on the disk at most so long after it was received. */
const onItsWayMs = 15_000

interface Closed {
  readonly stream: StreamName
  readonly isOwn: boolean
  readonly bytes: number
}

/** Where batches of a series are. */
interface Place {
  /** The newest segment with one. */
  segment: string | undefined
  appending: number
}

/**
 * Batches that wait on disk for the database, each stream in segments of its own.
 *
 * All recorders of a machine share the folder. A segment's name holds the time of its creation, its stream and its owner: the
 * order of segments is that of their names, and those of owners that have ended are taken over.
 */
export class Spool {
  readonly #options: SpoolOptions
  readonly #disk: Disk
  readonly #clock: Clock
  readonly #owner: SpoolOwner
  readonly #writers: ReadonlyMap<StreamName, SegmentWriter>
  readonly #closed = new Map<string, Closed>()
  readonly #places = new Map<string, Place>()
  /** Segments that are being stored or are making room. */
  readonly #inHand = new Set<string>()
  /** Since when a segment cannot be read, on the monotonic clock. */
  readonly #unreadableSince = new Map<string, number>()
  #sequence = 0
  #appending = 0
  /** Batches are appended in the order in which they came, however long packing each takes. */
  #packed: Promise<unknown> = Promise.resolve()
  #dropping: Promise<boolean> | undefined
  /** Something else takes the room as soon as there is some: until a record fits, nothing more is given up for that. */
  #isDroppingInVain = false

  private constructor(options: SpoolOptions, owner: SpoolOwner) {
    const { root, maxBytes, segmentBytes = Math.min(segmentBytesByDefault, maxBytes / 8) } = options
    this.#options = options
    this.#disk = options.disk
    this.#clock = options.clock
    this.#owner = owner
    const writer = (stream: StreamName) =>
      new SegmentWriter({
        directory: root,
        segmentBytes,
        disk: this.#disk,
        nextName: () => segmentName(this.#clock.now(), this.#sequence++, stream, owner.name),
        onClosed: (name, bytes) => this.#closed.set(name, { stream, isOwn: true, bytes }),
      })
    this.#writers = new Map(streamNames.map((stream) => [stream, writer(stream)]))
  }

  /** Opens the spool, with what recorders left that have ended. Rejects when the folder cannot be written to. */
  static async open(options: SpoolOptions): Promise<Spool> {
    const { root, disk } = options
    const owner = await becomeSpoolOwner(disk)
    try {
      await disk.mkdir(root, { recursive: true, mode: 0o700 })
      await tryWriting(disk, join(root, `${owner.name}.try`))
      const spool = new Spool(options, owner)
      await spool.adopt()
      return spool
    } catch (cause) {
      owner.release()
      throw new Error(
        `the spool in ${root} cannot be used: ${messageOf(cause)}; make database.dataDir a writable folder`,
        { cause },
      )
    }
  }

  /** Takes over what recorders left that have ended. Reads no contents. Rejects when the folder cannot be read. */
  async adopt(): Promise<void> {
    const { root } = this.#options
    for (const name of await this.#disk.readdir(root)) {
      const parsed = parseSegmentName(name)
      if (parsed === null || this.#closed.has(name) || !(await this.#owner.hasEnded(parsed.owner))) continue
      const found = await this.#disk.stat(join(root, name)).catch(() => undefined)
      if (found?.isFile() === true) this.#closed.set(name, { stream: parsed.stream, isOwn: false, bytes: found.size })
    }
  }

  /** On disk, and about to be written there. */
  get bytes(): number {
    let sum = 0
    for (const { bytes } of this.#closed.values()) sum += bytes
    for (const { current, waitingBytes } of this.#writers.values()) sum += (current?.bytes ?? 0) + waitingBytes
    return sum
  }

  get isEmpty(): boolean {
    return this.#appending === 0 && !streamNames.some((stream) => this.has(stream))
  }

  has(stream: StreamName): boolean {
    if (this.#writers.get(stream)?.current !== undefined) return true
    for (const closed of this.#closed.values()) if (closed.stream === stream) return true
    return false
  }

  /** Tells whether batches of this one's series may be on the disk: of what earlier recorders left, that is not known. */
  holds(batch: Batch): boolean {
    for (const { stream, isOwn } of this.#closed.values()) if (stream === batch.stream && !isOwn) return true
    const place = this.#places.get(seriesKey(batch))
    if (place === undefined) return false
    const { segment } = place
    if (place.appending > 0) return true
    if (segment === undefined) return false
    return this.#closed.has(segment) || this.#writers.get(batch.stream)?.current?.name === segment
  }

  /** Resolves when the batch is on disk for good, for which older ones may have to go. Rejects with the file system's error. */
  async append(batch: Batch): Promise<void> {
    const key = seriesKey(batch)
    const place = this.#places.get(key) ?? { segment: undefined, appending: 0 }
    this.#places.set(key, place)
    place.appending++
    this.#appending++
    try {
      const before = this.#packed
      const packing = pack(batch)
      this.#packed = Promise.allSettled([before, packing])
      await before
      const body = await packing
      while (this.bytes + body.length > this.#options.maxBytes && (await this.#makeRoom('bound')));
      place.segment = await this.#appendMakingRoom(batch.stream, body)
    } finally {
      place.appending--
      this.#appending--
    }
  }

  /**
   * The oldest segment of a stream, to be stored; null when there is none. Rejects while it cannot be read; one that stays so is set
   * aside, and the next one's turn comes.
   */
  async takeOldest(stream: StreamName): Promise<Segment | null> {
    for (;;) {
      const name = await this.#takeInHand([stream])
      if (name === undefined) return null
      let segment: Segment | null = null
      try {
        segment = await this.#read(name)
      } finally {
        if (segment === null) this.#inHand.delete(name)
      }
      if (segment !== null) return segment
    }
  }

  /** Ends what `takeOldest` began. A segment of which everything is stored is removed, any other stays. */
  async release({ name }: Segment, isStored: boolean): Promise<void> {
    this.#inHand.delete(name)
    if (isStored) await this.#remove(name)
  }

  /** The batch in a record; undefined when it cannot be understood, which is reported. */
  async unpack(record: Buffer): Promise<Batch | undefined> {
    try {
      return await unpack(record)
    } catch {
      this.#options.onDamage({ file: this.#options.root, stretches: 1, bytes: record.length })
      return undefined
    }
  }

  /** Finishes what is being written, and leaves everything to the next recorder. */
  async close(): Promise<void> {
    for (const writer of this.#writers.values()) await writer.close()
    this.#owner.release()
  }

  /** Takes the oldest segment that is not in hand; what is being written is closed for it only where there is no other. */
  async #takeInHand(streams: readonly StreamName[]): Promise<string | undefined> {
    const takeOldest = () => {
      let oldest: string | undefined
      for (const [name, { stream }] of this.#closed)
        if (streams.includes(stream) && !this.#inHand.has(name) && (oldest === undefined || name < oldest))
          oldest = name
      // At once, before anybody else looks: a segment that is being stored must not make room.
      if (oldest !== undefined) this.#inHand.add(oldest)
      return oldest
    }
    const taken = takeOldest()
    if (taken !== undefined) return taken
    for (const stream of streams) await this.#writers.get(stream)?.close()
    return takeOldest()
  }

  /** Null when the segment is gone or has been set aside. */
  async #read(name: string): Promise<Segment | null> {
    const file = join(this.#options.root, name)
    try {
      const bytes = await this.#disk.readFile(file)
      this.#unreadableSince.delete(name)
      const { records, damagedStretches, damagedBytes } = scanRecords(bytes)
      if (damagedStretches > 0) this.#options.onDamage({ file, stretches: damagedStretches, bytes: damagedBytes })
      return { name, records }
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') {
        const { isOwn, bytes } = this.#closed.get(name) as Closed
        this.#closed.delete(name)
        // Another recorder that took over the same segment has stored it; nobody does that with one's own.
        if (isOwn) this.#options.onDamage({ file, stretches: 1, bytes })
        return null
      }
      const since = this.#unreadableSince.get(name) ?? this.#clock.monotonicMs()
      this.#unreadableSince.set(name, since)
      if (this.#clock.monotonicMs() - since < unreadableForMs) throw error
      await this.#setAside(name, error)
      return null
    }
  }

  async #setAside(name: string, error: unknown): Promise<void> {
    const { stream } = this.#closed.get(name) as Closed
    const file = join(this.#options.root, name)
    const closed = [...this.#closed].flatMap(([other, found]) => (found.stream === stream ? [other] : []))
    const current = this.#writers.get(stream)?.current?.name ?? name
    const later = [...closed, current].filter((other) => other > name).map(createdAt)
    const to = Math.min(this.#clock.now(), ...later)
    await this.#disk.rename(file, `${file}.unreadable`)
    this.#closed.delete(name)
    const range = { from: createdAt(name) - onItsWayMs, to: Math.max(to, createdAt(name)) + 1 }
    this.#options.onSetAside({ file: `${file}.unreadable`, stream, range, error })
  }

  async #remove(name: string): Promise<void> {
    await this.#disk.rm(join(this.#options.root, name), { force: true })
    this.#closed.delete(name)
    if (this.isEmpty) this.#places.clear()
  }

  async #appendMakingRoom(stream: StreamName, body: Uint8Array): Promise<string> {
    const writer = this.#writers.get(stream) as SegmentWriter
    const append = async () => {
      const segment = await writer.append(body)
      this.#isDroppingInVain = false
      return segment
    }
    try {
      return await append()
    } catch (error) {
      if (!isFullDisk(error) || this.#isDroppingInVain || !(await this.#makeRoom('disk'))) throw error
      this.#isDroppingInVain = true
      return append()
    }
  }

  /** Gives up the oldest segment that can be given up; false when there is none. All who need room at once share what that makes. */
  #makeRoom(lack: LackOfRoom): Promise<boolean> {
    this.#dropping ??= this.#dropOldest(lack).finally(() => {
      this.#dropping = undefined
    })
    return this.#dropping
  }

  async #dropOldest(lack: LackOfRoom): Promise<boolean> {
    const name = (await this.#takeInHand(repeatable)) ?? (await this.#takeInHand(unrepeatable))
    if (name === undefined) return false
    try {
      const batches: Batch[] = []
      for (const record of (await this.#read(name))?.records ?? []) {
        const batch = await this.unpack(record)
        if (batch !== undefined) batches.push(batch)
      }
      await this.#remove(name)
      this.#options.onDropped(batches, lack)
      return true
    } finally {
      this.#inHand.delete(name)
    }
  }
}

/** Rejects when the folder cannot be written to. A full disk is no reason: what is there makes room. */
async function tryWriting(disk: Disk, file: string): Promise<void> {
  try {
    await (await disk.open(file, 'ax', 0o600)).close()
    await disk.rm(file, { force: true })
  } catch (error) {
    if (!isFullDisk(error)) throw error
  }
}
