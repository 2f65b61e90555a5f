import { join } from 'node:path'
import { type StreamName, streamNames, streamTraits } from '../../market/stream.js'
import type { TimeRange } from '../../market/timeRange.js'
import { addMs, asIfService, earlierOf, largest, laterOf, type ServiceMs, smallest, sum } from '../../market/values.js'
import type { Clock } from '../../runtime/clock.js'
import { type Disk, isFullDisk } from '../../runtime/disk.js'
import { becomeFileOwner, type FileOwner } from '../../runtime/folderLock.js'
import { messageOf } from '../../runtime/text.js'
import { type Batch, seriesKey } from '../../ledger/batch.js'
import { countedBytes, pack, readSegment, SegmentWriter, unpack } from './segmentWriter.js'
import { createdAtOf, parseSegmentName, requireWritable, segmentName } from './spoolFolders.js'

export interface SpoolOptions {
  /** Folder of the spools of all recorders on this machine. */
  readonly root: string
  /** Largest size on disk. Beyond it old segments are dropped, first of streams that can be fetched again. */
  readonly maxBytes: number
  readonly disk: Disk
  readonly clock: Clock
  readonly serviceNow: () => ServiceMs | null
  /** Reports records that are lost because their bytes are damaged. */
  readonly onDamage: (damage: Damage) => void
  /** Reports batches that were on the disk and had to make room. */
  readonly onDropped: (batches: readonly Batch[], lack: LackOfRoom) => void
  /** Reports a segment that stays on the disk under another name because it cannot be read. */
  readonly onSetAside: (segment: SetAside) => void
}

interface Damage {
  readonly file: string
  readonly stretches: number
  readonly bytes: number
}

/** Why batches have to make room: the spool has reached its bound, or the disk is full. */
type LackOfRoom = 'bound' | 'disk'

export interface SetAside {
  readonly file: string
  readonly stream: StreamName
  /** Time within which the segment's batches were received. */
  readonly range: TimeRange
  readonly error: unknown
}

/** A closed segment with its records in memory. It stays on disk until it is removed. */
export interface Segment {
  readonly name: string
  readonly records: readonly Buffer[]
}

/** Streams that can be fetched again. Their batches make room first. */
const repeatable = streamNames.filter((name) => streamTraits[name].isRepeatable)
/** Size at which a segment is closed, or an eighth of `maxBytes` if that is less. */
const maxSegmentBytes = 4 * 1024 * 1024
/** A segment that stays unreadable for longer is set aside. A process that lacks file handles recovers sooner. */
const unreadableForMs = 60_000
/** Longest time from receiving a response until it is on the disk. */
const longestToDiskMs = 15_000
/** Something else may fill the disk for a moment. Records make room only after so many tries. */
const maxTries = 5
const retryMs = 500

interface Closed {
  readonly stream: StreamName
  readonly isOwn: boolean
  readonly bytes: number
}

/** Batches of a series on the disk. */
interface SpooledSeries {
  /** The newest segment with a batch of the series. */
  segment: string | undefined
  appending: number
  /** Settles when all batches so far are on the disk, or refused. */
  settled: Promise<unknown>
}

/**
 * Keeps batches on disk until the database takes them. Each stream has its own segments.
 *
 * All recorders of a machine share the folder. A segment's name holds the time of its creation, its stream and its
 * owner. So names sort segments by age, and a recorder can take over the segments of owners that have ended.
 */
export class Spool {
  readonly #options: SpoolOptions
  readonly #owner: FileOwner
  readonly #writers: ReadonlyMap<StreamName, SegmentWriter>
  readonly #closed = new Map<string, Closed>()
  readonly #series = new Map<string, SpooledSeries>()
  /** Segments that are being stored or are making room. */
  readonly #inHand = new Set<string>()
  /** Time since which a segment cannot be read, on the monotonic clock. */
  readonly #unreadableSince = new Map<string, number>()
  readonly #withReportedDamage = new Set<string>()
  /** A segment is begun for a response, so that the service's time is known by then. */
  readonly #now = (): ServiceMs => this.#options.serviceNow() ?? asIfService(this.#options.clock.now())
  #sequence = 0
  #appending = 0
  #dropping: Promise<boolean> | undefined
  /** True if the disk stayed full after a segment was dropped. Something else fills it, so nothing more is dropped. */
  #isDroppingInVain = false

