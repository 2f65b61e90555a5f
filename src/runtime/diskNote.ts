import { dirname } from 'node:path'
import { type Disk, syncToDisk } from './disk.js'
import type { Logger } from './logger.js'

/** Reads a note that a recorder left on its own disk. Returns null if the note is missing or is not JSON. */
export async function readNote<Note>(disk: Disk, file: string): Promise<Partial<Note> | null> {
  const text = await disk.readFile(file).then(String, () => '')
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

/** The last note of each file that is being written, or waits for the one before. */
const lastWrites = new WeakMap<Disk, Map<string, Promise<void>>>()

/**
 * Leaves it, never half of it, so that it survives a power cut. One after the other: of several for a file the last one stays.
 * Never rejects: what goes wrong is logged.
 */
export async function writeNote(disk: Disk, file: string, note: object, options: NoteOptions): Promise<void> {
  const ofDisk = lastWrites.get(disk) ?? new Map<string, Promise<void>>()
  lastWrites.set(disk, ofDisk)
  const writing = (ofDisk.get(file) ?? Promise.resolve()).then(() => write(disk, file, note, options))
  ofDisk.set(file, writing)
  await writing
  if (ofDisk.get(file) === writing) ofDisk.delete(file)
}

async function write(disk: Disk, file: string, note: object, { logger, what }: NoteOptions): Promise<void> {
  try {
    await disk.mkdir(dirname(file), { recursive: true })
    const partial = `${file}.${process.pid}`
    await disk.writeFile(partial, `${JSON.stringify(note)}\n`, { mode: 0o600 })
    await syncToDisk(disk, partial)
    await disk.rename(partial, file)
    await syncToDisk(disk, dirname(file))
  } catch (error) {
    logger.debug(`${what}: ${file}: ${(error as Error).message}`)
  }
}
