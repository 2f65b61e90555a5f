import type { Disk } from './disk.js'
import { isRunning } from './process.js'
import { randomName } from './randomness.js'

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
      if (described === self) return !inUse.has(other)
      const pid = Number.parseInt(other, 10)
      return !isRunning(pid) || described !== (await describeProcess(disk, pid))
    },
    release: () => void inUse.delete(name),
  }
}

async function describeProcess(disk: Disk, pid: number): Promise<string> {
  return `${pid}-${(await startOf(disk, pid)) ?? 'unknown'}`
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
