import { sql } from 'kysely'
import { dayMs } from '../../market/values.js'
import type { RecorderDatabase } from '../../db/database.js'
import { loadZstd } from '../parquet/zstd.js'
import { hasHypertables } from '../../server/timescale/server.js'
import { type TimeTable, timeTables } from '../../db/timeTables.js'
import { checkDay, type ArchiveReader } from './checkDay.js'
import { listTableDays, readManifest } from './manifest.js'
import { dayFingerprint, deleteDay, dropIfSame, forget, isHindered } from './removeRows.js'
import { type Snapshot, symbolsOfDay, withSnapshot } from './rows.js'
import { markDayDue, withArchiveLock } from './state.js'
import { archivedTable, type Day, dayEnd, dayOf, daysBetween } from './tables.js'
import { type ArchiveTarget, DamagedArchive } from './target.js'
import { firstTime } from './timeBounds.js'

interface RemovalRequest {
  /** Tables of schema `market`, with the age in days at which their rows are removed. */
  readonly tables: readonly { readonly name: string; readonly retentionDays: number }[]
}

export interface RemovalResult {
  /** One line a table. */
  readonly removed: readonly string[]
  /** The oldest day of each table that is past its age and has to stay, and why. */
  readonly kept: readonly { readonly table: string; readonly day: Day; readonly reason: string }[]
}

/**
 * Removes rows that are older than the configuration keeps, day by day from the oldest, as long as each day is in the archive: its
 * files are read, and every row of the database is among theirs at this moment. The first day of which that is not true stays,
 * with all after it.
 */
export async function removeArchived(
  database: RecorderDatabase,
  target: ArchiveTarget,
  { tables }: RemovalRequest,
  options: { readonly now: () => number; readonly signal?: AbortSignal },
): Promise<RemovalResult> {
  return withArchiveLock(database.db, async () => {
    const removed: string[] = []
    const kept: (Kept & { table: string })[] = []
    const isHypertable = await hasHypertables(database.db)
    for (const { name, retentionDays } of tables) {
      const table = timeTables.find((one) => one.name === name)
      const first = table && (await firstTime({ database, isHypertable }, archivedTable(name)))
      if (table === undefined || first === null || first === undefined) continue
      const cutoff = options.now() - retentionDays * dayMs
      // Chunks are removed whole. Reading days of a chunk that has not ended would gain nothing.
      const until = isHypertable ? await lastChunkEnd(database, table, cutoff) : cutoff
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
  /** True when writing the day to the archive again would make it safe there. */
  readonly isDue: boolean
}

interface Removed {
  /** Number of removed rows or chunks, as text for a message; null if none were removed. */
  readonly what: string | null
  /** Up to where the table was dealt with; null: nowhere. */
  readonly end: number | null
  /** The first day that is not safe in the archive. */
  readonly stays: Kept | null
}

/** Removes the days that are safe in the archive, from the oldest up to the first one that is not. */
async function removeSafeDays(
  database: RecorderDatabase,
  target: ArchiveTarget,
  { name }: TimeTable,
  range: { readonly days: readonly Day[]; readonly isHypertable: boolean; readonly signal?: AbortSignal },
): Promise<Removed> {
  const versions = await listTableDays(target, name)
  const reader: ArchiveReader = { target, compression: await loadZstd() }
  const { days, signal, isHypertable } = range
  const onRows = () => signal?.throwIfAborted()
  const table = archivedTable(name)
  /** Rows of the days that are safe: of a plain table they are gone. */
  let rows = 0
  const fingerprints = new Map<Day, string>()
  let stays: Kept | null = null
  let end: number | null = null
  for (const day of days) {
    signal?.throwIfAborted()
    stays = await whyNot(day)
    if (stays !== null) break
    end = dayEnd(day)
  }
  if (!isHypertable || end === null) {
    return { what: rows === 0 ? null : `${rows} ${rows === 1 ? 'row' : 'rows'}`, end, stays }
  }
  const { chunks, changed } = await dropIfSame(database, name, end, fingerprints)
  if (changed !== null) {
    const reason = 'its rows changed while days were compared'
    return { what: null, end: null, stays: { day: changed, reason, isDue: true } }
  }
  return { what: chunks === 0 ? null : `${chunks} ${chunks === 1 ? 'chunk' : 'chunks'}`, end, stays }

  async function whyNot(day: Day): Promise<Kept | null> {
    try {
      return await withSnapshot(database, (snapshot) => compareAndRemove(snapshot, day), { canWrite: !isHypertable })
    } catch (error) {
      if (error instanceof DamagedArchive) return { day, reason: error.message, isDue: true }
      if (!isHindered(error)) throw error
      return { day, reason: 'somebody else was writing to it while it was compared', isDue: false }
    }
  }

  /** Compares a day with the archive and, of a plain table, removes exactly the rows that were compared. */
  async function compareAndRemove(snapshot: Snapshot, day: Day): Promise<Kept | null> {
    const symbols = await symbolsOfDay(snapshot, table, day, isHypertable)
    const version = versions.get(day)?.at(-1)
    if (version === undefined) {
      if (symbols.size > 0) return { day, reason: 'it is not in the archive', isDue: false }
      if (!isHypertable) await forget(database, name, dayEnd(day))
      return null
    }
    const manifest = await readManifest(target, name, day, version)
    const { problems, compared } = await checkDay(reader, manifest, { database: { snapshot, isHypertable }, onRows })
    if (problems.length > 0) throw new DamagedArchive(problems.join('; '))
    if (typeof compared === 'object' && compared !== null) {
      return { day, reason: `the archive has something else: ${compared.difference}`, isDue: true }
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

/** Returns the end of the newest chunk that lies wholly before a time; 0 if there is none. */
async function lastChunkEnd({ db }: RecorderDatabase, { name }: TimeTable, before: number): Promise<number> {
  const { rows } = await sql<{ end: number | null }>`
    select max(range_end) as "end" from timescaledb_information.chunks
    where hypertable_schema = 'market' and hypertable_name = ${name}
      and range_end <= ${new Date(before)}::timestamptz`.execute(db)
  return rows[0]?.end ?? 0
}
