import { lockFolder } from '../runtime/folderLock.js'
import { Right } from '../runtime/right.js'

/** The right of a command to send before there is a database: a lock file in the data folder. */
class FolderRight extends Right {
  readonly #unlock: () => Promise<void>
  #isHeld = true

  constructor(unlock: () => Promise<void>) {
    super()
    this.#unlock = unlock
  }

  check(): boolean {
    return this.#isHeld
  }

  async release(): Promise<void> {
    this.#isHeld = false
    await this.#unlock()
  }
}

/**
 * Takes the right by the lock of a data folder, and waits while another command has it. The caller must look for a
 * database again once it has the right.
 */
export async function takeFolderRight(folder: string, options: Parameters<typeof lockFolder>[2]): Promise<FolderRight> {
  return new FolderRight(await lockFolder(folder, 'sending', options))
}
