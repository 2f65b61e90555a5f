import { join } from 'node:path'
import { type Clock, systemClock } from '../../runtime/clock.js'
import { type Disk, type OpenFile, syncToDisk, systemDisk } from '../../runtime/disk.js'
import { recordBytes, recordHeader, scanRecords } from './records.js'

export interface SegmentLogOptions {
  /** A segment is closed when it has reached this size. */
  readonly segmentBytes: number
  /** Told of what could not be read back, once for each segment. */
  readonly onDamage: (damage: Damage) => void
  readonly disk?: Disk
  readonly clock?: Clock
}

export interface Damage {
  readonly file: string
  readonly stretches: number
  readonly bytes: number
}

/** A closed segment with its records in memory. It stays on disk until it is removed. */
export interface Segment {
  readonly name: string
  readonly records: readonly Buffer[]
  /** That it takes on the disk. */
  readonly bytes: number
}

interface Pending {
  readonly body: Uint8Array
  readonly resolve: () => void
  readonly reject: (error: unknown) => void
}

interface OpenSegment {
  readonly name: string
  readonly file: OpenFile
  bytes: number
  /** Whether something in it is on the disk for good. */
  isUsed: boolean
}

const suffix = '.seg'

/**
 * A log on disk, appended to at one end and removed at the other, a segment at a time.
 *
 * Names of segments begin with the time of their creation, so that their order is that of their names, whoever wrote them.
 * Only closed segments are read: whoever reads up to the end closes the one that is being written.
 */
export class SegmentLog {
  readonly #directory: string
  readonly #options: SegmentLogOptions
  readonly #disk: Disk
  readonly #clock: Clock
  /** Closed segments, oldest first, with their sizes. */
  readonly #closed = new Map<string, number>()
  #current: OpenSegment | undefined
  #pending: Pending[] = []
  #flushing: Promise<void> | undefined
  #sequence = 0
  /** The last one that was begun here: it is on the disk before it is known as the current one. */
  #newest: string | undefined

  private constructor(directory: string, options: SegmentLogOptions) {
    this.#directory = directory
    this.#options = options
    this.#disk = options.disk ?? systemDisk
    this.#clock = options.clock ?? systemClock
  }

  /** Opens a log, with what an earlier process left in it. Reads no contents, so that none can stop the start. */
  static async open(directory: string, options: SegmentLogOptions): Promise<SegmentLog> {
    const log = new SegmentLog(directory, options)
    await log.#disk.mkdir(directory, { recursive: true, mode: 0o700 })
    await log.findMoved()
    return log
  }

  /** Takes in segments that were moved to its directory, at their places in the order. */
  async findMoved(): Promise<void> {
    for (const name of await this.#disk.readdir(this.#directory)) {
      if (!name.endsWith(suffix) || name === this.#newest || this.#closed.has(name)) continue
      const found = await this.#disk.stat(join(this.#directory, name)).catch(() => undefined)
      if (found?.isFile() === true) this.#closed.set(name, found.size)
    }
    const inOrder = [...this.#closed].toSorted(([a], [b]) => (a < b ? -1 : 1))
    this.#closed.clear()
    for (const [name, size] of inOrder) this.#closed.set(name, size)
  }

  /** On disk, without what is about to be written. */
  get bytes(): number {
    let sum = this.#current?.bytes ?? 0
    for (const size of this.#closed.values()) sum += size
    return sum
  }

  get isEmpty(): boolean {
    return this.#closed.size === 0 && this.#current === undefined && this.#pending.length === 0
  }

  /**
   * Resolves when the record is on the disk for good. Records that come while the disk is busy are written and synced
   * together. Rejects with the error of the file system; the record may then be there or not.
   */
  append(body: Uint8Array): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#pending.push({ body, resolve, reject })
      this.#flushing ??= this.#flush()
    })
  }

