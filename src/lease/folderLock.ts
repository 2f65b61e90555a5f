import { dirname, join, resolve } from 'node:path'
import type { Clock } from '../runtime/clock.js'
import type { Disk } from '../runtime/disk.js'
import { becomeFileOwner, type FileOwner, ownerPattern } from '../runtime/fileOwner.js'
import { random } from '../runtime/randomness.js'
import { Right } from '../runtime/right.js'

interface FolderLockOptions {
  readonly clock: Clock
  readonly disk: Disk
  readonly signal?: AbortSignal
}

/** The right of a command to send before there is a database: a lock file in the data folder. */
class FolderLock extends Right {
  readonly #remove: () => Promise<void>
  #isHeld = true

  constructor(remove: () => Promise<void>) {
    super()
    this.#remove = remove
  }

  check(): boolean {
    return this.#isHeld
  }

  /** Removes the file, and the folder if it was made for the file. */
  async release(): Promise<void> {
    this.#isHeld = false
    await this.#remove()
  }
}

const lockPattern = new RegExp(`^sending\\.(${ownerPattern})\\.lock$`)
const lookAgainMs = 50
const maxFailures = 5

/**
 * Takes the lock of a data folder, and waits while another command has it. Each command first makes a file of its own,
 * and then looks for other files. So one of two commands sees the other, and steps back. A file whose process has ended
 * does not count. The caller must look for a database again once it has the lock.
 */
export async function lockFolder(folder: string, options: FolderLockOptions): Promise<FolderLock> {
  const { clock, disk, signal } = options
  const owner = await becomeFileOwner(disk)
  const file = join(folder, `sending.${owner.name}.lock`)
  const made = await missingFolders(disk, resolve(folder))
  const remove = async () => {
    await disk.rm(file, { force: true })
    owner.release()
    // A folder that others use by now is not empty, and stays.
    for (const path of made) if (!(await isDone(disk.rmdir(path)))) return
  }
  try {
    for (let failures = 0; ;) {
      try {
        await disk.mkdir(folder, { recursive: true, mode: 0o700 })
        await (await disk.open(file, 'ax', 0o600)).close()
        if (!(await isLocked(folder, owner, disk))) return new FolderLock(remove)
        await disk.rm(file, { force: true })
      } catch (error) {
        // Another command may remove the folder that it made, just when this one needs it.
        if (++failures >= maxFailures) throw error
      }
      await clock.sleep(lookAgainMs * (1 + random()), signal)
    }
  } catch (error) {
    await remove()
    throw error
  }
}

/** Resolves when no command sends by the lock of a folder. From now on a database exists, so no other one begins to. */
export async function untilFolderIsFree(folder: string, { clock, disk, signal }: FolderLockOptions): Promise<void> {
  const owner = await becomeFileOwner(disk)
  owner.release()
  while (await isLocked(folder, owner, disk)) await clock.sleep(lookAgainMs, signal)
}

/** Resolves to true if another process may have a lock file in the folder. Removes files of processes that have ended. */
async function isLocked(folder: string, self: FileOwner, disk: Disk): Promise<boolean> {
  const names = await disk
    .readdir(folder)
    .catch((error: NodeJS.ErrnoException) => (error.code === 'ENOENT' ? [] : null))
  if (names === null) return true
  for (const name of names) {
    const other = lockPattern.exec(name)?.[1]
    if (other === undefined || other === self.name) continue
    if (!(await self.hasEnded(other))) return true
    await isDone(disk.rm(join(folder, name), { force: true }))
  }
  return false
}

/** Lists the folder and those above it that do not exist, the innermost first. */
async function missingFolders(disk: Disk, folder: string): Promise<string[]> {
  if (folder === dirname(folder) || (await isDone(disk.stat(folder)))) return []
  return [folder, ...(await missingFolders(disk, dirname(folder)))]
}

function isDone(work: Promise<unknown>): Promise<boolean> {
  return work.then(
    () => true,
    () => false,
  )
}
