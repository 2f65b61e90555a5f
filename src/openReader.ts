import type { Config } from './config/resolve.js'
import { type DatabasePool, openPool } from './db/pool.js'
import {
  embeddedFolder,
  type EmbeddedOptions,
  requireExisting,
  startEmbeddedPostgres,
} from './server/embedded/embedded.js'

/**
 * Opens the database for the queries of people: read-only, and by a login that could do nothing else where there is one. It stands
 * apart from openStore, because a command that only reads need not load the rest.
 */
export async function openReader(
  { database: { url, readUrl, dataDir, poolSize } }: Config,
  logger: NonNullable<EmbeddedOptions['logger']>,
): Promise<DatabasePool> {
  const poolFor = (reader: string) => openPool({ url: reader, poolSize, isReadOnly: true })
  if (url !== undefined) {
    const pool = poolFor(readUrl ?? url)
    return { pool, close: () => pool.end() }
  }
  await requireExisting(dataDir)
  const embedded = await startEmbeddedPostgres({ dataDir: embeddedFolder(dataDir), logger })
  const pool = poolFor(readUrl ?? embedded.readUrl)
  return {
    pool,
    async close() {
      await pool.end()
      await embedded.stop()
    },
  }
}
