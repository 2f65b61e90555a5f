import { sql } from 'kysely'
import type { RecorderDatabase } from '../db/database.js'
import { forgetCoverage } from '../timescale/retention.js'
import { type Comparison, compareWithDatabase } from './compare.js'
import type { Manifest } from './manifest.js'
import { rowsOfDay, symbolsOfDay } from './rows.js'
import { type Snapshot, withSnapshot } from './snapshot.js'
import { archivedTable, dayEnd, dayStart } from './tables.js'

/** Neither may the recording wait for long, nor this for a reader that keeps a transaction open. */
const maxWait = sql`set local lock_timeout = '10s'`

/**
 * Compares a day of a plain table with the archive and, when they are equal, removes exactly the rows that were compared. What is
 * written to the day meanwhile stays; where a row was changed meanwhile, all of them do. Resolves to how they compared.
 */
export async function removeIfEqual(
  database: RecorderDatabase,
  manifest: Manifest,
  onRows: (rows: number) => void,
): Promise<Comparison> {
  const remove = async (snapshot: Snapshot): Promise<Comparison> => {
    const compared = await compareWithDatabase(snapshot, manifest, false, onRows)
    if (compared === 'equal') await deleteDay(snapshot, manifest, onRows)
    // Before the rows are gone for others, so that nothing is claimed that is gone.
    if (typeof compared !== 'object') await forget(database, manifest.table, dayEnd(manifest.day))
    return compared
  }
  try {
    return await withSnapshot(database, remove, { canWrite: true })
  } catch (error) {
    if (!isHindered(error)) throw error
    return { difference: 'somebody else was writing to it while it was compared' }
  }
}

async function deleteDay(snapshot: Snapshot, { table: name, day }: Manifest, onRows: (rows: number) => void) {
  const table = archivedTable(name)
  const { sql: rows, parameters } = rowsOfDay(table, day)
  // Series by series, as the key has them: there is no index on the time alone.
  for (const [category, symbols] of await symbolsOfDay(snapshot, table, day, false)) {
    for (const symbol of symbols) {
      await snapshot.query(`delete from ${rows} and t.category = $3::market.category and t.symbol = $4`, [
        ...parameters,
        category,
        symbol,
      ])
      onRows(0)
    }
  }
}

/** Takes back what is claimed of the time before. */
export async function forget({ db }: RecorderDatabase, table: string, before: number): Promise<void> {
  await db.transaction().execute(async (trx) => {
    await maxWait.execute(trx)
    await forgetCoverage(trx, table, new Date(before))
  })
}

/**
 * Drops the chunks of a hypertable that end by a time, as long as nothing came to the days in them since they were compared with
 * the archive. Resolves to how many went, and to the first day that has another number of rows by now.
 */
export async function dropIfSame(
  database: RecorderDatabase,
  table: string,
  before: number,
  compared: readonly Manifest[],
): Promise<{ readonly chunks: number; readonly changed: Manifest | null }> {
  return database.db.transaction().execute(async (trx) => {
    await maxWait.execute(trx)
    const name = `market.${table}`
    const { rows: chunks } = await sql<{ chunk: string }>`
      select public.show_chunks(${name}::regclass, older_than => ${new Date(before)}::timestamptz)::text as chunk`.execute(
      trx,
    )
    // Whoever is writing to one ends first, and nobody begins.
    for (const { chunk } of chunks) await sql`lock table ${sql.raw(chunk)} in share row exclusive mode`.execute(trx)
    for (const manifest of compared) {
      const { day, rows } = manifest
      const time = sql.ref(archivedTable(table).timeColumn ?? '')
      const counted = await sql<{ count: number }>`
        select count(*) as count from ${sql.table(name)}
        where ${time} >= ${new Date(dayStart(day))}::timestamptz and ${time} < ${new Date(dayEnd(day))}::timestamptz`.execute(
        trx,
      )
      if (Number(counted.rows[0]?.count) !== rows) return { chunks: 0, changed: manifest }
    }
    await forget(database, table, before)
    const { rows: dropped } = await sql`
      select public.drop_chunks(${name}::regclass, older_than => ${new Date(before)}::timestamptz)`.execute(trx)
    return { chunks: dropped.length, changed: null }
  })
}

/** Serialization failures, deadlocks and locks that were not to be had. */
function isHindered(error: unknown): boolean {
  const { code } = error as { readonly code?: unknown }
  return code === '40001' || code === '40P01' || code === '55P03'
}
