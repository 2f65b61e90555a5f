import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Config } from '../config/resolve.js'
import { openStore } from '../openStore.js'
import { createLogger } from '../runtime/logger.js'
import { stopSignal } from '../runtime/shutdown.js'
import { type ArchiveQuery, type ArchiveQueryResult, queryArchive } from '../store/archive/duck.js'
import { openDatabase } from '../store/db/database.js'
import { openArchive } from './archiveTarget.js'

export interface ArchiveSelection extends Pick<ArchiveQuery, 'maxRows' | 'from' | 'to' | 'categories'> {
  /** Whether the database is left alone. */
  readonly isOffline: boolean
}

/** One query over the configured archive and database. */
export async function queryConfiguredArchive(
  config: Config,
  sql: string,
  { isOffline, ...asked }: ArchiveSelection,
): Promise<ArchiveQueryResult> {
  const stop = stopSignal()
  const target = await openArchive(config, stop.signal)
  const folder = await mkdtemp(join(tmpdir(), 'market-recorder-query-'))
  const store = isOffline ? null : await openStore(config, createLogger('warn'))
  // As the login that may only read, where there is one.
  const database = store && openDatabase({ url: store.readUrl, isReadOnly: true })
  try {
    const now = Date.now()
    return await queryArchive(target, { sql, folder, now, ...asked, ...(database && { database }) })
  } finally {
    stop.release()
    await target.close()
    await database?.close()
    await store?.close()
    await rm(folder, { recursive: true, force: true })
  }
}
