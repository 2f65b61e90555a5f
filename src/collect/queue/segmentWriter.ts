import { join } from 'node:path'
import { promisify } from 'node:util'
import { crc32, deflateRaw, inflateRaw } from 'node:zlib'
import { sum } from '../../market/values.js'
import type { Batch } from '../../ledger/batch.js'
import { type Disk, type OpenFile, readBounded, syncToDisk } from '../../runtime/disk.js'

/**
 * A record on disk: a header of 16 bytes, then the body.
 *
 *     magic (4) | length of the body (4) | CRC-32 of the body (4) | CRC-32 of the 12 bytes before (4) | body
 *
 * After damage, reading goes on at the next header with a valid checksum. This format is our own, because the well-kept
 * embedded stores need native code and an install script. The log is only appended to, read from its start and deleted.
 */
const magic = Buffer.from([0xff, 0xfe, 0x6d, 0x72])
const headerBytes = 16

/** Largest body of a record. A header with a longer one is damaged, and must not claim all the memory. */
const maxBodyBytes = 256 * 1024 * 1024

export function recordHeader(body: Uint8Array): Buffer {
  if (body.length > maxBodyBytes) {
    throw new RangeError(`a spooled record may have ${maxBodyBytes} bytes, got ${body.length}`)
  }
  const header = Buffer.alloc(headerBytes)
  magic.copy(header)
  header.writeUInt32LE(body.length, 4)
  header.writeUInt32LE(crc32(body), 8)
  header.writeUInt32LE(crc32(header.subarray(0, 12)), 12)
  return header
}

function recordBytes(body: Uint8Array): number {
  return headerBytes + body.length
}

interface ScannedRecords {
  /** Bodies of whole records in their order. They share memory with the scanned bytes. */
  readonly records: readonly Buffer[]
  /** Number of unreadable stretches. Each held at least one record, or a part of one. */
  readonly damagedStretches: number
  readonly damagedBytes: number
}

/** Reads all undamaged records. Never throws, whatever the bytes are. */
export function scanRecords(bytes: Buffer): ScannedRecords {
  const records: Buffer[] = []
  let damagedStretches = 0
  let damagedBytes = 0
  let isInDamage = false
  for (let offset = 0; offset < bytes.length;) {
    const length = bodyLength(bytes, offset)
    const start = offset + headerBytes
    const body = length === undefined ? undefined : bytes.subarray(start, start + length)
    if (body !== undefined && body.length === length && crc32(body) === bytes.readUInt32LE(offset + 8)) {
      records.push(body)
      isInDamage = false
      offset = start + length
      continue
    }
    // The length of a damaged record is not used: if it was cut short, the next record begins before its end.
    const end = nextHeader(bytes, offset + 1)
    if (!isInDamage || body !== undefined) damagedStretches++
    isInDamage = true
    damagedBytes += end - offset
    offset = end
  }
  return { records, damagedStretches, damagedBytes }
}

/** No recorder writes a longer segment, even if its last records came together. */
const longestSegmentBytes = 64 * 1024 * 1024

/** Returns what a found file counts. A longer one is set aside unread, and what is recorded makes no room for it. */
export const countedBytes = (fileBytes: number) => (fileBytes > longestSegmentBytes ? 0 : fileBytes)

export async function readSegment(disk: Disk, file: string): Promise<ScannedRecords> {
  return scanRecords(await readBounded(disk, file, longestSegmentBytes))
}

/** Returns the offset of the next undamaged header; the end of the bytes if there is none. */
function nextHeader(bytes: Buffer, from: number): number {
  for (let offset = bytes.indexOf(magic, from); offset !== -1; offset = bytes.indexOf(magic, offset + 1)) {
    if (bodyLength(bytes, offset) !== undefined) return offset
  }
  return bytes.length
}

/** Returns the length that the header at `offset` states; undefined if there is no undamaged header. */
function bodyLength(bytes: Buffer, offset: number): number | undefined {
  if (offset + headerBytes > bytes.length) return undefined
  if (bytes.compare(magic, 0, magic.length, offset, offset + magic.length) !== 0) return undefined
  if (crc32(bytes.subarray(offset, offset + 12)) !== bytes.readUInt32LE(offset + 12)) return undefined
  const length = bytes.readUInt32LE(offset + 4)
  return length <= maxBodyBytes ? length : undefined
}

/** A batch is made of one response, whose size is bounded. A record that unpacks to more than this is damaged. */
const maxBatchBytes = 128 * 1024 * 1024
const deflate = promisify(deflateRaw)
const inflate = promisify(inflateRaw)