  /** The oldest segment that is not among `except`; null when there is none. */
  async oldest(except: ReadonlySet<string> = new Set()): Promise<Segment | null> {
    for (;;) {
      let name = this.#firstClosed(except)
      if (name === undefined) {
        await this.#closeCurrent()
        name = this.#firstClosed(except)
      }
      if (name === undefined) return null
      const segment = await this.#read(name)
      if (segment !== null) return segment
      this.#closed.delete(name)
    }
  }

  async remove(segment: Segment): Promise<void> {
    await this.#disk.rm(join(this.#directory, segment.name), { force: true })
    this.#closed.delete(segment.name)
  }

  /** Finishes what is being written. What is in the log stays for the next process. */
  async close(): Promise<void> {
    await this.#closeCurrent()
  }

  #firstClosed(except: ReadonlySet<string>): string | undefined {
    for (const name of this.#closed.keys()) if (!except.has(name)) return name
    return undefined
  }

  async #read(name: string): Promise<Segment | null> {
    const file = join(this.#directory, name)
    let bytes: Buffer
    try {
      bytes = await this.#disk.readFile(file)
    } catch (error) {
      const isGone = (error as NodeJS.ErrnoException).code === 'ENOENT'
      this.#options.onDamage({ file, stretches: 1, bytes: this.#closed.get(name) ?? 0 })
      if (isGone) return null
      // Unreadable: an empty segment is removed by whoever works through it, and nothing behind it waits.
      return { name, records: [], bytes: this.#closed.get(name) ?? 0 }
    }
    const { records, damagedStretches, damagedBytes } = scanRecords(bytes)
    if (damagedStretches > 0) this.#options.onDamage({ file, stretches: damagedStretches, bytes: damagedBytes })
    return { name, records, bytes: bytes.length }
  }

  async #closeCurrent(): Promise<void> {
    while (this.#flushing !== undefined) await this.#flushing
    await this.#seal()
  }

  async #seal(): Promise<void> {
    const current = this.#current
    if (current === undefined) return
    this.#current = undefined
    this.#closed.set(current.name, current.bytes)
    await current.file.close()
  }

  /** Ends the segment that could not be written to. One that holds nothing takes no room, on a disk that has none. */
  async #giveUp(): Promise<void> {
    const current = this.#current
    await this.#seal()
    if (current === undefined || current.isUsed) return
    await this.#disk.rm(join(this.#directory, current.name), { force: true })
    this.#closed.delete(current.name)
  }

  async #flush(): Promise<void> {
    // Whoever appends in the same turn comes along.
    await Promise.resolve()
    while (this.#pending.length > 0) {
      const batch = this.#pending
      this.#pending = []
      try {
        await this.#write(batch.map(({ body }) => body))
        for (const { resolve } of batch) resolve()
      } catch (error) {
        // A part may have been written: what comes next must not stand behind it in the same segment.
        await this.#giveUp().catch(() => undefined)
        for (const { reject } of batch) reject(error)
      }
    }
    this.#flushing = undefined
  }

  async #write(bodies: readonly Uint8Array[]): Promise<void> {
    const current = (this.#current ??= await this.#create())
    const parts = bodies.flatMap((body) => [recordHeader(body), body])
    const size = bodies.reduce((sum, body) => sum + recordBytes(body), 0)
    // Counted before: after a failure nobody knows how much of it is there, and the bound must hold all the same.
    current.bytes += size
    const { bytesWritten } = await current.file.writev(parts)
    if (bytesWritten < size) {
      const message = `only ${bytesWritten} of ${size} bytes could be written to ${current.name}`
      throw Object.assign(new Error(message), { code: 'ENOSPC' })
    }
    await current.file.datasync()
    current.isUsed = true
    if (current.bytes >= this.#options.segmentBytes) await this.#seal()
  }

  async #create(): Promise<OpenSegment> {
    const name = `${String(this.#clock.now()).padStart(15, '0')}-${process.pid}-${String(this.#sequence++).padStart(9, '0')}${suffix}`
    this.#newest = name
    const file = await this.#disk.open(join(this.#directory, name), 'ax', 0o600)
    // The file's name has to survive a power cut, too.
    await syncToDisk(this.#disk, this.#directory)
    return { name, file, bytes: 0, isUsed: false }
  }
}
