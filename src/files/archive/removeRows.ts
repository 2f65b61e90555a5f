import { sql } from 'kysely'
import type { RecorderDatabase } from '../../db/database.js'
import { forget as forgetRange } from '../../ledger/forget.js'
import { noteRemoval } from '../../server/timescale/rollups.js'
import { rowsOfDay, type Snapshot } from './rows.js'
import { noteRemoved } from './state.js'
import { archivedTable, type ArchivedTable, type Day, dayOf } from './tables.js'

/** Limits the wait for a lock. Recording must not wait for long, and a reader may keep a transaction open. */
const maxWait = sql`set local lock_timeout = '10s'`

/** Removes the rows of a day that a snapshot has, series by series along the key: there is no index on the time alone. */
export async function deleteDay(
  snapshot: Snapshot,
  table: ArchivedTable,
  day: Day,
  symbols: ReadonlyMap<string, readonly string[]>,
): Promise<number> {
  const { sql: rows, parameters } = rowsOfDay(table, day)
  let total = 0
  for (const [category, named] of symbols) {
    for (const symbol of named) {
      const [[count] = []] = await snapshot.query(
        `with gone as (delete from ${rows} and t.category = $3::market.category and t.symbol = $4 returning 1)
         select count(*) from gone`,
        [...parameters, category, symbol],
      )
      total += Number(count)
    }
  }
  return total
}

/** Takes back what is claimed of the time before, and notes in the same step that the archive has the only proof of it. */
export async function forget({ db }: RecorderDatabase, table: string, before: number): Promise<void> {
  await db.transaction().execute(async (trx) => {
    await maxWait.execute(trx)
    await forgetRange(trx, table, new Date(before))
    if (table === 'candles') await noteRemoval(trx, new Date(before))
    await noteRemoved(trx, table, dayOf(before))
  })
}

/** Changes with any value of any row `t`, and takes the server a microsecond a row: a table stays locked meanwhile. */
const fingerprint = `count(*)::text || ' ' || coalesce(sum(hash_record_extended(t, 0)), 0)::text`

export async function dayFingerprint(snapshot: Snapshot, table: ArchivedTable, day: Day): Promise<string> {
  const { sql: rows, parameters } = rowsOfDay(table, day)
  const [[found] = []] = await snapshot.query(`select ${fingerprint} from ${rows}`, parameters)
  return found ?? ''
}

/**
 * Drops the chunks of a hypertable that end by a time, as long as the table has before it what was compared with the archive, and
 * nothing else: no row came, and none was changed. Resolves to how many went, and to the first day that has changed.
 *
 * @param compared fingerprints of the days when they were compared
 */
export async function dropIfSame(
  database: RecorderDatabase,
  table: string,
  before: number,
  compared: ReadonlyMap<Day, string>,
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
    const time = sql.ref(`t.${archivedTable(table).timeColumn ?? ''}`)
    const firstChanged = async () => {
      const { rows } = await sql<{ day: number; found: string }>`
        select date_bin('1 day', ${time}, timestamptz 'epoch') as day, ${sql.raw(fingerprint)} as found
        from ${sql.table(name)} t where ${time} < ${end}::timestamptz group by 1`.execute(trx)
      return firstDifferent(compared, new Map(rows.map(({ day, found }) => [dayOf(day), found])))
    }
    // The lock waits for current writers of a chunk to end, and keeps new writers out.
    const locked = await listChunks()
    for (const chunk of locked) await sql`lock table ${sql.raw(chunk)} in share row exclusive mode`.execute(trx)
    let changed = await firstChanged()
    // This lock prevents new chunks. It is held only briefly, because recording may need a new chunk.
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

const nothing = '0 0'

/** Returns the first day whose rows differ from the compared ones, or that has rows but was not compared. */
function firstDifferent(compared: ReadonlyMap<Day, string>, found: ReadonlyMap<Day, string>): Day | null {
  const days = [...new Set([...compared.keys(), ...found.keys()])].toSorted()
  return days.find((day) => (compared.get(day) ?? nothing) !== (found.get(day) ?? nothing)) ?? null
}

/** Serialization failures, deadlocks and locks that were not to be had. */
export function isHindered(error: unknown): boolean {
  const { code } = error as { readonly code?: unknown }
  return code === '40001' || code === '40P01' || code === '55P03'
}
