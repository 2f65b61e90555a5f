import type { Config } from '../config/resolve.js'
import { storageOf } from '../config/streamOptions.js'
import type { TimeMs } from '../market/values.js'
import { type RemovalResult, removeArchived } from '../files/archive/removal.js'
import type { ArchiveTarget } from '../files/archive/target.js'
import { type RecorderDatabase, removalTime } from '../db/database.js'
import { timeTables } from '../db/timeTables.js'

export interface OldRemoval extends RemovalResult {
  /** Why nothing was looked at; null when it was. */
  readonly problem: string | null
}

export const noRemoval: OldRemoval = { removed: [], kept: [], problem: null }

/** Removes what is past its age and in the archive, by the earlier of this machine's clock and the database's. */
export async function removeOld(
  database: RecorderDatabase,
  target: ArchiveTarget,
  config: Config,
  { machineNow, signal }: { readonly machineNow: () => TimeMs; readonly signal?: AbortSignal },
): Promise<OldRemoval> {
  const storage = storageOf(config)
  const tables = timeTables.flatMap(({ name }) => {
    const { retentionDays, isArchived } = storage[name]
    return retentionDays === undefined || !isArchived ? [] : [{ name, retentionDays }]
  })
  if (tables.length === 0) return noRemoval
  const time = await removalTime(database.db, { machineNow })
  if ('problem' in time) return { ...noRemoval, problem: time.problem }
  const options = { now: () => time.now, ...(signal && { signal }) }
  return { ...(await removeArchived(database, target, { tables }, options)), problem: null }
}
