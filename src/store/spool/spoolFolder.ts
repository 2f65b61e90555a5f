import { randomUUID } from 'node:crypto'
import { mkdir, readdir, readFile, rename, rmdir } from 'node:fs/promises'
import { join } from 'node:path'

/** A folder that belongs to one running recorder, with one folder in it for each lane. */
export interface SpoolFolder {
  readonly directory: string
  /** Gives the folder up; what is in it waits for the next recorder that starts. */
  release(): Promise<void>
}

/** Folders of this process that are in use: a recorder that was stopped leaves its folder to the next one. */
const inUse = new Set<string>()

/**
 * Takes a folder below `root` for this recorder alone and moves to it what recorders left there that do not run any more.
 *
 * Two recorders may run on the same root (one waits for the other's end): a folder's name says which process it belongs to,
 * by a number that the operating system does not give twice. The root must not be shared between machines or containers.
 */
export async function takeSpoolFolder(root: string, lanes: readonly string[]): Promise<SpoolFolder> {
  const owner = await describeProcess(process.pid)
  const name = `${owner}.${randomUUID().slice(0, 8)}`
  const directory = join(root, name)
  inUse.add(name)
  for (const lane of lanes) await mkdir(join(directory, lane), { recursive: true, mode: 0o700 })
  for (const other of await readdir(root)) {
    if (other !== name && (await isAbandoned(other))) await adopt(join(root, other), directory, lanes)
  }
  return {
    directory,
    async release() {
      inUse.delete(name)
      for (const lane of lanes) await rmdir(join(directory, lane)).catch(() => undefined)
      await rmdir(directory).catch(() => undefined)
    },
  }
}

async function adopt(from: string, to: string, lanes: readonly string[]): Promise<void> {
  for (const lane of lanes) {
    const names = await readdir(join(from, lane)).catch(() => [])
    for (const name of names) {
      // Another recorder that starts at the same time may have been quicker.
      await rename(join(from, lane, name), join(to, lane, name)).catch(() => undefined)
    }
    await rmdir(join(from, lane)).catch(() => undefined)
  }
  await rmdir(from).catch(() => undefined)
}

/** `<pid>-<when it started>`; the second is what tells a process from a later one of the same number. */
async function describeProcess(pid: number): Promise<string> {
  return `${pid}-${(await startOf(pid)) ?? 'unknown'}`
}

async function isAbandoned(name: string): Promise<boolean> {
  const match = /^((\d+)-\S+?)\.[0-9a-f]{8}$/.exec(name)
  if (match === null) return false
  const [, owner, pid] = match
  if (Number(pid) === process.pid && owner === (await describeProcess(process.pid))) return !inUse.has(name)
  return !isRunning(Number(pid)) || owner !== (await describeProcess(Number(pid)))
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

/** Boot and moment of the start, where the operating system tells; undefined elsewhere. */
async function startOf(pid: number): Promise<string | undefined> {
  try {
    const boot = (await readFile('/proc/sys/kernel/random/boot_id', 'utf8')).slice(0, 8)
    const line = await readFile(`/proc/${pid}/stat`, 'utf8')
    // The program's name is in parentheses and may hold spaces; the start is the 20th field behind it.
    const fields = line.slice(line.lastIndexOf(')') + 2).split(' ')
    const start = fields[19]
    // A zombie has ended; only its parent has not asked yet.
    return start === undefined || fields[0] === 'Z' ? undefined : `${boot}-${start}`
  } catch {
    return undefined
  }
}
