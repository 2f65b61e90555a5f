import { type Disk, readNote, writeNote } from '../runtime/disk.js'
import type { Logger } from '../runtime/logger.js'

interface Note {
  readonly egress: string
  readonly isContended: boolean
}

interface LeaseNoteOptions {
  /** Without it, nothing is noted. */
  readonly file: string | undefined
  readonly egress: string
  readonly disk: Disk
  readonly logger: Logger
}

/** Notes on the disk whether another recorder waits for an address. A start without the database reads it. */
export class LeaseNote {
  readonly #options: LeaseNoteOptions
  #isContended: boolean | undefined
  #isWritten = false

  constructor(options: LeaseNoteOptions) {
    this.#options = options
  }

  /** Returns true if another recorder waited, or held the right, at this machine's last contact. */
  async wasContended(): Promise<boolean> {
    if (this.#isContended !== undefined) return this.#isContended
    const { file, egress, disk } = this.#options
    const note = file === undefined ? null : await readNote<Note>(disk, file)
    return note?.egress === egress && note.isContended === true
  }

  /** Writes the file on a change, until it is written. */
  note(isContended: boolean): void {
    const { file, egress, disk, logger } = this.#options
    if (this.#isContended === isContended && this.#isWritten) return
    this.#isContended = isContended
    if (file === undefined) return
    this.#isWritten = true
    void writeNote(disk, file, { egress, isContended } satisfies Note, { logger, what: 'lease' }).then((isWritten) => {
      if (!isWritten) this.#isWritten = false
    })
  }
}
