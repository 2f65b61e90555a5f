import type { Config } from './config/resolve.js'
import { ConfigError } from './config/configError.js'
import { requireOwnFolder } from './runtime/disk.js'
import type { Logger } from './runtime/logger.js'
import { messageOf } from './runtime/text.js'
import { systemClock, within } from './runtime/clock.js'
import type { RecorderDatabase } from './db/database.js'
import { embeddedFolder, type EmbeddedOptions, isExisting, startEmbeddedPostgres } from './server/embedded/embedded.js'
import { type DatabasePool, openPool } from './db/pool.js'

const closeWithinMs = 2_000
/** Wait after a query's timeout before its connection is closed. The server normally cancels the query first. */
const silenceGraceMs = 5_000

export interface OpenStore {
  readonly database: RecorderDatabase
  /** Connection string, with its password. */
  readonly url: string
  /** Connection string of a login in market_reader. It equals `url` if the configuration has no such login. */
  readonly readUrl: string
  /** Connection string of the page's login. On the embedded server, the page has a login of its own. */
  readonly pageDatabaseUrl: string
  readonly isEmbedded: boolean
  close(): Promise<void>
}

/**
 * Opens the configured database, or starts the embedded one. Migrates neither.
 *
 * @param mayCreate true for a recording, which creates a missing embedded database; otherwise that is an error
 * @param onLost called when the embedded server cannot be started again, or the database was replaced by another one
 */
export async function openStore(
  config: Config,
  logger: Logger,
  { mayCreate = false, onLost }: { readonly mayCreate?: boolean; readonly onLost?: (error: Error) => void } = {},
): Promise<OpenStore> {
  const { url: configuredUrl, readUrl, dataDir, poolSize } = config.database
  try {
    requireOwnFolder(dataDir)
  } catch (error) {
    throw new ConfigError([`database.dataDir: ${messageOf(error)}`], { cause: error })
  }
  if (configuredUrl === undefined && !mayCreate) await requireExisting(dataDir)
  const embedded =
    configuredUrl === undefined
      ? await startEmbeddedPostgres({ dataDir: embeddedFolder(dataDir), logger, ...(onLost && { onLost }) })
      : undefined
  const url = embedded?.url ?? configuredUrl ?? ''
  try {
    // Loaded here, because a command that only reads needs no query builder.
    const { openDatabase } = await import('./db/database.js')
    const { SameDatabase } = await import('./db/identity.js')
    const same = new SameDatabase(onLost)
    const database = openDatabase({ url, poolSize, applicationName: 'market-recorder', same })
    return {
      database,
      url,
      readUrl: readUrl ?? embedded?.readUrl ?? url,
      pageDatabaseUrl: readUrl ?? embedded?.pageDatabaseUrl ?? url,
      isEmbedded: embedded !== undefined,
      async close() {
        // A query that a silent server does not end only keeps a connection open.
        await within(systemClock, closeWithinMs, database.close(), undefined)
        await embedded?.stop()
      },
    }
  } catch (error) {
    await embedded?.stop()
    throw error
  }
}

/**
 * Opens the database for users' queries, read-only. It uses a login without other rights if there is one.
 *
 * @param timeoutMs the longest wait for an embedded server, and beyond some grace for each response of any server
 */
export async function openReader(
  { database: { url, readUrl, dataDir, poolSize } }: Config,
  logger: NonNullable<EmbeddedOptions['logger']>,
  timeoutMs?: number,
): Promise<DatabasePool> {
  const silence = timeoutMs === undefined ? {} : { silenceTimeoutMs: timeoutMs + silenceGraceMs }
  const poolFor = (reader: string) => openPool({ url: reader, poolSize, isReadOnly: true, ...silence })
  if (url !== undefined) {
    const pool = poolFor(readUrl ?? url)
    return { pool, close: () => pool.end() }
  }
  await requireExisting(dataDir)
  const joinWithin = timeoutMs === undefined ? {} : { joinWithinMs: timeoutMs }
  const embedded = await startEmbeddedPostgres({ dataDir: embeddedFolder(dataDir), logger, ...joinWithin })
  const pool = poolFor(readUrl ?? embedded.readUrl)
  return {
    pool,
    async close() {
      await pool.end()
      await embedded.stop()
    },
  }
}

/**
 * Throws if a data folder has no database. Commands that read recorded data call it. A new, empty database would say
 * that nothing is missing, although the folder was only mistyped.
 */
async function requireExisting(dataDir: string): Promise<void> {
  if (await isExisting(dataDir)) return
  throw new Error(
    `there is no database in ${dataDir}; run this where the recorder was started, or give --data-dir or DATABASE_URL`,
  )
}
