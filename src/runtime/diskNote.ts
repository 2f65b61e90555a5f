import { dirname } from 'node:path'
import { type Disk, syncToDisk } from './disk.js'
import type { Logger } from './logger.js'

/** What a recorder left on its own disk, as far as it can be read; null when there is nothing. */
export async function readNote<Note>(disk: Disk, file: string): Promise<Partial<Note> | null> {
  const text = await disk.readFile(file).then(String, () => '')
  try {
    return JSON.parse(text) as Partial<Note> | null
  } catch {
    return null
  }
}

/** Leaves it, never half of it, so that it survives a power cut. Never rejects: what goes wrong is logged. */
export async function writeNote(
  disk: Disk,
  file: string,
  note: object,
  { logger, what }: { readonly logger: Logger; readonly what: string },
): Promise<void> {
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
