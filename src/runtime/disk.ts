import { createHash } from 'node:crypto'
import { statSync } from 'node:fs'
import fs from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { Logger } from './logger.js'

/** A file that is being written. */
export interface OpenFile {
  /** Writes at a position in bytes of a file that was opened with `r+`; appends otherwise. May write only a part. */
  writev(parts: readonly Uint8Array[], position?: number): Promise<{ readonly bytesWritten: number }>
  truncate(length: number): Promise<void>
  /** Resolves when the written bytes survive a power cut. */
  datasync(): Promise<void>
  sync(): Promise<void>
  close(): Promise<void>
}

/** The file system for data that must not be lost. Tests can replace it, like `Clock`. Failures are those of Node. */
export interface Disk {
  mkdir(path: string, options: { readonly recursive: true; readonly mode?: number }): Promise<unknown>
  open(path: string, flags: 'ax' | 'r' | 'r+', mode?: number): Promise<OpenFile>
  readdir(path: string): Promise<string[]>
  readFile(path: string): Promise<Buffer>
  writeFile(path: string, text: string, options: { readonly mode: number; readonly flag: 'wx' }): Promise<void>
  rename(from: string, to: string): Promise<void>
  rm(path: string, options: { readonly force: true }): Promise<void>
  rmdir(path: string): Promise<void>
  stat(path: string): Promise<{ readonly size: number; isFile(): boolean }>
}

export const systemDisk: Disk = { ...fs, mkdir: (path, { mode }) => makeFolder(path, mode) }

/** Returns true if the disk is full, or the account has reached its quota. */
export function isFullDisk(error: unknown): boolean {
  return error instanceof Error && 'code' in error && (error.code === 'ENOSPC' || error.code === 'EDQUOT')
}

/** Flushes a file's bytes or a folder's entries to disk, so that they survive a power cut. */
export async function syncToDisk(disk: Pick<Disk, 'open'>, path: string): Promise<void> {
  const opened = await disk.open(path, 'r')
  try {
    await opened.sync()
  } finally {
    await opened.close()
  }
}

/** Makes a folder and its parents. Node's recursive mkdir hangs below a folder such as /proc. */
export async function makeFolder(path: string, mode?: number): Promise<void> {
  const make = () => fs.mkdir(path, mode)
  try {
    await make()
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    const isThere = async (folder: string) => (await fs.stat(folder).catch(() => null))?.isDirectory() === true
    if (code === 'EEXIST' && (await isThere(path))) return
    if (code !== 'ENOENT' || (await isThere(dirname(path)))) {
      throw new Error(`no folder can be made at ${path} (${code}): choose another place`, { cause: error })
    }
    await makeFolder(dirname(path), mode)
    await makeFolder(path, mode)
  }
}

/**
 * Throws if others may write to a folder. What they put there would be taken for this user's, and their links followed.
 * A folder that does not exist yet is made for this user alone. Looks at once: simulated machines have no such folder,
 * and a real look would cost them time.
 */
export function requireOwnFolder(path: string): void {
  const found = statSync(path, { throwIfNoEntry: false })
  if (found === undefined) return
  const own = process.getuid?.() ?? found.uid
  if (found.uid !== own && found.uid !== 0)
    throw new Error(
      `the folder ${path} belongs to another user (${found.uid}): choose another one, or change its owner`,
    )
  if ((found.mode & 0o002) !== 0) throw new Error(`everybody may write to the folder ${path}: run chmod o-w ${path}`)
}

/** Names the file of a note. Recorders of several addresses may share the folder, so each address has its own file. */
export function noteFileOf(folder: string, what: string, egress: string): string {
  const id = createHash('sha256').update(egress).digest('hex').slice(0, 12)
  return join(folder, `${what}-${id}.json`)
}

/** Reads a file whole. Rejects for a larger one, and for a pipe or a device, whose reading might never end. */
export async function readBounded(disk: Disk, file: string, maxBytes: number): Promise<Buffer> {
  const found = await disk.stat(file)
  if (!found.isFile()) throw new Error(`${file} is no file`)
  if (found.size > maxBytes) throw new Error(`${file} has ${found.size} bytes, and may have ${maxBytes}`)
  return disk.readFile(file)
}

const maxNoteBytes = 1_048_576

/** Reads a note that a recorder left on its own disk. Returns null if the note is missing or is not JSON. */
export async function readNote<Note>(disk: Disk, file: string): Promise<Partial<Note> | null> {
  const text = await readBounded(disk, file, maxNoteBytes).then(String, () => '')
  try {
    return JSON.parse(text) as Partial<Note> | null
  } catch {
    return null
  }
}

interface NoteOptions {
  readonly logger: Logger
  /** Whose note it is, for the log. */
  readonly what: string
}

/** The last note per file that is being written or waits for the one before. */
const lastWrites = new WeakMap<Disk, Map<string, Promise<boolean>>>()

/**
 * Writes a note whole or not at all, and durably. Notes for the same file are written one after the other, so the
 * last one stays. Never rejects: a failure is logged, and resolves to false.
 */
export async function writeNote(disk: Disk, file: string, note: object, options: NoteOptions): Promise<boolean> {
  const ofDisk = lastWrites.get(disk) ?? new Map<string, Promise<boolean>>()
  lastWrites.set(disk, ofDisk)
  const writing = Promise.resolve(ofDisk.get(file)).then(() => write(disk, file, note, options))
  ofDisk.set(file, writing)
  const isWritten = await writing
  if (ofDisk.get(file) === writing) ofDisk.delete(file)
  return isWritten
}

async function write(disk: Disk, file: string, note: object, { logger, what }: NoteOptions): Promise<boolean> {
  try {
    await replaceNote(disk, file, note)
    return true
  } catch (error) {
    logger.debug(`${what}: ${file}: ${(error as Error).message}`)
    return false
  }
}

/** Writes a note whole or not at all, and durably. Follows no link, and leaves none in the note's place. */
export async function replaceNote(disk: Disk, file: string, note: object): Promise<void> {
  await disk.mkdir(dirname(file), { recursive: true, mode: 0o700 })
  const partial = `${file}.${process.pid}`
  // An earlier process of this number may have left one, or somebody else a link.
  await disk.rm(partial, { force: true })
  await disk.writeFile(partial, `${JSON.stringify(note)}\n`, { mode: 0o600, flag: 'wx' })
  await syncToDisk(disk, partial)
  await disk.rename(partial, file)
  await syncToDisk(disk, dirname(file))
}

/**
 * Throws unless a folder, or the one that it would be made in, takes new files. Resolves to the existing one. Rights do
 * not tell: a disk can be read-only, and /proc accepts no folders.
 */
export async function requireWritable(folder: string): Promise<string> {
  const isThere = await fs.stat(folder).then(
    () => true,
    (error: NodeJS.ErrnoException) => error.code !== 'ENOENT',
  )
  if (!isThere && folder !== dirname(folder)) return requireWritable(dirname(folder))
  await fs.rmdir(await fs.mkdtemp(join(folder, '.market-recorder-')))
  return folder
}
