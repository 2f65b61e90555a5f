import { sql } from 'kysely'
import { dayMs } from '../../market/values.js'
import type { RecorderDatabase } from '../../db/database.js'
import { loadZstd } from '../parquet/zstd.js'
import { hasHypertables } from '../../server/timescale/server.js'
import { type TimeTable, timeTables } from '../../db/timeTables.js'
import { compareWithDatabase } from './compare.js'
import { firstTime } from './timeBounds.js'
import { withArchiveLock } from './lock.js'
import type { Manifest } from './manifest.js'
import { listDays, readManifest } from './manifests.js'
import { readBack } from './readBack.js'
import { dropIfSame, forget, removeIfEqual } from './removeRows.js'
import { symbolsOfDay } from './rows.js'
import { withSnapshot } from './snapshot.js'
import { forgetArchivedDay, noteRemoved } from './state.js'
import { archivedTable, type Day, dayEnd, dayOf, daysBetween } from './tables.js'
import type { ArchiveTarget } from './target.js'

export interface RemovalRequest {
  /** Of schema market, with the age at which their rows are removed, days. */
  readonly tables: readonly { readonly name: string; readonly retentionDays: number }[]
}

export interface RemovalResult {
  /** One line a table. */
  readonly removed: readonly string[]
  /** The oldest day of each table that is past its age and has to stay, and why. */
  readonly kept: readonly { readonly table: string; readonly day: Day; readonly reason: string }[]
}

/**
 * Removes rows that are older than the configuration keeps, day by day from the oldest, as long as each day is in the archive:
 * its files are what was written, and their rows those of the database at this moment, all of them. The first day that is not
 * stays, with all after it.
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
      // A chunk goes as a whole: of days in one that is not over yet nothing is gained by reading them.
      const until = isHypertable ? await lastChunkEnd(database, table, cutoff) : cutoff
      const days = daysBetween(first, until)
      const { what, end, stays } = await removeSafeDays(database, target, table, { days, isHypertable, ...options })
      if (what !== null && end !== null) removed.push(`removed ${what} of market.${name} from before ${dayOf(end)}`)
      if (stays === null) continue
      kept.push({ table: name, ...stays })
      // Otherwise the day would count as archived, and stay for ever.
      if (stays.isDifferent) await forgetArchivedDay(database.db, name, stays.day)
    }
    return { removed, kept: kept.map(({ table, day, reason }) => ({ table, day, reason })) }
  })
}

interface Kept {
  readonly day: Day
  readonly reason: string
  /** Whether the archive has something else than the database. */
  readonly isDifferent: boolean
}

interface Removed {
  /** As it is told; null when there was nothing. */
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
  const versions = (await listDays(target, name)).get(name)
  const compression = await loadZstd()
  const { days, signal, isHypertable } = range
  const onRows = () => signal?.throwIfAborted()
  const equal: Manifest[] = []
  let stays: Kept | null = null
  let end: number | null = null
  for (const day of days) {
    signal?.throwIfAborted()
    stays = await whyNot(day)
    if (stays !== null) break
    end = dayEnd(day)
    if (!isHypertable) await noteRemoved(database.db, name, dayOf(end))
  }
  if (!isHypertable || end === null) {
    const rows = equal.reduce((sum, manifest) => sum + manifest.rows, 0)
    return { what: rows === 0 ? null : `${rows} ${rows === 1 ? 'row' : 'rows'}`, end, stays }
  }
  const { chunks, changed } = await dropIfSame(database, name, end, equal)
  if (changed !== null) {
    const reason = 'rows came to it while days were compared'
    return { what: null, end: null, stays: { day: changed, reason, isDifferent: true } }
  }
  await noteRemoved(database.db, name, dayOf(end))
  return { what: chunks === 0 ? null : `${chunks} ${chunks === 1 ? 'chunk' : 'chunks'}`, end, stays }

  /** Of a plain table its rows are gone, too, when there is no reason against it. */
  async function whyNot(day: Day): Promise<Kept | null> {
    const version = versions?.get(day)?.at(-1)
    if (version === undefined) {
      const symbols = await withSnapshot(database, (snapshot) =>
        symbolsOfDay(snapshot, archivedTable(name), day, isHypertable),
      )
      if (symbols.size > 0) return { day, reason: 'it is not in the archive', isDifferent: false }
      if (!isHypertable) await forget(database, name, dayEnd(day))
      return null
    }
    const manifest = await readManifest(target, name, day, version)
    const problems = await readBack(target, manifest, { compression, withRows: false })
    if (problems.length > 0) return { day, reason: problems.join('; '), isDifferent: false }
    const compared = isHypertable
      ? await withSnapshot(database, (snapshot) => compareWithDatabase(snapshot, manifest, true, onRows))
      : await removeIfEqual(database, manifest, onRows)
    if (typeof compared === 'object') {
      return { day, reason: `the archive has something else: ${compared.difference}`, isDifferent: true }
    }
    if (compared === 'equal') equal.push(manifest)
    return null
  }
}

/** Of the chunks that are wholly before a time, the end of the newest; the beginning of time when there is none. */
async function lastChunkEnd({ db }: RecorderDatabase, { name }: TimeTable, before: number): Promise<number> {
  const { rows } = await sql<{ end: number | null }>`
    select max(range_end) as "end" from timescaledb_information.chunks
    where hypertable_schema = 'market' and hypertable_name = ${name}
      and range_end <= ${new Date(before)}::timestamptz`.execute(db)
  return rows[0]?.end ?? 0
}
