import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Config } from '../config/resolve.js'
import { type OpenStore, openStore } from '../openStore.js'
import { longestTimerMs, systemClock } from '../runtime/clock.js'
import { createLogger } from '../runtime/logger.js'
import { Stopped, stopSignal } from '../runtime/process.js'
import type { QueryResult } from '../db/readOnlyQuery.js'
import { type ArchiveQuery, queryArchive } from '../files/archive/duck.js'
import { cancelOnAbort } from '../db/pool.js'
import { openDatabase, type RecorderDatabase } from '../db/database.js'
import { openArchive } from './openArchive.js'
import { Failed } from './end.js'

interface ArchiveSelection extends Pick<ArchiveQuery, 'maxRows' | 'from' | 'to' | 'categories'> {
  /** True to read only the archive, without the database. */
  readonly isOffline: boolean
  /** The query is aborted after this time. */
  readonly timeoutMs: number
}

/** Runs one query over the configured archive and database. */
export async function queryConfiguredArchive(
  config: Config,
  sql: string,
  { timeoutMs, ...selection }: ArchiveSelection,
): Promise<QueryResult> {
  const stop = stopSignal()
  const timeout = new AbortController()
  const late = `not done after ${timeoutMs / 1000} s; narrow it down (--from, --to, --category) or raise --timeout`
  const stopTimer = systemClock.after(Math.min(timeoutMs, longestTimerMs), () => timeout.abort(new Error(late)))
  const signal = AbortSignal.any([stop.signal, timeout.signal])
  try {
    return await ask(config, sql, selection, signal)
  } catch (error) {
    if (!signal.aborted) throw error
    // Each aborted part throws an error of its own, so report the reason of the abort instead.
    const reason: unknown = signal.reason
    if (!(reason instanceof Stopped)) throw new Error(late, { cause: error })
    process.stderr.write(`error: ${reason.message}\n`)
    throw new Failed(reason.exitCode)
  } finally {
    stopTimer()
    stop.release()
  }
}

async function ask(
  config: Config,
  sql: string,
  { isOffline, ...asked }: Omit<ArchiveSelection, 'timeoutMs'>,
  signal: AbortSignal,
): Promise<QueryResult> {
  const target = await openArchive(config, signal)
  const folder = await mkdtemp(join(tmpdir(), 'market-recorder-query-'))
  let store: OpenStore | undefined
  let database: RecorderDatabase | undefined
  try {
    if (!isOffline) {
      store = await openStore(config, createLogger('warn'))
      // Uses the read-only login if one is configured.
      database = openDatabase({ url: store.readUrl, isReadOnly: true })
      cancelOnAbort(database, signal)
    }
    signal.throwIfAborted()
    return await queryArchive(target, { sql, folder, now: Date.now(), signal, ...asked, ...(database && { database }) })
  } finally {
    try {
      await target.close()
      await database?.close()
      await store?.close()
    } finally {
      await rm(folder, { recursive: true, force: true })
    }
  }
}
