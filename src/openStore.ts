import type { Config } from './config/resolve.js'
import type { Logger } from './runtime/logger.js'
import { systemClock, within } from './runtime/clock.js'
import type { RecorderDatabase } from './db/database.js'
import {
  embeddedFolder,
  type EmbeddedOptions,
  requireExisting,
  startEmbeddedPostgres,
} from './server/embedded/embedded.js'
import { type DatabasePool, openPool } from './db/pool.js'

const closeWithinMs = 2_000

export interface OpenStore {
  readonly database: RecorderDatabase
  /** Connection string, with its password. */
  readonly url: string
  /** Connection string of a login in market_reader, unless the configuration has none. */
  readonly readUrl: string
  /** The login of the page, which on the embedded server is one of its own. */
  readonly pageUrl: string
  readonly isEmbedded: boolean
  close(): Promise<void>
}

/**
 * Opens the configured database, or starts the embedded one. Neither is migrated.
 *
 * @param mayCreate for what records: creates the embedded one where there is none, which otherwise is an error
 * @param onLost called when the embedded server has died and cannot be started again
 */
export async function openStore(
  config: Config,
  logger: Logger,
  { mayCreate = false, onLost }: { readonly mayCreate?: boolean; readonly onLost?: (error: Error) => void } = {},
): Promise<OpenStore> {
  const { url: configuredUrl, readUrl, dataDir, poolSize } = config.database
  if (configuredUrl === undefined && !mayCreate) await requireExisting(dataDir)
  const embedded =
    configuredUrl === undefined
      ? await startEmbeddedPostgres({ dataDir: embeddedFolder(dataDir), logger, ...(onLost && { onLost }) })
      : undefined
  const url = embedded?.url ?? configuredUrl ?? ''
  try {
    // A command that only reads need not load what builds statements.
    const { openDatabase } = await import('./db/database.js')
    const database = openDatabase({ url, poolSize, applicationName: 'market-recorder' })
    return {
      database,
      url,
      readUrl: readUrl ?? embedded?.readUrl ?? url,
      pageUrl: readUrl ?? embedded?.pageUrl ?? url,
      isEmbedded: embedded !== undefined,
      async close() {
        // A query that a silent server does not end keeps a connection, and nothing else.
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
 * Opens the database for the queries of people: read-only, and by a login that could do nothing else where there is one.
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