  private constructor(options: SpoolOptions, owner: FileOwner) {
    this.#options = options
    this.#owner = owner
    const writer = (stream: StreamName) =>
      new SegmentWriter({
        directory: options.root,
        segmentBytes: Math.min(maxSegmentBytes, options.maxBytes / 8),
        disk: options.disk,
        nextName: () => {
          // The clock may have been set back, but the order of names must be that of writing.
          const createdAt = laterOf(this.#now(), addMs(largest([...this.#closed.keys()].map(createdAtOf)), 1))
          return segmentName(createdAt, this.#sequence++, stream, owner.name)
        },
        onClosed: (name, bytes) => this.#closed.set(name, { stream, isOwn: true, bytes }),
      })
    this.#writers = new Map(streamNames.map((stream) => [stream, writer(stream)]))
  }

  /** Opens the spool, with the segments of recorders that have ended. Rejects if the folder cannot be written to. */
  static async open(options: SpoolOptions): Promise<Spool> {
    const { root, disk } = options
    const owner = await becomeFileOwner(disk)
    try {
      await disk.mkdir(root, { recursive: true, mode: 0o700 })
      await requireWritable(disk, join(root, `${owner.name}.try`))
      const spool = new Spool(options, owner)
      await spool.claimOrphans()
      return spool
    } catch (cause) {
      owner.release()
      throw new Error(
        `the spool in ${root} cannot be used: ${messageOf(cause)}; make database.dataDir a writable folder`,
        { cause },
      )
    }
  }

  /** Takes over segments of recorders that have ended, without reading them. Rejects if the folder cannot be read. */
  async claimOrphans(): Promise<void> {
    for (const name of await this.#options.disk.readdir(this.#options.root)) {
      const parsed = parseSegmentName(name)
      if (parsed === null || this.#closed.has(name) || !(await this.#owner.hasEnded(parsed.owner))) continue
      const found = await this.#options.disk.stat(join(this.#options.root, name)).catch(() => undefined)
      if (found?.isFile() === true)
        this.#closed.set(name, { stream: parsed.stream, isOwn: false, bytes: countedBytes(found.size) })
    }
  }

  /** Bytes on disk, and bytes about to be written there. */
  get bytes(): number {
    const writing = [...this.#writers.values()].map(({ current, waitingBytes }) => (current?.bytes ?? 0) + waitingBytes)
    return sum([...this.#closed.values()].map(({ bytes }) => bytes)) + sum(writing)
  }

  get isEmpty(): boolean {
    return this.#appending === 0 && !streamNames.some((stream) => this.has(stream))
  }

  has(stream: StreamName): boolean {
    if (this.#writers.get(stream)?.current !== undefined) return true
    for (const closed of this.#closed.values()) if (closed.stream === stream) return true
    return false
  }

  /**
   * Returns true if batches of this series may be on the disk. Segments of other recorders may hold any series. Own ones
   * may hold it up to the newest that did, which may have made room before them.
   */
  holds(batch: Batch): boolean {
    const series = this.#series.get(seriesKey(batch))
    const newest = series?.segment ?? ''
    for (const [name, { stream, isOwn }] of this.#closed)
      if (stream === batch.stream && (!isOwn || name <= newest)) return true
    return series !== undefined && (series.appending > 0 || this.#writers.get(batch.stream)?.current?.name === newest)
  }

  /**
   * Resolves when the batch is synced to disk, for which older ones may be dropped. Rejects with the disk's error. Each
   * batch waits for earlier ones of its series: they may wait for room while it fits.
   */
  async append(batch: Batch): Promise<void> {
    const key = seriesKey(batch)
    const series = this.#series.get(key) ?? { segment: undefined, appending: 0, settled: Promise.resolve() }
    this.#series.set(key, series)
    series.appending++
    this.#appending++
    const appending = series.settled.then(() => this.#appendMakingRoom(batch))
    series.settled = appending.catch(() => undefined)
    try {
      series.segment = await appending
    } finally {
      series.appending--
      this.#appending--
    }
  }

  /**
   * Takes the oldest segment of a stream, to be stored; null if there is none, or if it is making room. Rejects while
   * the segment cannot be read. A segment that stays unreadable is set aside, and the next one is taken.
   */
  async takeOldest(stream: StreamName): Promise<Segment | null> {
    for (;;) {
      const name = await this.#takeInHand([stream])
      if (name === undefined) return null
      let segment: Segment | null = null
      try {
        // A segment that cannot be read makes no room. It stays, and is stored before later ones.
        for (const other of this.#inHand) if (other < name && this.#closed.get(other)?.stream === stream) return null
        segment = await this.#read(name)
      } finally {
        if (segment === null) this.#inHand.delete(name)
      }
      if (segment !== null) return segment
    }
  }

  /** Releases a segment from `takeOldest`. It is removed if all of it is stored, and stays otherwise. */
  async release({ name }: Segment, isStored: boolean): Promise<void> {
    this.#inHand.delete(name)
    if (isStored) await this.#remove(name)
  }

  /** Resolves to the batch in a record; undefined if the record is damaged, which is reported. */
  async unpack(record: Buffer): Promise<Batch | undefined> {
    try {
      return await unpack(record)
    } catch {
      this.#options.onDamage({ file: this.#options.root, stretches: 1, bytes: record.length })
      return undefined
    }
  }

  /** Finishes writing, and leaves all segments to the next recorder. */
  async close(): Promise<void> {
    for (const writer of this.#writers.values()) await writer.close()
    this.#owner.release()
  }

  /** Takes the oldest segment that is not in hand. If the only one left is being written, it is closed first. */
  async #takeInHand(streams: readonly StreamName[], except?: ReadonlyMap<string, number>): Promise<string | undefined> {
    const takeOldest = () => {
      const free = [...this.#closed].filter(([name, { stream }]) => streams.includes(stream) && !this.#inHand.has(name))
      const [oldest] = free.flatMap(([name]) => (except?.has(name) === true ? [] : [name])).toSorted()
      // Marked before anything is awaited: a segment that is being stored must not make room.
      if (oldest !== undefined) this.#inHand.add(oldest)
      return oldest
    }
    const taken = takeOldest()
    if (taken !== undefined) return taken
    for (const stream of streams) await this.#writers.get(stream)?.close()
    return takeOldest()
  }

  /** Resolves to null if the segment is gone or was set aside. */
  async #read(name: string): Promise<Segment | null> {
    const file = join(this.#options.root, name)
    try {
      const { records, damagedStretches, damagedBytes } = await readSegment(this.#options.disk, file)
      this.#unreadableSince.delete(name)
      if (damagedStretches > 0 && !this.#withReportedDamage.has(name)) {
        this.#withReportedDamage.add(name)
        this.#options.onDamage({ file, stretches: damagedStretches, bytes: damagedBytes })
      }
      return { name, records }
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') {
        const { isOwn, bytes } = this.#closed.get(name) as Closed
        this.#closed.delete(name)
        // Another recorder may have taken over and stored a foreign segment. An own segment that is gone is lost.
        if (isOwn) this.#options.onDamage({ file, stretches: 1, bytes })
        return null
      }
      const since = this.#unreadableSince.get(name) ?? this.#options.clock.monotonicMs()
      this.#unreadableSince.set(name, since)
      if (this.#options.clock.monotonicMs() - since < unreadableForMs) throw error
      await this.#setAside(name, error)
      return null
    }
  }

  async #setAside(name: string, error: unknown): Promise<void> {
    const { stream } = this.#closed.get(name) as Closed
    const file = join(this.#options.root, name)
    const closed = [...this.#closed].flatMap(([other, found]) => (found.stream === stream ? [other] : []))
    const current = this.#writers.get(stream)?.current?.name ?? name
    const later = [...closed, current].filter((other) => other > name).map(createdAtOf)
    const to = earlierOf(this.#now(), smallest(later))
    await this.#options.disk.rename(file, `${file}.unreadable`)
    this.#closed.delete(name)
    const range = { from: addMs(createdAtOf(name), -longestToDiskMs), to: addMs(laterOf(to, createdAtOf(name)), 1) }
    this.#options.onSetAside({ file: `${file}.unreadable`, stream, range, error })
  }

  async #remove(name: string): Promise<void> {
    await this.#options.disk.rm(join(this.#options.root, name), { force: true })
    this.#closed.delete(name)
    if (this.isEmpty) this.#series.clear()
  }

  async #appendMakingRoom(batch: Batch): Promise<string> {
    const body = await pack(batch)
    const writer = this.#writers.get(batch.stream) as SegmentWriter
    while (this.bytes + body.length > this.#options.maxBytes && (await this.#makeRoom('bound')));
    for (let tries = 1; ; tries++) {
      try {
        const segment = await writer.append(body)
        this.#isDroppingInVain = false
        return segment
      } catch (error) {
        if (!isFullDisk(error) || this.#isDroppingInVain || this.bytes === 0) throw error
        if (tries < maxTries) await this.#options.clock.sleep(retryMs)
        else if (await this.#makeRoom('disk')) this.#isDroppingInVain = true
        else throw error
      }
    }
  }

  /** Drops the oldest segment; resolves to false if there is none. Callers that need room at once share one drop. */
  #makeRoom(lack: LackOfRoom): Promise<boolean> {
    this.#dropping ??= this.#dropOldest(lack).finally(() => {
      this.#dropping = undefined
    })
    return this.#dropping
  }

  async #dropOldest(lack: LackOfRoom): Promise<boolean> {
    // Later segments may make room while an unreadable one stays: a series' batches are still stored in their order.
    const name =
      (await this.#takeInHand(repeatable, this.#unreadableSince)) ??
      (await this.#takeInHand(streamNames, this.#unreadableSince)) ??
      (await this.#takeInHand(streamNames))
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
