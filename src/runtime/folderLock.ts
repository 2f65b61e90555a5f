import { dirname, join, resolve } from 'node:path'
import type { Clock } from './clock.js'
import type { Disk } from './disk.js'
import { random, randomName } from './randomness.js'
import { isRunning } from './process.js'

interface FolderLockOptions {
  readonly clock: Clock
  readonly disk: Disk
  readonly signal?: AbortSignal
  /** Called once, after a second of waiting, with a line that says for what. */
  readonly onWait?: (line: string) => void
}

/** Work of a process while it has the lock. Locks of different purposes do not exclude each other. */
type Purpose = 'sending' | 'starting' | 'exporting'

const lockPattern = (purpose: Purpose) => new RegExp(`^${purpose}\\.(${ownerPattern})\\.lock$`)
const lookAgainMs = 50
const tellAfterMs = 1_000
const maxFailures = 5

/** Returns true for the name of a lock file. */
export function isLockOf(purpose: Purpose, name: string): boolean {
  return lockPattern(purpose).test(name)
}

/**
 * Takes the lock of a folder, and waits while another process has it. Resolves to a function that gives it back. Each
 * process first makes a file of its own, and then looks for other files. So one of two processes sees the other, and
 * steps back. A file whose process has ended does not count.
 */
export async function lockFolder(
  folder: string,
  purpose: Purpose,
  options: FolderLockOptions,
): Promise<() => Promise<void>> {
  const { disk } = options
  const owner = await becomeFileOwner(disk)
  const file = join(folder, `${purpose}.${owner.name}.lock`)
  const made = await missingFolders(disk, resolve(folder))
  /** Removes the file, and the folder if it was made for the file. */
  const release = async () => {
    await disk.rm(file, { force: true }).catch(() => undefined)
    owner.release()
    // A folder that others use by now is not empty, and stays.
    for (const path of made) if (!(await isDone(disk.rmdir(path)))) return
  }
  try {
    await untilNull(options, async () => {
      await disk.mkdir(folder, { recursive: true, mode: 0o700 })
      await (await usable(folder, disk.open(file, 'ax', 0o600))).close()
      const other = await lockIn(folder, purpose, owner, disk)
      if (other !== null) await disk.rm(file, { force: true })
      return other
    })
    return release
  } catch (error) {
    await release()
    throw error
  }
}

/** Resolves when no process has the lock of a folder. */
export async function untilUnlocked(folder: string, purpose: Purpose, options: FolderLockOptions): Promise<void> {
  const owner = await becomeFileOwner(options.disk)
  owner.release()
  await untilNull(options, () => lockIn(folder, purpose, owner, options.disk))
}

/** Looks until it finds no lock file of another process. An abort rejects with what was waited for. */
async function untilNull(
  { clock, signal, onWait }: FolderLockOptions,
  look: () => Promise<string | null>,
): Promise<void> {
  const sinceMs = clock.monotonicMs()
  let isTold = false
  for (let failures = 0; ;) {
    let line = ''
    try {
      const file = await look()
      if (file === null) return
      const pid = /\.(\d+)-/.exec(file)?.[1]
      line = `waiting for process ${pid}, which has ${file}; let it go on, or end it`
    } catch (error) {
      // Another process may remove the folder that it made, just when this one needs it.
      if (++failures >= maxFailures) throw error
    }
    if (!isTold && line !== '' && clock.monotonicMs() - sinceMs >= tellAfterMs) {
      isTold = true
      onWait?.(line)
    }
    await clock.sleep(lookAgainMs * (1 + random()), signal).catch((error: unknown) => {
      throw line === '' ? error : new Error(`stopped ${line}`, { cause: error })
    })
  }
}

/** Finds a lock file of another process; null if there is none. Removes files of processes that have ended. */
async function lockIn(folder: string, purpose: Purpose, self: FileOwner, disk: Disk): Promise<string | null> {
  const names = await usable(
    folder,
    disk.readdir(folder).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT') throw error
      return []
    }),
  )
  for (const name of names) {
    const other = lockPattern(purpose).exec(name)?.[1]
    if (other === undefined || other === self.name) continue
    if (!(await self.hasEnded(other))) return join(folder, name)
    await isDone(disk.rm(join(folder, name), { force: true }))
  }
  return null
}

/** Adds to a failure of the file system what to do about it. */
async function usable<Result>(folder: string, work: Promise<Result>): Promise<Result> {
  return work.catch((error: NodeJS.ErrnoException) => {
    const todo = 'choose a folder that this user may read and write'
    throw new Error(`${folder} cannot be used (${error.code}): ${todo}`, { cause: error })
  })
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

/** Names of the owners in this process, by disk. An owner that is released leaves its files to others. */
const inUseOn = new WeakMap<Disk, Set<string>>()

/**
 * A process that has files in a shared folder. Its name is part of the files' names:
 * `<pid>-<start of the process>-<random>`. The start tells a process from a later one with the same number. Several
 * machines or containers must not share such a folder.
 */
export interface FileOwner {
  readonly name: string
  /** Resolves to true if the owner of this name has ended, so that its files may be taken over or removed. */
  hasEnded(name: string): Promise<boolean>
  release(): void
}

/** Names of owners as a part of a pattern. */
export const ownerPattern = String.raw`\d+-\S+-[0-9a-f]{8}`

export async function becomeFileOwner(disk: Disk): Promise<FileOwner> {
  const self = await describeProcess(disk, process.pid)
  const name = `${self}-${randomName(4)}`
  const inUse = inUseOn.get(disk) ?? new Set<string>()
  inUseOn.set(disk, inUse.add(name))
  return {
    name,
    async hasEnded(other) {
      const described = other.slice(0, other.lastIndexOf('-'))
      return described === self ? !inUse.has(other) : hasProcessEnded(disk, described)
    },
    release: () => void inUse.delete(name),
  }
}

/** Resolves to text that tells a process from a later one with the same number: `<pid>-<start of the process>`. */
export async function describeProcess(disk: Disk, pid: number): Promise<string> {
  return `${pid}-${(await startOf(disk, pid)) ?? 'unknown'}`
}

export async function hasProcessEnded(disk: Disk, described: string): Promise<boolean> {
  const pid = Number.parseInt(described, 10)
  return !isRunning(pid) || described !== (await describeProcess(disk, pid))
}

/** Resolves to the boot and the start of a process; undefined where the operating system does not tell them. */
async function startOf(disk: Disk, pid: number): Promise<string | undefined> {
  try {
    const boot = (await disk.readFile('/proc/sys/kernel/random/boot_id')).toString().slice(0, 8)
    const line = (await disk.readFile(`/proc/${pid}/stat`)).toString()
    // The program's name is in parentheses and may hold spaces; the start is the 20th field behind it.
    const fields = line.slice(line.lastIndexOf(')') + 2).split(' ')
    const start = fields[19]
    // A zombie has ended, although its parent has not collected it yet.
    return start === undefined || fields[0] === 'Z' ? undefined : `${boot}-${start}`
  } catch {
    return undefined
  }
}
