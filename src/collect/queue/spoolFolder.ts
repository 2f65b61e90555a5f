import { join } from 'node:path'
import { type Disk, systemDisk } from '../../runtime/disk.js'
import { isRunning } from '../../runtime/isRunning.js'
import { randomName } from '../../runtime/randomness.js'

/** A folder that belongs to one running recorder, with one folder in it for each lane. */
export interface SpoolFolder {
  readonly directory: string
  /** Moves to it what recorders left that have ended in the meantime. */
  adopt(): Promise<void>
  /** Gives the folder up; what is in it waits for the next recorder that starts. */
  release(): Promise<void>
}

/** Folders of this process that are in use, by their disk: a recorder that was stopped leaves its folder to the next one. */
const inUseOn = new WeakMap<Disk, Set<string>>()

/**
 * Takes a folder below `root` for this recorder alone and moves to it what recorders left there that do not run any more.
 *
 * Two recorders may run on the same root (one waits for the other's end): a folder's name says which process it belongs to,
 * by a number that the operating system does not give twice. The root must not be shared between machines or containers.
 */
export async function takeSpoolFolder(
  root: string,
  lanes: readonly string[],
  disk: Disk = systemDisk,
): Promise<SpoolFolder> {
  const owner = await describeProcess(disk, process.pid)
  const name = `${owner}.${randomName(4)}`
  const directory = join(root, name)
  const inUse = inUseOn.get(disk) ?? new Set()
  inUseOn.set(disk, inUse)
  inUse.add(name)
  for (const lane of lanes) await disk.mkdir(join(directory, lane), { recursive: true, mode: 0o700 })
  const adoptAbandoned = async () => {
    for (const other of await disk.readdir(root)) {
      if (other !== name && (await isAbandoned(disk, other))) await adopt(disk, join(root, other), directory, lanes)
    }
  }
  await adoptAbandoned()
  return {
    directory,
    adopt: adoptAbandoned,
    async release() {
      inUse.delete(name)
      for (const lane of lanes) await disk.rmdir(join(directory, lane)).catch(() => undefined)
      await disk.rmdir(directory).catch(() => undefined)
    },
  }
}

async function adopt(disk: Disk, from: string, to: string, lanes: readonly string[]): Promise<void> {
  for (const lane of lanes) {
    const names = await disk.readdir(join(from, lane)).catch(() => [])
    for (const name of names) {
      // Another recorder that starts at the same time may have been quicker.
      await disk.rename(join(from, lane, name), join(to, lane, name)).catch(() => undefined)
    }
    await disk.rmdir(join(from, lane)).catch(() => undefined)
  }
  await disk.rmdir(from).catch(() => undefined)
}

/** `<pid>-<when it started>`; the second is what tells a process from a later one of the same number. */
async function describeProcess(disk: Disk, pid: number): Promise<string> {
  return `${pid}-${(await startOf(disk, pid)) ?? 'unknown'}`
}

async function isAbandoned(disk: Disk, name: string): Promise<boolean> {
  const match = /^((\d+)-\S+?)\.[0-9a-f]{8}$/.exec(name)
  if (match === null) return false
  const [, owner, pid] = match
  if (Number(pid) === process.pid && owner === (await describeProcess(disk, process.pid)))
    return inUseOn.get(disk)?.has(name) !== true
  return !isRunning(Number(pid)) || owner !== (await describeProcess(disk, Number(pid)))
}

/** Boot and moment of the start, where the operating system tells; undefined elsewhere. */
async function startOf(disk: Disk, pid: number): Promise<string | undefined> {
  try {
    const boot = (await disk.readFile('/proc/sys/kernel/random/boot_id')).toString().slice(0, 8)
    const line = (await disk.readFile(`/proc/${pid}/stat`)).toString()
    // The program's name is in parentheses and may hold spaces; the start is the 20th field behind it.
    const fields = line.slice(line.lastIndexOf(')') + 2).split(' ')
    const start = fields[19]
    // A zombie has ended; only its parent has not asked yet.
    return start === undefined || fields[0] === 'Z' ? undefined : `${boot}-${start}`
  } catch {
    return undefined
  }
}
