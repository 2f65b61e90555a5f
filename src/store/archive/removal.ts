import { sql } from 'kysely'
import { dayMs } from '../../market/values.js'
import type { RecorderDatabase } from '../db/database.js'
import { loadZstd } from '../parquet/zstd.js'
import { removeBefore } from '../timescale/retention.js'
import { detectServer } from '../timescale/server.js'
import { type TimeTable, timeTables } from '../timescale/settings.js'
import { compareWithDatabase } from './compare.js'
import { firstTime } from './timeBounds.js'
import { withArchiveLock } from './lock.js'
import type { Manifest } from './manifest.js'
import { listDays, readManifest } from './manifests.js'
import { readBack } from './readBack.js'
import { rowsOfDay, symbolsOfDay } from './rows.js'
import { withSnapshot } from './snapshot.js'
import { noteRemoved } from './state.js'
import { archivedTable, type Day, dayEnd, dayOf, daysBetween, dayStart } from './tables.js'
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
    const kept: { table: string; day: Day; reason: string }[] = []
    const isHypertable = (await detectServer(database.db)).kind !== 'postgresql'
    for (const { name, retentionDays } of tables) {
      const table = timeTables.find((one) => one.name === name)
      const first = table && (await firstTime({ database, isHypertable }, archivedTable(name)))
      if (table === undefined || first === null || first === undefined) continue
      const cutoff = options.now() - retentionDays * dayMs
      // A chunk goes as a whole: of days in one that is not over yet nothing is gained by reading them.
      const until = isHypertable ? await lastChunkEnd(database, table, cutoff) : cutoff
      const remove = async (end: number) => {
        const what = await removeBefore(database.db, table, new Date(end), options.signal)
        await noteRemoved(database.db, name, dayOf(end))
        if (what !== undefined) removed.push(`removed ${what} of market.${name} from before ${dayOf(end)}`)
      }
      const stays = await removeSafeDays(database, target, table, { first, until, isHypertable, remove, ...options })
      if (stays !== null) kept.push({ table: name, ...stays })
    }
    return { removed, kept }
  })
}

/** Removes the days that are safe in the archive. Resolves to the first one that is not; null when all of them are. */
async function removeSafeDays(
  database: RecorderDatabase,
  target: ArchiveTarget,
  { name }: TimeTable,
  range: {
    readonly first: number
    readonly until: number
    readonly isHypertable: boolean
    readonly remove: (end: number) => Promise<void>
    readonly signal?: AbortSignal
  },
): Promise<{ readonly day: Day; readonly reason: string } | null> {
  const versions = (await listDays(target, name)).get(name)
  const compression = await loadZstd()
  const { signal, isHypertable, remove } = range
  const onRows = () => signal?.throwIfAborted()
  const verified: Manifest[] = []
  let end: number | null = null
  for (const day of daysBetween(range.first, range.until)) {
    signal?.throwIfAborted()
    const reason = await whyNot(day)
    if (reason !== null) {
      await removeChunks()
      return { day, reason }
    }
    end = dayEnd(day)
    // At once: the less time since its rows were read, the less can have come to them.
    if (!isHypertable) await remove(end)
  }
  await removeChunks()
  return null

  async function whyNot(day: Day): Promise<string | null> {
    const version = versions?.get(day)?.at(-1)
    if (version === undefined) {
      const symbols = await withSnapshot(database, (snapshot) =>
        symbolsOfDay(snapshot, archivedTable(name), day, isHypertable),
      )
      return symbols.size === 0 ? null : 'it is not in the archive'
    }
    const manifest = await readManifest(target, name, day, version)
    const problems = await readBack(target, manifest, { compression, withRows: false })
    if (problems.length > 0) return problems.join('; ')
    const compared = await withSnapshot(database, (snapshot) =>
      compareWithDatabase(snapshot, manifest, isHypertable, onRows),
    )
    if (typeof compared === 'object') return `the archive has something else: ${compared.difference}`
    if (compared === 'equal') verified.push(manifest)
    return null
  }

  /** The first days of a chunk were read a while ago: as many rows must be there still. */
  async function removeChunks(): Promise<void> {
    if (!isHypertable || end === null) return
    for (const { day, rows } of verified) {
      const { sql: from, parameters } = rowsOfDay(archivedTable(name), day)
      const [[count = null] = []] = await withSnapshot(database, (snapshot) =>
        snapshot.query(`select count(*) from ${from}`, parameters),
      )
      if (Number(count) !== rows) end = Math.min(end, dayStart(day))
    }
    await remove(end)
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
