import type { Kysely } from 'kysely'
import { hostname } from 'node:os'
import { join, resolve } from 'node:path'
import { describeDatabaseError } from '../../db/databaseError.js'
import type { Database } from '../../db/schema.js'
import { isSpoolNoted, noteSpool, readSpool } from '../../lease/leaseRow.js'
import type { Disk } from '../../runtime/disk.js'
import type { Logger } from '../../runtime/logger.js'
import { hasSegments } from './spoolFolders.js'

const hostPrefix = () => `${hostname()}:`
const rootOf = (dataDir: string) => join(resolve(dataDir), 'spool')

/** Returns true if the database has noted that a recorder of this host keeps in this data folder what waits for it. */
export function isSpoolOf(db: Kysely<Database>, dataDir: string): Promise<boolean> {
  return isSpoolNoted(db, hostPrefix() + rootOf(dataDir))
}

interface FormerSpoolOptions {
  readonly egress: string
  readonly dataDir: string
  readonly disk: Disk
  readonly logger: Logger
}

/**
 * Warns if the address had another data folder. It stays noted, and each start warns, while responses wait there. Never
 * rejects.
 */
export async function reportFormerSpool(
  db: Kysely<Database>,
  { egress, dataDir, disk, logger }: FormerSpoolOptions,
): Promise<void> {
  const root = rootOf(dataDir)
  const prefix = hostPrefix()
  try {
    const former = await readSpool(db, egress)
    const isOther = former !== null && former !== prefix + root
    const hasLeft = isOther && (former.startsWith(prefix) ? await hasSegments(disk, former.slice(prefix.length)) : null)
    if (hasLeft !== true) await noteSpool(db, egress, prefix + root)
    if (hasLeft === false) return
    logger.warn(
      `database.dataDir was another one: responses ${hasLeft === true ? 'wait' : 'may wait'} in ${former}; stop the recorder and move ` +
        `the files from there to ${root}`,
    )
  } catch (error) {
    logger.debug(`the former data folder is not known: ${describeDatabaseError(error)}`)
  }
}
