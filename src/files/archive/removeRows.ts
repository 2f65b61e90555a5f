import { sql } from 'kysely'
import type { RecorderDatabase } from '../../db/database.js'
import { forgetCoverage } from '../../server/timescale/retention.js'
import { type Comparison, compareWithDatabase } from './compare.js'
import type { Manifest } from './manifest.js'
import { rowsOfDay, symbolsOfDay } from './rows.js'
import { type Snapshot, withSnapshot } from './snapshot.js'
import { archivedTable, type Day, dayEnd, dayOf } from './tables.js'

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
 * Drops the chunks of a hypertable that end by a time, as long as the table has before it what was compared with the archive, and
 * nothing else: no row came to a day that was compared, or to an older one. Resolves to how many went, and to the first day that has
 * another number of rows by now.
 */
export async function dropIfSame(
  database: RecorderDatabase,
  table: string,
  before: number,
  compared: readonly Manifest[],
): Promise<{ readonly chunks: number; readonly changed: Day | null }> {
  return database.db.transaction().execute(async (trx) => {
    await maxWait.execute(trx)
    const name = `market.${table}`
    const end = new Date(before)
    const listChunks = async () => {
      const { rows } = await sql<{ chunk: string }>`
        select public.show_chunks(${name}::regclass, older_than => ${end}::timestamptz)::text as chunk order by 1`.execute(
        trx,
      )
      return rows.map(({ chunk }) => chunk)
    }
    const time = sql.ref(archivedTable(table).timeColumn ?? '')
    const firstChanged = async () => {
      const { rows } = await sql<{ day: number; count: string }>`
        select date_bin('1 day', ${time}, timestamptz 'epoch') as day, count(*)::text as count from ${sql.table(name)}
        where ${time} < ${end}::timestamptz group by 1`.execute(trx)
      return firstDifferent(compared, new Map(rows.map(({ day, count }) => [dayOf(day), Number(count)])))
    }
    // Whoever is writing to one ends first, and nobody begins.
    const locked = await listChunks()
    for (const chunk of locked) await sql`lock table ${sql.raw(chunk)} in share row exclusive mode`.execute(trx)
    let changed = await firstChanged()
    // From here on nobody makes a chunk. That is not for long: the recording may be about to.
    if (changed === null) {
      await sql`lock table only ${sql.table(name)} in share update exclusive mode`.execute(trx)
      if ((await listChunks()).join() !== locked.join()) changed = await firstChanged()
    }
    if (changed !== null) return { chunks: 0, changed }
    await forget(database, table, before)
    const { rows: dropped } = await sql`
      select public.drop_chunks(${name}::regclass, older_than => ${end}::timestamptz)`.execute(trx)
    return { chunks: dropped.length, changed: null }
  })
}

/** The first day that has another number of rows than was compared: none of one that was not. */
function firstDifferent(compared: readonly Manifest[], counted: ReadonlyMap<Day, number>): Day | null {
  const expected = new Map(compared.map(({ day, rows }) => [day, rows]))
  const days = [...new Set([...expected.keys(), ...counted.keys()])].toSorted()
  return days.find((day) => (expected.get(day) ?? 0) !== (counted.get(day) ?? 0)) ?? null
}

/** Serialization failures, deadlocks and locks that were not to be had. */
function isHindered(error: unknown): boolean {
  const { code } = error as { readonly code?: unknown }
  return code === '40001' || code === '40P01' || code === '55P03'
}
