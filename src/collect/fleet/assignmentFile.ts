import type { Disk } from '../../runtime/disk.js'
import { readNote, writeNote } from '../../runtime/diskNote.js'
import type { Logger } from '../../runtime/logger.js'
import type { StoredAssignment } from '../../lease/fleetState.js'

/** What a recorder leaves on its own disk for a start without the database: who asked for what when it last knew. */
interface Kept extends StoredAssignment {
  readonly fleet: string
}

/** The assignment that this recorder knew last; null when there is none, or it is that of another fleet. */
export async function lastAssignment(disk: Disk, file: string, fleet: string): Promise<StoredAssignment | null> {
  const kept = await readNote<Kept>(disk, file)
  if (kept?.fleet !== fleet || !Array.isArray(kept.members) || kept.members.length === 0) return null
  return { version: Number(kept.version), members: kept.members, placements: kept.placements ?? {} }
}

/** Never rejects: without the file, a start without the database asks for everything. */
export function keepAssignment(disk: Disk, file: string, kept: Kept, logger: Logger): Promise<void> {
  return writeNote(disk, file, kept, { logger, what: 'fleet' })
}
