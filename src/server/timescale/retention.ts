import { type Kysely, sql } from 'kysely'
import { type TimeTable, timeTables } from '../../market/stream.js'
import { dayMs, type TimeMs } from '../../market/values.js'
import { callFunction } from '../../db/database.js'
import type { Database } from '../../db/schema.js'
import { noteRemoval } from './rollups.js'
import { detectServer } from './server.js'
import { seriesByKey } from '../../db/series.js'
import type { StorageSettings } from './reconcile.js'
import { counted } from '../../runtime/text.js'

/** Age at which rejected rows are removed, counted from when they were last seen. */
const rejectedDays = 30

/** Rows that one statement deletes. They are few, so that it ends soon and holds its locks briefly. */
const rowsPerDelete = 10_000

/**
 * Removes rows past the configured age, and what is claimed of them. Returns what was removed, one line per table.
 * `forget` removes the ledger's claims of a stream. A policy of TimescaleDB would not know these claims, nor whether the
 * database's clock is right. Cannot run in a transaction.
 */
export async function applyRetention(
  db: Kysely<Database>,
  forget: (db: Kysely<Database>, stream: string, before: Date) => Promise<void>,
  settings: StorageSettings,
  now: TimeMs,
  signal?: AbortSignal,
): Promise<string[]> {
  const { kind } = await detectServer(db)
  const removed: string[] = []
  for (const table of timeTables) {
    const { retentionDays, isArchived } = settings[table.name]
    if (retentionDays === undefined || isArchived === true || signal?.aborted === true) continue
    const before = new Date(now - retentionDays * dayMs)
    // Claims are removed before their rows, so that no claim lacks its rows. A row may stay longer, with its chunk.
    await forget(db, table.name, before)
    if (table.name === 'candles') await noteRemoval(db, before)
    const what =
      kind === 'postgresql' ? await deleteRows(db, table, before, signal) : await dropChunks(db, table, before)
    if (what !== undefined) removed.push(`removed ${what} of market.${table.name} from before ${before.toISOString()}`)
  }
  const before = new Date(now - rejectedDays * dayMs)
  const rejected = await deleteRejected(db, before, signal)
  if (rejected > 0) removed.push(`removed ${rejected} of recorder.rejected_row from before ${before.toISOString()}`)
  return removed
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

async function dropChunks(db: Kysely<Database>, { name }: TimeTable, before: Date): Promise<string | undefined> {
  const dropped = await db.transaction().execute(async (trx) => {
    // While a table lock waits behind a reader's transaction, recording would wait behind the lock.
    await sql`set local lock_timeout = '10s'`.execute(trx)
    return callFunction<number>(trx, 'recorder.drop_chunks', name, before)
  })
  return dropped === 0 ? undefined : counted(dropped, 'chunk')
}

/**
 * Deletes rows series by series, along the key. A plain table has no index on the time alone, because one would slow
 * down every insert. A series without old rows costs one look-up.
 */
async function deleteRows(
  db: Kysely<Database>,
  table: TimeTable,
  before: Date,
  signal?: AbortSignal,
): Promise<string | undefined> {
  const { series, keyOf } = seriesByKey(table)
  const rows = sql.table(`market.${table.name}`)
  const time = sql.ref(`t.${table.timeColumn}`)
  let total = 0
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
    total += Number(numAffectedRows)
    if (numAffectedRows < rowsPerDelete || signal?.aborted === true) break
  }
  return total === 0 ? undefined : counted(total, 'row')
}
