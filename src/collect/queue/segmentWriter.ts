import { join } from 'node:path'
import { type Disk, type OpenFile, syncToDisk } from '../../runtime/disk.js'
import { recordBytes, recordHeader } from './records.js'

interface SegmentWriterOptions {
  readonly directory: string
  /** A segment that has reached this size is closed, and the next record begins another. */
  readonly segmentBytes: number
  readonly disk: Disk
  readonly nextName: () => string
  readonly onClosed: (name: string, bytes: number) => void
}

interface Pending {
  readonly body: Uint8Array
  readonly resolve: (segment: string) => void
  readonly reject: (error: unknown) => void
}

interface OpenSegment {
  readonly name: string
  readonly file: OpenFile
  bytes: number
  /** False until a record in it is on the disk for good. */
  isUsed: boolean
}

/** Appends records to segments on the disk. A segment that is being written is not read: reading up to the end closes it first. */
export class SegmentWriter {
  readonly #options: SegmentWriterOptions
  #current: OpenSegment | undefined
  #pending: Pending[] = []
  #flushing: Promise<void> | undefined

  constructor(options: SegmentWriterOptions) {
    this.#options = options
  }

  /** The segment that is being written, unless none was begun. */
  get current(): { readonly name: string; readonly bytes: number } | undefined {
    return this.#current
  }

  /**
   * Resolves to the segment's name when the record is on the disk for good. Records that come while the disk is busy are written
   * and synced together. Rejects with the error of the file system; the record may then be there or not.
   */
  append(body: Uint8Array): Promise<string> {
    return new Promise((resolve, reject) => {
      this.#pending.push({ body, resolve, reject })
      this.#flushing ??= this.#flush()
    })
  }

  /** Closes the segment, so that it can be read. */
  async close(): Promise<void> {
    while (this.#flushing !== undefined) await this.#flushing
    await this.#seal()
  }

  async #flush(): Promise<void> {
    // Records appended in the same turn come along.
    await Promise.resolve()
    while (this.#pending.length > 0) {
      const batch = this.#pending
      this.#pending = []
      try {
        const name = await this.#write(batch.map(({ body }) => body))
        for (const { resolve } of batch) resolve(name)
      } catch (error) {
        // A part may have been written: what comes next must not stand behind it in the same segment.
        await this.#giveUp().catch(() => undefined)
        for (const { reject } of batch) reject(error)
      }
    }
    this.#flushing = undefined
  }

  async #write(bodies: readonly Uint8Array[]): Promise<string> {
    const current = this.#current ?? (await this.#create())
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
    return current.name
  }

  async #create(): Promise<OpenSegment> {
    const { disk, directory, nextName } = this.#options
    const name = nextName()
    const file = await disk.open(join(directory, name), 'ax', 0o600)
    const created = (this.#current = { name, file, bytes: 0, isUsed: false })
    // The file's name has to survive a power cut, too.
    await syncToDisk(disk, directory)
    return created
  }

  async #seal(): Promise<void> {
    const current = this.#current
    if (current === undefined) return
    this.#current = undefined
    this.#options.onClosed(current.name, current.bytes)
    await current.file.close()
  }

  /** Ends the segment that could not be written to. One that holds nothing for good is removed: the disk may be full. */
  async #giveUp(): Promise<void> {
    const current = this.#current
    if (current === undefined || current.isUsed) return this.#seal()
    const { disk, directory, onClosed } = this.#options
    this.#current = undefined
    await current.file.close()
    const isRemoved = await disk.rm(join(directory, current.name), { force: true }).then(
      () => true,
      () => false,
    )
    if (!isRemoved) onClosed(current.name, current.bytes)
  }
}
