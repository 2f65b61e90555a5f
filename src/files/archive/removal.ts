import { sql } from 'kysely'
import { callFunction, type RecorderDatabase } from '../../db/database.js'
import { traitsOf } from '../../db/databaseError.js'
import { type TimeTable, timeTables } from '../../market/stream.js'
import { forget as forgetRange } from '../../ledger/forget.js'
import { addMs, dayMs, type ServiceMs } from '../../market/values.js'
import { noteRemoval } from '../../server/timescale/rollups.js'
import { hasHypertables, readChunkEnds } from '../../server/timescale/server.js'
import { checkDay } from './checkDay.js'
import { listDays, type Manifest, proofDigest, readManifest, type SeriesProof } from './manifest.js'
import { mergeProof, readProof } from './proof.js'
import { rowsOfDay, type Snapshot, symbolsOfDay, withSnapshot } from './rows.js'
import { markDayDue, noteRemoved, readArchivedDays, whyForeign, withArchiveLock } from './state.js'
import {
  archivedTable,
  type ArchivedTable,
  type Day,
  dayEnd,
  dayOf,
  dayStart,
  daysBetween,
  firstTime,
} from './tables.js'
import { type ArchiveTarget, DamagedArchive } from './target.js'
import { counted } from '../../runtime/text.js'

interface RemovalResult {
  /** Describes the removed rows, one line per table. */
  readonly removed: readonly string[]
  /** The oldest day of each table that is past its age but must stay, and why. */
  readonly kept: readonly { readonly table: string; readonly day: Day; readonly reason: string }[]
}

/**
 * Removes rows past their age in days, table by table, and day by day from the oldest. A day is removed only if it is safe: its files were
 * just read, and have every row of the database. The first day that is not safe stays, and all days after it.
 */
export async function removeArchived(
  database: RecorderDatabase,
  target: ArchiveTarget,
  tables: readonly { readonly name: string; readonly retentionDays: number }[],
  options: { readonly now: () => ServiceMs; readonly signal?: AbortSignal },
): Promise<RemovalResult> {
  return withArchiveLock(database.db, async () => {
    const removed: string[] = []
    const kept: (Kept & { table: string })[] = []
    const isHypertable = await hasHypertables(database.db)
    for (const { name, retentionDays } of tables) {
      const table = timeTables.find((one) => one.name === name)
      const first = table && (await firstTime(database.db, archivedTable(name)))
      if (table === undefined || first === null || first === undefined) continue
      const cutoff = addMs(options.now(), -retentionDays * dayMs)
      // Chunks are removed whole. Reading days of a chunk that has not ended would gain nothing.
      const until = isHypertable ? ((await readChunkEnds(database.db, name, cutoff)).at(-1) ?? 0) : cutoff
      const days = daysBetween(first, until)
      const { what, end, stays } = await removeSafeDays(database, target, table, { days, isHypertable, ...options })
      if (what !== null && end !== null) removed.push(`removed ${what} of market.${name} from before ${dayOf(end)}`)
      if (stays === null) continue
      kept.push({ table: name, ...stays })
      // Without this mark the day would count as archived, and would stay for ever.
      if (stays.isDue) await markDayDue(database.db, name, stays.day)
    }
    return { removed, kept: kept.map(({ table, day, reason }) => ({ table, day, reason })) }
  })
}

interface Kept {
  readonly day: Day
  readonly reason: string
  /** True if archiving the day again would make it safe. */
  readonly isDue: boolean
}

interface Removed {
  /** Number of removed rows or chunks, as text for a message; null if none were removed. */
  readonly what: string | null
  /** End of the last removed day; null if no day was safe. */
  readonly end: ServiceMs | null
  /** The first day that is not safe in the archive. */
  readonly stays: Kept | null
}

