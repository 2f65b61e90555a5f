import { type Kysely, sql, type Transaction } from 'kysely'
import { callFunction } from '../../db/database.js'
import { traitsOf } from '../../db/databaseError.js'
import { lockNames, withSessionLock } from '../../db/locks.js'
import type { Database } from '../../db/schema.js'
import type { ServiceMs } from '../../market/values.js'
import { systemClock } from '../../runtime/clock.js'
import { refreshBeforeDrop } from './rollups.js'

interface DropOptions {
  /** Runs in the transaction of the drop, before it. Rejects if nothing may be dropped. */
  readonly prepare?: (trx: Transaction<Database>) => Promise<void>
  readonly signal?: AbortSignal | undefined
}

/** Longest wait for refreshes of rollups that began before. The next removal is in an hour. */
const maxWaitMs = 60_000
const askEveryMs = 200

/**
 * Drops the chunks of a hypertable that end by a time, and resolves to their number. All removal of chunks goes this
 * way, because TimescaleDB takes the drop of candles for a change: a refresh that looks at the dropped time removes its
 * rollups. Therefore no refresh may look there from before the drop on, neither one of this program nor one of the
 * server's schedule. The rollups become final with the drop, in its transaction. Rejects if a lock is not free in time.
 * Cannot run in a transaction.
 */
export async function dropChunks(
  db: Kysely<Database>,
  table: string,
  before: ServiceMs,
  { prepare, signal }: DropOptions = {},
): Promise<number> {
  const drop = (on: Kysely<Database>) =>
    on.transaction().execute(async (trx) => {
      // While a table lock waits behind a reader's transaction, recording would wait behind the lock.
      await sql`set local lock_timeout = '10s'`.execute(trx)
      await prepare?.(trx)
      return callFunction<number>(trx, 'recorder.drop_chunks', table, new Date(before))
    })
  if (table !== 'candles') return drop(db)
  const work = async (connection: Kysely<Database>) => {
    try {
      await keepRefreshesAway(connection, before, signal)
      return await drop(connection)
    } finally {
      // If candles stay, they are looked at again. Should this fail, the next hour tries it again.
      await callFunction(connection, 'recorder.bound_rollups').catch(() => undefined)
    }
  }
  return withSessionLock(db, lockNames.rollups, work, { signal })
}

/** Refreshes rollups before a time for the last time, and resolves once no refresh of the schedule looks there. */
async function keepRefreshesAway(
  db: Kysely<Database>,
  before: ServiceMs,
  signal: AbortSignal | undefined,
): Promise<void> {
  const deadlineMs = systemClock.monotonicMs() + maxWaitMs
  const isOver = () => systemClock.monotonicMs() > deadlineMs
  for (;;) {
    try {
      await refreshBeforeDrop(db, before)
      break
    } catch (error) {
      // The schedule refreshes the same time just now.
      if (!traitsOf(error).isLocked || isOver()) throw error
      await systemClock.sleep(askEveryMs, signal)
    }
  }
  // Each call commits, so that a refresh that begins later has the narrower schedule.
  while (await callFunction<boolean>(db, 'recorder.bound_rollups', new Date(before))) {
    if (isOver()) throw Object.assign(new Error('the server is still refreshing rollups of the candles'), busy)
    await systemClock.sleep(askEveryMs, signal)
  }
}

/** Code of the server for a lock that was not free in time. */
const busy = { code: '55P03' }
