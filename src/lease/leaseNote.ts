import { dirname } from 'node:path'
import type { Clock } from '../runtime/clock.js'
import { type Disk, readNote, writeNote } from '../runtime/disk.js'
import { becomeFileOwner, type FileOwner, lockFolder } from '../runtime/folderLock.js'
import type { Logger } from '../runtime/logger.js'

interface Note {
  readonly egress: string
  readonly isContended: boolean
  /** The process that wrote the note, as a `FileOwner`. */
  readonly writer: string
}

interface LeaseNoteOptions {
  /** Without it, nothing is noted. */
  readonly file: string | undefined
  readonly egress: string
  readonly clock: Clock
  readonly disk: Disk
  readonly logger: Logger
}

/**
 * Notes on the disk whether another recorder waits for an address. A start without the database reads it. Recorders of
 * one data folder have one file, so the note also says which process wrote it.
 */
export class LeaseNote {
  readonly #options: LeaseNoteOptions
  #isContended: boolean | undefined
  #isWritten = false
  #self: Promise<FileOwner> | undefined

  constructor(options: LeaseNoteOptions) {
    this.#options = options
  }

  /**
   * Resolves to true if this recorder may send without the database: no other one waited, or held the right, at this
   * machine's last contact, and no other process that wrote the note is alive. Of several that ask at once, one may.
   */
  async claim(signal: AbortSignal | undefined): Promise<boolean> {
    if (this.#isContended !== undefined) return !this.#isContended
    const { file, egress, clock, disk } = this.#options
    if (file === undefined) return true
    // A full disk takes no lock and no note.
    const unlock = await lockFolder(dirname(file), 'starting', { clock, disk, ...(signal && { signal }) }).catch(
      () => null,
    )
    try {
      signal?.throwIfAborted()
      const { egress: noted, isContended, writer } = (await readNote<Note>(disk, file)) ?? {}
      if (noted === egress && isContended === true) return false
      if (noted === egress && writer !== undefined && !(await (await this.#owner()).hasEnded(writer))) return false
      this.#isContended = false
      await this.#write(file, false)
      return true
    } finally {
      await unlock?.()
    }
  }

  /** Writes the file on a change, until it is written. */
  note(isContended: boolean): void {
    const { file } = this.#options
    if (this.#isContended === isContended && this.#isWritten) return
    this.#isContended = isContended
    if (file !== undefined) void this.#write(file, isContended)
  }

  /** Leaves the note to the next process. */
  async release(): Promise<void> {
    if (this.#self !== undefined) (await this.#self).release()
  }

  async #write(file: string, isContended: boolean): Promise<void> {
    const { egress, disk, logger } = this.#options
    this.#isWritten = true
    const note = { egress, isContended, writer: (await this.#owner()).name } satisfies Note
    if (!(await writeNote(disk, file, note, { logger, what: 'lease' }))) this.#isWritten = false
  }

  #owner(): Promise<FileOwner> {
    return (this.#self ??= becomeFileOwner(this.#options.disk))
  }
}