export function pack(batch: Batch): Promise<Buffer> {
  return deflate(JSON.stringify(batch), { level: 1 })
}

/** Rejects when the record is not a batch. */
export async function unpack(record: Buffer): Promise<Batch> {
  return JSON.parse((await inflate(record, { maxOutputLength: maxBatchBytes })).toString()) as Batch
}

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
  /** Size of the records that are on the disk for good. */
  soundBytes: number
}

/** Appends records to segments on the disk. Only closed segments are read, so reading the last one closes it first. */
export class SegmentWriter {
  readonly #options: SegmentWriterOptions
  #current: OpenSegment | undefined
  #pending: Pending[] = []
  #waitingBytes = 0
  #flushing: Promise<void> | undefined

  constructor(options: SegmentWriterOptions) {
    this.#options = options
  }

  /** The segment that is being written; undefined if there is none. */
  get current(): { readonly name: string; readonly bytes: number } | undefined {
    return this.#current
  }

  /** Bytes of records that no segment counts yet. */
  get waitingBytes(): number {
    return this.#waitingBytes
  }

  /**
   * Resolves to the segment's name when the record is synced to the disk. Records that come while the disk is busy are
   * written and synced together. Rejects with the file system's error; the record may then be on the disk or not.
   */
  append(body: Uint8Array): Promise<string> {
    this.#waitingBytes += recordBytes(body)
    return new Promise((resolve, reject) => {
      this.#pending.push({ body, resolve, reject })
      this.#flushing ??= this.#flush()
    })
  }

  /** Closes the present segment, so that it can be read. */
  async close(): Promise<void> {
    while (this.#flushing !== undefined) await this.#flushing
    await this.#seal()
  }

  async #flush(): Promise<void> {
    // Waits for other records of this turn of the event loop, to write all of them together.
    await Promise.resolve()
    while (this.#pending.length > 0) {
      const batch = this.#pending
      this.#pending = []
      try {
        const name = await this.#write(batch.map(({ body }) => body))
        for (const { resolve } of batch) resolve(name)
      } catch (error) {
        // A part of a record may have been written. No later record may follow it in the same segment.
        await this.#giveUp().catch(() => undefined)
        for (const { reject } of batch) reject(error)
      }
    }
    this.#flushing = undefined
  }

  async #write(bodies: readonly Uint8Array[]): Promise<string> {
    const size = sum(bodies.map(recordBytes))
    let current: OpenSegment
    try {
      await this.#leaveIfGone()
      current = this.#current ?? (await this.#create())
    } finally {
      this.#waitingBytes -= size
    }
    const parts = bodies.flatMap((body) => [recordHeader(body), body])
    // Counts the bytes before they are written: a failed write may leave any part of them on the disk, and the bound
    // must hold even then.
    current.bytes += size
    const { bytesWritten } = await current.file.writev(parts)
    if (bytesWritten < size) {
      const message = `only ${bytesWritten} of ${size} bytes could be written to ${current.name}`
      throw Object.assign(new Error(message), { code: 'ENOSPC' })
    }
    await current.file.datasync()
    current.soundBytes = current.bytes
    if (current.bytes >= this.#options.segmentBytes) await this.#seal()
    return current.name
  }

  /** Leaves a segment that somebody has removed: what is written to it would be lost. */
  async #leaveIfGone(): Promise<void> {
    const current = this.#current
    if (current === undefined) return
    const { disk, directory } = this.#options
    const isGone = await disk.stat(join(directory, current.name)).then(
      () => false,
      (error: NodeJS.ErrnoException) => error.code === 'ENOENT',
    )
    if (!isGone) return
    this.#current = undefined
    await current.file.close()
  }

  async #create(): Promise<OpenSegment> {
    const { disk, directory, nextName } = this.#options
    const name = nextName()
    // Somebody may have removed the folder.
    await disk.mkdir(directory, { recursive: true, mode: 0o700 })
    const file = await disk.open(join(directory, name), 'ax', 0o600)
    const created = (this.#current = { name, file, bytes: 0, soundBytes: 0 })
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

  /** Ends the segment after a failed write. It is removed if it holds no synced record: the disk may be full. */
  async #giveUp(): Promise<void> {
    const current = this.#current
    if (current === undefined) return
    if (current.soundBytes > 0) {
      // The part that was written would be taken for damage.
      await current.file.truncate(current.soundBytes).then(
        () => (current.bytes = current.soundBytes),
        () => undefined,
      )
      return this.#seal()
    }
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