/** Removes the days that are safe in the archive, from the oldest up to the first one that is not. */
async function removeSafeDays(
  database: RecorderDatabase,
  target: ArchiveTarget,
  timeTable: TimeTable,
  range: { readonly days: readonly Day[]; readonly isHypertable: boolean; readonly signal?: AbortSignal },
): Promise<Removed> {
  const { name } = timeTable
  const versions = await listDays(target, name)
  const notedDays = await readArchivedDays(database.db, name)
  const { days, signal, isHypertable } = range
  const table = archivedTable(name)
  /** Number of rows on safe days. In a plain table, they are already deleted. */
  let rows = 0
  const fingerprints = new Map<Day, string>()
  let stays: Kept | null = null
  let end: ServiceMs | null = null
  for (const day of days) {
    signal?.throwIfAborted()
    stays = await whyNot(day)
    if (stays !== null) break
    end = dayEnd(day)
  }
  if (!isHypertable || end === null) {
    return { what: rows === 0 ? null : counted(rows, 'row'), end, stays }
  }
  // Only whole chunks are removed. The claims of safe days in a chunk that stays are kept with their rows.
  const ends = await readChunkEnds(database.db, name, end)
  end = null
  let chunks = 0
  // Chunks are dropped day by day. Each takes several locks, and the server lacks room for those of a year at once.
  for (const next of new Map(ends.map((one) => [dayOf(one - 1), one])).values()) {
    signal?.throwIfAborted()
    const compared = new Map([...fingerprints].filter(([day]) => dayStart(day) < next))
    const dropped = await dropOrKeep(next, compared)
    if (typeof dropped !== 'number') {
      stays = dropped
      break
    }
    for (const day of compared.keys()) fingerprints.delete(day)
    chunks += dropped
    end = next
  }
  return { what: chunks === 0 ? null : counted(chunks, 'chunk'), end, stays }

  /** Resolves to the number of dropped chunks, or to the first day that stays. */
  async function dropOrKeep(before: number, compared: ReadonlyMap<Day, string>): Promise<number | Kept> {
    try {
      const { dropped, changed } = await dropIfSame(database, name, before, compared)
      return changed === null
        ? dropped
        : { day: changed, reason: 'its rows changed while days were compared', isDue: true }
    } catch (error) {
      return keptByOthers(error, [...compared.keys()][0] ?? dayOf(before - 1))
    }
  }

  async function whyNot(day: Day): Promise<Kept | null> {
    try {
      const options = { table, canWrite: !isHypertable, signal }
      return await withSnapshot(database, (snapshot) => compareAndRemove(snapshot, day), options)
    } catch (error) {
      if (error instanceof DamagedArchive) return { day, reason: error.message, isDue: true }
      return keptByOthers(error, day)
    }
  }

  /** Compares a day with the archive. In a plain table, it also deletes exactly the compared rows. */
  async function compareAndRemove(snapshot: Snapshot, day: Day): Promise<Kept | null> {
    const symbols = await symbolsOfDay(snapshot, table, day)
    const version = versions.get(day)?.at(-1)
    if (version === undefined) {
      if (symbols.size > 0) return { day, reason: 'it is not in the archive', isDue: false }
      if (!isHypertable) await forget(database, name, dayEnd(day))
      return null
    }
    const manifest = await readManifest(target, { table: name, day, version })
    const noted = notedDays.get(day)
    const foreign = whyForeign(manifest, noted)
    if (foreign !== null) return { day, reason: foreign, isDue: true }
    const { difference } = await checkDay({ target, signal }, manifest, snapshot)
    if (difference !== null) return { day, reason: `the archive has something else: ${difference}`, isDue: true }
    // The proof of a day that was removed before is not compared: its gaps may reach into later days and change there.
    if (noted?.isRemoved === false && !hasProof(manifest, await readProof(snapshot, table, day))) {
      return { day, reason: 'the archive lacks what the database has proven of it since', isDue: true }
    }
    if (isHypertable) fingerprints.set(day, await dayFingerprint(snapshot, table, day))
    else {
      rows += await deleteDay(snapshot, table, day, symbols)
      // Claims are removed before the deletion becomes visible, so that no claim lacks its rows.
      await forget(database, name, dayEnd(day))
    }
    return null
  }
}

