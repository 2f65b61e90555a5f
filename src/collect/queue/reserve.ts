import { join } from 'node:path'
import { type Disk, type OpenFile, syncToDisk, systemDisk } from '../../runtime/disk.js'
import { randomName } from '../../runtime/randomness.js'
import { recordBytes, recordHeader, scanRecords } from './records.js'

const suffix = '.reserve'
/** Notes of the gaps of thousands of series, packed, fit in. */
const slotBytes = 256 * 1024
const sequenceBytes = 8

/**
 * Room for a few bytes that is taken while the disk has some, so that they can be written when it has none: a file of two
 * slots, of which the older one is overwritten. A power cut in the middle of that leaves the other.
 *
 * On a file system that never overwrites in place (btrfs, ZFS) a full disk may refuse that, too.
 */
export class Reserve {
  readonly #directory: string
  readonly #disk: Disk
  /** What is written to; undefined while there has been no room for it. */
  #file: { readonly name: string; readonly opened: OpenFile } | undefined
  #sequence = 0n
  /** Files of recorders that have ended: removed when what they hold is kept here. */
  readonly #others = new Set<string>()

  private constructor(directory: string, disk: Disk) {
    this.#directory = directory
    this.#disk = disk
  }

  /** Rejects when the folder cannot be used. */
  static async open(directory: string, disk: Disk = systemDisk): Promise<Reserve> {
    const reserve = new Reserve(directory, disk)
    await disk.mkdir(directory, { recursive: true, mode: 0o700 })
    return reserve
  }

  /** What is in files that are new here, one or none for each. They stay until something is kept. */
  async find(): Promise<Buffer[]> {
    const found: Buffer[] = []
    for (const name of await this.#disk.readdir(this.#directory)) {
      if (!name.endsWith(suffix) || name === this.#file?.name || this.#others.has(name)) continue
      const bytes = await this.#disk.readFile(join(this.#directory, name)).catch(() => Buffer.alloc(0))
      const newest = newestOf(bytes)
      if (newest !== undefined && newest.body.length > 0) found.push(newest.body)
      if (this.#file !== undefined || bytes.length !== 2 * slotBytes) {
        this.#others.add(name)
        continue
      }
      this.#file = { name, opened: await this.#disk.open(join(this.#directory, name), 'r+') }
      this.#sequence = newest?.sequence ?? 0n
    }
    await this.#take()
    return found
  }

  /** Resolves to whether exactly these bytes are kept for good now, instead of all that were before. Not to be called twice at once. */
  async keep(body: Uint8Array): Promise<boolean> {
    const record = Buffer.concat([Buffer.alloc(sequenceBytes), body])
    if (recordBytes(record) > slotBytes || !(await this.#take()) || this.#file === undefined) return false
    const sequence = this.#sequence + 1n
    record.writeBigUInt64LE(sequence)
    try {
      const parts = [recordHeader(record), record]
      const { bytesWritten } = await this.#file.opened.writev(parts, Number(sequence % 2n) * slotBytes)
      if (bytesWritten < recordBytes(record)) return false
      await this.#file.opened.datasync()
    } catch {
      return false
    }
    this.#sequence = sequence
    for (const name of this.#others) await this.#disk.rm(join(this.#directory, name), { force: true }).catch(() => {})
    this.#others.clear()
    return true
  }

  /** The file stays for the next recorder. */
  async close(): Promise<void> {
    await this.#file?.opened.close()
    this.#file = undefined
  }

  /** Takes the room, unless that was done. Resolves to whether there is any. */
  async #take(): Promise<boolean> {
    if (this.#file !== undefined) return true
    const name = `${randomName(8)}${suffix}`
    const path = join(this.#directory, name)
    try {
      const file = await this.#disk.open(path, 'ax', 0o600)
      try {
        const { bytesWritten } = await file.writev([Buffer.alloc(2 * slotBytes)])
        if (bytesWritten < 2 * slotBytes) throw new Error('no room')
        await file.sync()
      } finally {
        await file.close()
      }
      await syncToDisk(this.#disk, this.#directory)
      this.#file = { name, opened: await this.#disk.open(path, 'r+') }
      return true
    } catch {
      await this.#disk.rm(path, { force: true }).catch(() => {})
      return false
    }
  }
}

/** Of the slots that are whole, the one that was written last. */
function newestOf(bytes: Buffer): { readonly sequence: bigint; readonly body: Buffer } | undefined {
  const slots = [bytes.subarray(0, slotBytes), bytes.subarray(slotBytes)].flatMap((slot) => {
    const [record] = scanRecords(slot).records
    if (record === undefined || record.length < sequenceBytes) return []
    return [{ sequence: record.readBigUInt64LE(), body: record.subarray(sequenceBytes) }]
  })
  return slots.toSorted((a, b) => (a.sequence < b.sequence ? 1 : -1))[0]
}
