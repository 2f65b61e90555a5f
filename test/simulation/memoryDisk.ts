import { dirname } from 'node:path'
import type { Disk, OpenFile } from '../../src/runtime/disk.js'

/** A file: what is in memory, and how much of it survives a power cut. */
interface Content {
  parts: Buffer[]
  length: number
  syncedLength: number
  /** Content before it was overwritten in place and not yet synced, in the order of writing. */
  overwritten: { readonly position: number; readonly before: Buffer }[]
}

function emptyFile(): Content {
  return { parts: [], length: 0, syncedLength: 0, overwritten: [] }
}

/** Failures and delays of a disk, drawn from the world's chance. */
export interface DiskFaults {
  /** Decides if the next write fails for lack of room, in part or altogether. */
  isFull(): boolean
  /** The code with which the next read of a segment fails; undefined when it does not. */
  readFailure(): string | undefined
  random(): number
  /** Resolves after the time that an operation takes, and never when the machine is dead. */
  work(kind: 'sync' | 'other'): Promise<void>
}

/** The content of a disk. It outlives the machines that use it, one after the other. */
export class DiskContent {
  readonly files = new Map<string, Content>()
  readonly folders = new Set<string>()

  /** The power goes: what was not synced is gone, in part or altogether, also where it ends in the middle of a record. */
  cutPower(random: () => number): void {
    for (const file of this.files.values()) {
      for (const { position, before } of file.overwritten.splice(0).toReversed()) {
        const [bytes, kept] = [Buffer.concat(file.parts), Math.floor(random() * (before.length + 1))]
        before.copy(bytes, position + kept, kept)
        file.parts = [bytes]
      }
      if (file.length === file.syncedLength) continue
      const kept = file.syncedLength + Math.floor(random() * (file.length - file.syncedLength + 1))
      const bytes = Buffer.concat(file.parts).subarray(0, kept)
      // A page that was on its way may hold anything.
      if (kept > file.syncedLength && random() < 0.5) bytes[kept - 1] = Math.floor(random() * 256)
      file.parts = [bytes]
      file.length = kept
      file.syncedLength = kept
    }
  }

  /** In segments of spools. */
  get spooledBytes(): number {
    let sum = 0
    for (const [path, { length }] of this.files) if (path.endsWith('.seg')) sum += length
    return sum
  }
}

function failure(code: string, path: string): NodeJS.ErrnoException {
  return Object.assign(new Error(`${code}: ${path}`), { code, path })
}

/** A disk as one machine sees it, from its start to its end. */
export function mountDisk(content: DiskContent, faults: DiskFaults): Disk {
  const { files, folders } = content
  const existing = (path: string): Content => {
    const file = files.get(path)
    if (file === undefined) throw failure('ENOENT', path)
    return file
  }
  const append = (file: Content, bytes: Buffer): void => {
    file.parts.push(bytes)
    file.length += bytes.length
  }
  /** Takes no room, so that a full disk does it, too. */
  const overwrite = (file: Content, bytes: Buffer, position: number): void => {
    if (position + bytes.length > file.length) throw failure('EINVAL', 'beyond the end')
    const whole = Buffer.concat(file.parts)
    file.overwritten.push({ position, before: Buffer.from(whole.subarray(position, position + bytes.length)) })
    bytes.copy(whole, position)
    file.parts = [whole]
  }
  const handle = (file: Content): OpenFile => {
    const sync = async () => {
      const { length } = file
      const overwritten = file.overwritten.length
      await faults.work('sync')
      file.syncedLength = Math.max(file.syncedLength, Math.min(length, file.length))
      file.overwritten.splice(0, overwritten)
    }
    return {
      async writev(parts, position) {
        await faults.work('other')
        const bytes = Buffer.concat(parts)
        if (position !== undefined) {
          overwrite(file, bytes, position)
          return { bytesWritten: bytes.length }
        }
        if (!faults.isFull()) {
          append(file, bytes)
          return { bytesWritten: bytes.length }
        }
        const some = bytes.subarray(0, Math.floor(faults.random() * bytes.length))
        append(file, some)
        if (faults.random() < 0.5) return { bytesWritten: some.length }
        throw failure('ENOSPC', 'no space left on device')
      },
      async truncate(length) {
        await faults.work('other')
        file.parts = [Buffer.concat(file.parts).subarray(0, length)]
        file.length = length
        file.syncedLength = Math.min(length, file.syncedLength)
      },
      datasync: sync,
      sync,
      close: () => faults.work('other'),
    }
  }
  return {
    async mkdir(path) {
      await faults.work('other')
      for (let folder = path; folder !== '/' && folder !== '.'; folder = dirname(folder)) folders.add(folder)
    },
    async open(path, flags) {
      await faults.work('other')
      if (flags === 'r') return handle(files.get(path) ?? emptyFile())
      if (flags === 'r+') return handle(existing(path))
      if (files.has(path)) throw failure('EEXIST', path)
      if (faults.isFull()) throw failure('ENOSPC', 'no space left on device')
      const file = emptyFile()
      files.set(path, file)
      return handle(file)
    },
    async readdir(path) {
      await faults.work('other')
      if (!folders.has(path)) throw failure('ENOENT', path)
      const names = [...files.keys(), ...folders].filter((name) => dirname(name) === path && name !== path)
      return names.map((name) => name.slice(path.length + 1)).toSorted()
    },
    async readFile(path) {
      await faults.work('other')
      const code = path.endsWith('.seg') ? faults.readFailure() : undefined
      if (code !== undefined) throw failure(code, path)
      return Buffer.concat(existing(path).parts)
    },
    async writeFile(path, text) {
      await faults.work('other')
      if (faults.isFull()) throw failure('ENOSPC', 'no space left on device')
      const bytes = Buffer.from(text)
      files.set(path, { ...emptyFile(), parts: [bytes], length: bytes.length })
    },
    async rename(from, to) {
      await faults.work('other')
      files.set(to, existing(from))
      files.delete(from)
    },
    async rm(path) {
      await faults.work('other')
      files.delete(path)
    },
    async rmdir(path) {
      await faults.work('other')
      if (!folders.has(path)) throw failure('ENOENT', path)
      const isUsed = [...files.keys(), ...folders].some((name) => name !== path && dirname(name) === path)
      if (isUsed) throw failure('ENOTEMPTY', path)
      folders.delete(path)
    },
    async stat(path) {
      await faults.work('other')
      const { length } = existing(path)
      return { size: length, isFile: () => true }
    },
  }
}
