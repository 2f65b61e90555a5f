import { dirname } from 'node:path'
import type { Disk } from '../../runtime/disk.js'
import type { Logger } from '../../runtime/logger.js'

/**
 * What a recorder leaves on its own disk for a start without the database: whether another one was there for the same egress
 * when the database was last asked. If one was, it has very likely taken over meanwhile.
 */
export interface EgressNote {
  readonly egress: string
  readonly isContended: boolean
}

/** Whether another recorder of the egress was there at the last look; false when nobody has looked yet. */
export async function wasContended(disk: Disk, file: string, egress: string): Promise<boolean> {
  const text = await disk.readFile(file).then(String, () => '')
  try {
    const note = JSON.parse(text) as Partial<EgressNote>
    return note.egress === egress && note.isContended === true
  } catch {
    return false
  }
}

/** Never rejects: without the note, the next start takes its chances. */
export async function writeEgressNote(disk: Disk, file: string, note: EgressNote, logger: Logger): Promise<void> {
  try {
    await disk.mkdir(dirname(file), { recursive: true })
    const partial = `${file}.${process.pid}`
    await disk.writeFile(partial, `${JSON.stringify(note)}\n`, { mode: 0o600 })
    await disk.rename(partial, file)
  } catch (error) {
    logger.debug(`egress lock: ${file}: ${(error as Error).message}`)
  }
}
