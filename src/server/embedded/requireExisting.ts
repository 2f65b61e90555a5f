import { access } from 'node:fs/promises'
import { join } from 'node:path'
import { embeddedPaths } from './embeddedProcess.js'

/** Where the embedded PostgreSQL of a data folder is. */
export function embeddedFolder(dataDir: string): string {
  return join(dataDir, 'postgres')
}

/** Whether a data folder has an embedded database. One that cannot be read counts: the start says what is wrong with it. */
export async function isExisting(dataDir: string): Promise<boolean> {
  const version = join(embeddedPaths(embeddedFolder(dataDir)).cluster, 'PG_VERSION')
  return access(version).then(
    () => true,
    (error: NodeJS.ErrnoException) => error.code !== 'ENOENT',
  )
}

/**
 * For commands that ask about what was recorded. A new, empty database would say that nothing is missing, and hide that the folder
 * was mistyped. Throws where there is none.
 */
export async function requireExisting(dataDir: string): Promise<void> {
  if (await isExisting(dataDir)) return
  throw new Error(
    `there is no database in ${dataDir}; run this where the recorder was started, or give --data-dir or DATABASE_URL`,
  )
}