/** Returns true if a manifest has all proof of the database. It may have more, because proof leaves with older days. */
function hasProof({ proof }: Manifest, own: readonly SeriesProof[]): boolean {
  return proofDigest(mergeProof(proof, own)) === proofDigest(mergeProof(proof, proof))
}

/** Returns why a day stays if others were at work on it. Throws any other error. */
function keptByOthers(error: unknown, day: Day): Kept {
  const { isConflict, isLocked } = traitsOf(error)
  if (!isConflict && !isLocked) throw error
  return { day, reason: 'somebody else was reading or writing it at the same time', isDue: false }
}

/** Limits the wait for a lock. Recording must not wait for long, and a reader may keep a transaction open. */
const maxWait = sql`set local lock_timeout = '10s'`

/** Deletes the rows of a day series by series, because a plain table has no index on the time alone. */
async function deleteDay(
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

/** Removes the claims before a time, and notes in the same transaction that only the archive has their proof. */
async function forget({ db }: RecorderDatabase, table: string, before: number): Promise<void> {
  await db.transaction().execute(async (trx) => {
    await maxWait.execute(trx)
    await forgetRange(trx, table, new Date(before))
    if (table === 'candles') await noteRemoval(trx, new Date(before))
    await noteRemoved(trx, table, dayOf(before))
  })
}

/** SQL that changes with any value of any row `t`. It must be fast, because tables stay locked: a microsecond a row. */
const fingerprint = `count(*)::text || ' ' || coalesce(sum(hash_record_extended(t, 0)), 0)::text`

async function dayFingerprint(snapshot: Snapshot, table: ArchivedTable, day: Day): Promise<string> {
  const { sql: rows, parameters } = rowsOfDay(table, day)
  const [[found] = []] = await snapshot.query(`select ${fingerprint} from ${rows}`, parameters)
  return found ?? ''
}

/**
 * Drops the chunks of a hypertable that end by a time. Drops nothing if rows were added or changed after they were
 * compared with the archive. Resolves to the number of dropped chunks and to the first changed day.
 *
 * @param compared fingerprints of the days when they were compared
 */
async function dropIfSame(
  database: RecorderDatabase,
  table: string,
  before: number,
  compared: ReadonlyMap<Day, string>,
): Promise<{ readonly dropped: number; readonly changed: Day | null }> {
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
    const locked = await listChunks()
    const lockChunks = async (mode: 'share row' | 'access') => {
      for (const chunk of locked)
        await sql`lock table ${sql.raw(chunk)} in ${sql.raw(mode)} exclusive mode`.execute(trx)
    }
    // The lock waits for current writers of a chunk to end, and keeps new writers out.
    await lockChunks('share row')
    let changed = await firstChanged()
    // This lock prevents new chunks. It is held only briefly, because recording may need a new chunk.
    if (changed === null) {
      await sql`lock table only ${sql.table(name)} in share update exclusive mode`.execute(trx)
      if ((await listChunks()).join() !== locked.join()) changed = await firstChanged()
    }
    if (changed !== null) return { dropped: 0, changed }
    // While somebody reads a chunk it cannot be dropped. Its claims then stay, too.
    await lockChunks('access')
    await forget(database, table, before)
    return { dropped: await callFunction<number>(trx, 'recorder.drop_chunks', table, end), changed: null }
  })
}

const nothing = '0 0'

/** Returns the first day whose rows differ from the compared ones, or that has rows but was not compared. */
function firstDifferent(compared: ReadonlyMap<Day, string>, found: ReadonlyMap<Day, string>): Day | null {
  const days = [...new Set([...compared.keys(), ...found.keys()])].toSorted()
  return days.find((day) => (compared.get(day) ?? nothing) !== (found.get(day) ?? nothing)) ?? null
}
