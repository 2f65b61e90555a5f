import { dirname } from 'node:path'
import type { Disk } from '../../runtime/disk.js'
import type { Logger } from '../../runtime/logger.js'
import type { StoredAssignment } from '../../store/egress/fleetState.js'

/** What a recorder leaves on its own disk for a start without the database: who asked for what when it last knew. */
interface Kept extends StoredAssignment {
  readonly fleet: string
}

/** The assignment that this recorder knew last; null when there is none, or it is that of another fleet. */
export async function lastAssignment(disk: Disk, file: string, fleet: string): Promise<StoredAssignment | null> {
  const text = await disk.readFile(file).then(String, () => '')
  try {
    const kept = JSON.parse(text) as Partial<Kept>
    if (kept.fleet !== fleet || !Array.isArray(kept.members) || kept.members.length === 0) return null
    return { version: Number(kept.version), members: kept.members, placements: kept.placements ?? {} }
  } catch {
    return null
  }
}

/** Never rejects: without the file, a start without the database asks for everything. */
export async function keepAssignment(disk: Disk, file: string, kept: Kept, logger: Logger): Promise<void> {
  try {
    await disk.mkdir(dirname(file), { recursive: true })
    const partial = `${file}.${process.pid}`
    await disk.writeFile(partial, `${JSON.stringify(kept)}\n`, { mode: 0o600 })
    await disk.rename(partial, file)
  } catch (error) {
    logger.debug(`fleet: ${file}: ${(error as Error).message}`)
  }
}
