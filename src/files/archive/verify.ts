import type { RecorderDatabase } from '../../db/database.js'
import { marketTables } from '../../market/stream.js'
import { type ArchiveReader, checkDay } from './checkDay.js'
import { listDays, type ManifestPlace, manifestPath, readManifest } from './manifest.js'
import { type Snapshot, withSnapshot } from './rows.js'
import { type ArchivedDay, markDayDue, readArchivedDays, whyForeign } from './state.js'
import { archivedTable, type Day, type DayRange, isInRange } from './tables.js'
import { type ArchiveTarget, DamagedArchive } from './target.js'

export interface VerifiedDay extends ManifestPlace {
  readonly rows: number
  /** Null if there is no database to compare with, or if it has only a part of the day. */
  readonly isEqual: boolean | null
  readonly problems: readonly string[]
}

interface VerifyOptions extends DayRange {
  readonly tables?: readonly string[] | undefined
  /** Database to compare with. Without it, a day that is missing as a whole is not noticed. */
  readonly database?: RecorderDatabase | undefined
  readonly signal?: AbortSignal | undefined
}

/** Instructions for repairing a day. */
const advice = {
  writeAnew: 'the next market-recorder archive writes the day anew',
  copy: 'its rows have left the database: bring the day back from a copy of the archive',
  prune: 'archive prune removes this former version',
  ask: 'archive verify without --offline says whether market-recorder archive can write the day anew',
} as const

/**
 * Reads every file of every version and compares it with its manifest, row by row. Compares the newest version with the
 * database: its list of archived days, and the rows that it still has. A damaged or different day becomes due again.
 * Yields one result per day, and one for each file that belongs to no manifest.
 */
export async function* verifyArchive(target: ArchiveTarget, options: VerifyOptions = {}): AsyncIterable<VerifiedDay> {
  const { database, tables = marketTables } = options
  const reader = { target, signal: options.signal }
  for (const table of tables) {
    const notedDays = database === undefined ? new Map<Day, ArchivedDay>() : await readArchivedDays(database.db, table)
    const archived = await listDays(target, table)
    const named = new Set<string>()
    const isWhole = archivedTable(table).timeColumn === undefined
    const last = [...archived.keys()].at(-1)
    for (const day of [...new Set([...archived.keys(), ...notedDays.keys()])].toSorted()) {
      if (!isInRange(day, options)) continue
      const noted = notedDays.get(day)
      const versions = archived.get(day) ?? []
      for (const version of versions.slice(0, -1)) {
        const former = await verifyVersion(reader, { table, day, version }, named)
        yield withAdvice(former, advice.prune)
      }
      const version = versions.at(-1)
      const newest =
        version === undefined
          ? { table, day, version: 0, rows: 0, isEqual: null, problems: ['it was archived, and it is gone'] }
          : await verifyVersion(reader, { table, day, version }, named, {
              noted,
              database,
            })
      if (newest.problems.length === 0) yield newest
      else {
        // Marks the day as due here. Rows from a spool may change it without its proof, so no run would notice.
        if (database !== undefined) await markDayDue(database.db, table, day)
        // Of a table that is archived whole, the database has only the newest day.
        const isGone = isWhole ? day !== last : noted?.isRemoved === true && newest.isEqual !== false
        const next = database === undefined ? advice.ask : isGone ? advice.copy : advice.writeAnew
        yield withAdvice(newest, next)
      }
    }
    // Files can be matched with manifests only if the manifests of all days were read.
    if (options.from !== undefined || options.to !== undefined) continue
    for (const { path } of await target.list(`table=${table}/`)) {
      const day = /\/day=([\d-]+)\//.exec(path)?.[1]
      if (named.has(path)) continue
      const problems = [`${path} belongs to no manifest: readers of manifests do not see it; archive prune removes it`]
      yield { table, day: day ?? '', version: 0, rows: 0, isEqual: null, problems }
    }
  }
}

/** Adds advice to the last problem of a day, if it has problems. */
function withAdvice(found: VerifiedDay, todo: string): VerifiedDay {
  const last = found.problems.at(-1)
  return last === undefined ? found : { ...found, problems: [...found.problems.slice(0, -1), `${last}; ${todo}`] }
}

/** @param named collects the paths that the manifest names */
async function verifyVersion(
  reader: ArchiveReader,
  place: ManifestPlace,
  named: Set<string>,
  known: { readonly noted?: ArchivedDay | undefined; readonly database?: RecorderDatabase | undefined } = {},
): Promise<VerifiedDay> {
  const problems: string[] = []
  let rows = 0
  let isEqual: boolean | null = null
  try {
    const manifest = await readManifest(reader.target, place)
    rows = manifest.rows
    for (const { path } of manifest.files) named.add(path)
    const foreign = whyForeign(manifest, known.noted)
    if (foreign !== null) problems.push(foreign)
    const isComparing = known.database !== undefined && archivedTable(place.table).timeColumn !== undefined
    if (!isComparing) await checkDay(reader, manifest)
    else {
      const compare = (snapshot: Snapshot) => checkDay(reader, manifest, snapshot)
      const { difference, isPart } = await withSnapshot(known.database, compare, {
        table: archivedTable(place.table),
        signal: reader.signal,
      })
      isEqual = difference === null && isPart ? null : difference === null
      if (difference !== null) problems.push(`not as in the database: ${difference}`)
    }
  } catch (error) {
    if (!(error instanceof DamagedArchive)) throw error
    problems.push(error.message)
  }
  return { ...place, rows, isEqual, problems }
}

interface Pruned {
  /** Number of superseded versions of days. */
  readonly versions: number
  readonly files: number
  readonly bytes: number
}

interface PruneOptions {
  readonly isDryRun?: boolean
  /** Files that published tables need; null if there are no tables. */
  readonly needed?: ReadonlySet<string> | null
  readonly signal?: AbortSignal
}

/**
 * Removes superseded versions of days, and files that neither a manifest nor a table needs. Only one process may call
 * it at a time. A manifest is removed before its files, so that no manifest lacks files. Throws if a newest version is
 * damaged, and then removes nothing.
 */
export async function pruneArchive(
  target: ArchiveTarget,
  { isDryRun = false, needed = null, signal }: PruneOptions = {},
): Promise<Pruned> {
  const named = new Set<string>(needed)
  const former: string[] = []
  for (const table of marketTables) {
    for (const [day, versions] of await listDays(target, table)) {
      for (const version of versions.slice(0, -1)) former.push(manifestPath({ table, day, version }))
      const manifest = await readManifest(target, { table, day, version: versions.at(-1) ?? 0 })
      // The former version may be the only one whose files are whole.
      if (versions.length > 1) await checkDay({ target, signal }, manifest)
      for (const { path } of manifest.files) named.add(path)
    }
  }
  const remove = async (path: string) => {
    signal?.throwIfAborted()
    if (!isDryRun) await target.remove(path)
  }
  for (const path of former) await remove(path)
  let files = 0
  let bytes = 0
  const folders = marketTables.map((table) => `table=${table}/`)
  for (const folder of needed === null ? folders : [...folders, 'iceberg/']) {
    for (const file of await target.list(folder)) {
      if (named.has(file.path)) continue
      files++
      bytes += file.bytes
      await remove(file.path)
    }
  }
  return { versions: former.length, files, bytes }
}
