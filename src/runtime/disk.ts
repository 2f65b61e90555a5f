import fs from 'node:fs/promises'

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

/** Whether the disk has no room, or the account has used up its share of it. */
export function isFullDisk(error: unknown): boolean {
  return error instanceof Error && 'code' in error && (error.code === 'ENOSPC' || error.code === 'EDQUOT')
}

/** What has its place in a folder, or its bytes in a file, is there after a power cut, too. */
export async function syncToDisk(disk: Pick<Disk, 'open'>, path: string): Promise<void> {
  const opened = await disk.open(path, 'r')
  try {
    await opened.sync()
  } finally {
    await opened.close()
  }
}
