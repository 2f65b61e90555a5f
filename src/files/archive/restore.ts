import type { RecorderDatabase } from '../../db/database.js'
import { loadZstd } from '../parquet/zstd.js'
import { withArchiveLock } from './lock.js'
import { listDays, readManifest } from './manifests.js'
import { restoreDay } from './restoreDay.js'
import { noteArchivedDay } from './state.js'
import { archivedTable, type Day } from './tables.js'
import type { ArchiveTarget } from './target.js'

export interface RestoreRequest {
  readonly tables: readonly string[]
  /** Half-open, by day; default: everything. Of tables that are kept as a whole the newest day before `to` is restored. */
  readonly from?: Day | undefined
  readonly to?: Day | undefined
}

export interface RestoredDay {
  readonly table: string
  readonly day: Day
  readonly version: number
  /** In the archive. */
  readonly rows: number
  /** Of these, what the database did not have. */
  readonly inserted: number
}

export interface RestoreArchiveOptions {
  readonly signal?: AbortSignal
  readonly onDay?: (day: RestoredDay) => void
}

/** Brings days back into the database, with what is proven of them. What is there already stays: a second call changes nothing. */
export async function restoreArchive(
  database: RecorderDatabase,
  target: ArchiveTarget,
  request: RestoreRequest,
  options: RestoreArchiveOptions = {},
): Promise<RestoredDay[]> {
  return withArchiveLock(database.db, () => restoreDays(database, target, request, options))
}

async function restoreDays(
  database: RecorderDatabase,
  target: ArchiveTarget,
  { tables, from, to }: RestoreRequest,
  options: RestoreArchiveOptions,
): Promise<RestoredDay[]> {
  const compression = await loadZstd()
  const onRows = () => options.signal?.throwIfAborted()
  const restored: RestoredDay[] = []
  const days = await listDays(target)
  for (const table of tables) {
    const sorted = [...(days.get(table) ?? [])].toSorted(([a], [b]) => (a < b ? -1 : 1))
    const before = sorted.filter(([day]) => to === undefined || day < to)
    const isWhole = archivedTable(table).timeColumn === undefined
    const wanted = isWhole ? before.slice(-1) : before.filter(([day]) => from === undefined || day >= from)
    for (const [day, versions] of wanted) {
      const version = versions.at(-1) ?? 0
      const manifest = await readManifest(target, table, day, version)
      const inserted = await restoreDay(database, target, manifest, { compression, onRows })
      await noteArchivedDay(database.db, manifest)
      const one = { table, day, version, rows: manifest.rows, inserted }
      restored.push(one)
      options.onDay?.(one)
    }
  }
  return restored
}
