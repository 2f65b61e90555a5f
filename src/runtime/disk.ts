import fs from 'node:fs/promises'
import { dirname } from 'node:path'

/** A file that is being written. */
export interface OpenFile {
  /** At a position, in bytes, of a file that was opened with `r+`; appends otherwise. May write less than it was given. */
  writev(parts: readonly Uint8Array[], position?: number): Promise<{ readonly bytesWritten: number }>
  /** Resolves when what was written survives a power cut. */
  datasync(): Promise<void>
  sync(): Promise<void>
  close(): Promise<void>
}

/** The file system, as far as what must not be lost needs it: replaceable in tests, as `Clock` is. Failures are those of Node. */
export interface Disk {
  mkdir(path: string, options: { readonly recursive: true; readonly mode?: number }): Promise<unknown>
  open(path: string, flags: 'ax' | 'r' | 'r+', mode?: number): Promise<OpenFile>
  readdir(path: string): Promise<string[]>
  readFile(path: string): Promise<Buffer>
  writeFile(path: string, text: string, options: { readonly mode: number }): Promise<void>
  rename(from: string, to: string): Promise<void>
  rm(path: string, options: { readonly force: true }): Promise<void>
  rmdir(path: string): Promise<void>
  stat(path: string): Promise<{ readonly size: number; isFile(): boolean }>
}

export const systemDisk: Disk = fs

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

/** Makes a folder and those above it. Node's recursive mkdir never ends below a folder that takes none, such as /proc. */
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
