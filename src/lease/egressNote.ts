import type { Disk } from '../runtime/disk.js'
import { readNote, writeNote } from '../runtime/diskNote.js'
import type { Logger } from '../runtime/logger.js'

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
  const note = await readNote<EgressNote>(disk, file)
  return note?.egress === egress && note.isContended === true
}

/** Never rejects: without the note, the next start takes its chances. */
export function writeEgressNote(disk: Disk, file: string, note: EgressNote, logger: Logger): Promise<void> {
  return writeNote(disk, file, note, { logger, what: 'egress lock' })
}
