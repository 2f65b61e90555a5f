import type { Config } from './config/resolve.js'
import { type DatabasePool, openPool } from './db/pool.js'
import { type EmbeddedOptions, startEmbeddedPostgres } from './server/embedded/embedded.js'
import { embeddedFolder, requireExisting } from './server/embedded/requireExisting.js'

/**
 * Opens the database for the queries of people: read-only, and by a login that could do nothing else where there is one. Apart
 * from openStore, so that a command that only reads loads no more than that takes, and connects once.
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
  let pool: DatabasePool['pool'] | undefined
  const embedded = await startEmbeddedPostgres({
    dataDir: embeddedFolder(dataDir),
    logger,
    // That the first connection comes about is the proof that the server is usable.
    async isUsable(server) {
      const candidate = poolFor(readUrl ?? server.readUrl)
      try {
        const client = await candidate.connect()
        client.release()
        pool = candidate
        return true
      } catch {
        await candidate.end()
        return false
      }
    },
  })
  const opened = pool ?? poolFor(readUrl ?? embedded.readUrl)
  return {
    pool: opened,
    async close() {
      await opened.end()
      await embedded.stop()
    },
  }
}
