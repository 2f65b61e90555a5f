import { type Kysely, sql, type Transaction } from 'kysely'
import { type TimeTable, timeTables } from '../../market/stream.js'
import { dayMs, type ServiceMs, serviceMs } from '../../market/values.js'
import { describeDatabaseError, traitsOf } from '../../db/databaseError.js'
import type { Database } from '../../db/schema.js'
import { boundRollups, refreshBeforeDrop } from './rollups.js'
import { hasHypertables, readChunkEnds } from './server.js'
import { seriesByKey } from '../../db/series.js'
import type { StorageSettings } from './reconcile.js'
import { counted } from '../../runtime/text.js'
import { callFunction } from '../../db/database.js'
import { lockNames, withSessionLock } from '../../db/locks.js'
import { systemClock } from '../../runtime/clock.js'

/** Age at which rejected rows are removed, counted from when they were last seen. */
const rejectedDays = 30

/** Rows that one statement deletes. They are few, so that it ends soon and holds its locks briefly. */
const rowsPerDelete = 10_000

interface RetentionResult {
  /** Describes what was removed, one line per table. */
  readonly removed: readonly string[]
  /** Tables that still have old rows, and why, one line each. The next removal tries again. */
  readonly kept: readonly string[]
}

/**
 * Removes rows past the configured age, and what is claimed of them. A table that cannot be changed now does not affect
 * others. `forget` removes the ledger's claims of a stream. A policy of TimescaleDB would not know these claims, nor
 * whether the database's clock is right. Then lets the schedule of rollups look at all candles that stay. Cannot run in
 * a transaction.
 */
export async function applyRetention(
  db: Kysely<Database>,
  forget: (db: Kysely<Database>, stream: string, before: Date) => Promise<void>,
  settings: StorageSettings,
  now: ServiceMs,
  signal?: AbortSignal,
): Promise<RetentionResult> {
  const isHypertable = await hasHypertables(db)
  const isStopping = () => signal?.aborted === true
  const removed: string[] = []
  const kept: string[] = []
  for (const table of timeTables) {
    const { retentionDays, isArchived } = settings[table.name]
    if (retentionDays === undefined || isArchived === true || isStopping()) continue
    const before = new Date(now - retentionDays * dayMs)
    let total = 0
    const attempt = async (work: () => Promise<void>) => {
      try {
        await work()
      } catch (error) {
        if (traitsOf(error).isAway) throw error
        kept.push(`market.${table.name}: ${describeDatabaseError(error)}`)
      }
    }
    await attempt(async () => {
      // Claims are removed before their rows, so that no claim lacks its rows. A row may stay longer, with its chunk.
      await forget(db, table.name, before)
      for await (const count of isHypertable ? dropOld(db, table, before, signal) : deleteRows(db, table, before)) {
        total += count
        if (isStopping()) break
      }
    })
    // A backfill may have stored and claimed old rows meanwhile, and the rows are gone again, though others may be left.
    if (total > 0) await attempt(() => forget(db, table.name, before))
    const what = counted(total, isHypertable ? 'chunk' : 'row')
    if (total > 0) removed.push(`removed ${what} of market.${table.name} from before ${before.toISOString()}`)
  }
  const before = new Date(now - rejectedDays * dayMs)
  const rejected = await deleteRejected(db, before, signal)
  if (rejected > 0) removed.push(`removed ${rejected} of recorder.rejected_row from before ${before.toISOString()}`)
  if (!isStopping()) await boundRollups(db)
  return { removed, kept }
}

/** Deletes rejected rows that were last seen before a time. */
async function deleteRejected(db: Kysely<Database>, before: Date, signal?: AbortSignal): Promise<number> {
  for (let total = 0; ;) {
    const { numAffectedRows = 0n } = await sql`
      delete from recorder.rejected_row where digest = any(array(
        select digest from recorder.rejected_row where last_seen_at < ${before}::timestamptz
        limit ${sql.lit(rowsPerDelete)}
      ))`.execute(db)
    total += Number(numAffectedRows)
    if (numAffectedRows < rowsPerDelete || signal?.aborted === true) return total
  }
}

/**
 * Drops chunks from the oldest, each in a transaction of its own, and yields how many were dropped. A chunk takes
 * several locks, and the server lacks room for those of a year of chunks at once.
 */
async function* dropOld(
  db: Kysely<Database>,
  { name }: TimeTable,
  before: Date,
  signal: AbortSignal | undefined,
): AsyncGenerator<number> {
  for (const end of await readChunkEnds(db, name, serviceMs(before.getTime())))
    yield await dropChunks(db, name, end, { signal })
}

/**
 * Deletes rows series by series, along the key, and yields the number of each statement. A plain table has no index on
 * the time alone, because one would slow down every insert. A series without old rows costs one look-up.
 */
async function* deleteRows(db: Kysely<Database>, table: TimeTable, before: Date): AsyncGenerator<number> {
  const { series, keyOf } = seriesByKey(table)
  const rows = sql.table(`market.${table.name}`)
  const time = sql.ref(`t.${table.timeColumn}`)
  for (;;) {
    const { numAffectedRows = 0n } = await sql`
      with recursive ${sql.raw(series)}
      delete from ${rows} where ctid = any(array(
        select old.ctid from series s cross join lateral (
          select t.ctid from ${rows} t
          where (${sql.raw(keyOf('t'))}) = (${sql.raw(keyOf('s'))}) and ${time} < ${before}::timestamptz
          order by ${time} limit ${sql.lit(rowsPerDelete)}
        ) old
        limit ${sql.lit(rowsPerDelete)}
      ))`.execute(db)
    yield Number(numAffectedRows)
    if (numAffectedRows < rowsPerDelete) return
  }
}

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
