import { type StreamName, streamNames } from '../../market/stream.js'
import type { MachineMs } from '../../market/values.js'
import { type Disk, isFullDisk } from '../../runtime/disk.js'
import { isRunning } from '../../runtime/process.js'
import { randomName } from '../../runtime/randomness.js'

/** Names of the owners in this process, by disk. An owner that is released leaves its files to the next one. */
const inUseOn = new WeakMap<Disk, Set<string>>()

/**
 * A process that writes to a spool. Its name is part of its files' names: `<pid>-<start of the process>-<random>`. The
 * start tells a process from a later one with the same number. Several machines or containers must not share a spool.
 */
export interface SpoolOwner {
  readonly name: string
  /** Names a segment so that the order of names is that of creation. */
  nameSegment(createdAt: MachineMs, sequence: number, stream: StreamName): string
  /** Resolves to true if the recorder of this name has ended, so that its files may be taken over. */
  hasEnded(name: string): Promise<boolean>
  release(): void
}

const segmentPattern = /^(\d{15})-\d{9}\.([a-z_]+)\.(\d+-\S+-[0-9a-f]{8})\.seg$/

/** Reads a segment's name; null when it is another file. */
export function parseSegmentName(name: string): { readonly stream: StreamName; readonly owner: string } | null {
  const [, , found, owner] = segmentPattern.exec(name) ?? []
  const stream = streamNames.find((one) => one === found)
  return stream === undefined || owner === undefined ? null : { stream, owner }
}

/** Resolves to true if responses wait in a folder for the database; null if the folder cannot be read. */
export async function hasSegments(disk: Disk, root: string): Promise<boolean | null> {
  const names = await disk.readdir(root).catch(() => null)
  return names === null ? null : names.some((name) => parseSegmentName(name) !== null)
}

/** Rejects if this file cannot be written. A full disk is no reason, because older segments make room. */
export async function requireWritable(disk: Disk, file: string): Promise<void> {
  try {
    await (await disk.open(file, 'ax', 0o600)).close()
    await disk.rm(file, { force: true })
  } catch (error) {
    if (!isFullDisk(error)) throw error
  }
}

/** Reads from a segment's name when the segment was created. */
export function createdAtOf(name: string): MachineMs {
  return Number.parseInt(name, 10) as MachineMs
}

export async function becomeSpoolOwner(disk: Disk): Promise<SpoolOwner> {
  const self = await describeProcess(disk, process.pid)
  const name = `${self}-${randomName(4)}`
  const inUse = inUseOn.get(disk) ?? new Set<string>()
  inUseOn.set(disk, inUse.add(name))
  return {
    name,
    nameSegment: (createdAt, sequence, stream) =>
      `${String(createdAt).padStart(15, '0')}-${String(sequence).padStart(9, '0')}.${stream}.${name}.seg`,
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
