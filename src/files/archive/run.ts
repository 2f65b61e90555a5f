import { sql } from 'kysely'
import { dayMs, hourMs } from '../../market/values.js'
import type { RecorderDatabase } from '../../db/database.js'
import { loadZstd } from '../parquet/zstd.js'
import { hasHypertables } from '../../server/timescale/server.js'
import { archiveDay, type ArchiveContext } from './archiveDay.js'
import { listTableDays, type Manifest, proofDigest, readManifest } from './manifest.js'
import { readProof } from './proof.js'
import { symbolsOfDay, withSnapshot } from './rows.js'
import { type ArchivedDay, readArchivedDays, withArchiveLock } from './state.js'
import { archivedTable, type ArchivedTable, type Day, dayEnd, dayOf, daysBetween } from './tables.js'
import { type ArchiveTarget, DamagedArchive, explainFullDisk } from './target.js'
import { firstTime, lastTime } from './timeBounds.js'

export interface ArchiveRequest {
  readonly tables: readonly string[]
  /** How long after its end a day is settled, hours. */
  readonly afterHours: number
  /** Only say which days are due. Default false. */
  readonly isDryRun?: boolean
}

export interface ArchiveOptions {
  readonly now: () => number
  /** Version of the program. */
  readonly recorder: string
  readonly signal?: AbortSignal
  readonly onProgress?: (progress: { readonly table: string; readonly day: Day; readonly rows: number }) => void
  readonly onDay?: (written: WrittenDay) => void
}

export interface WrittenDay {
  readonly table: string
  readonly day: Day
  readonly version: number
  readonly rows: number
  readonly bytes: number
  readonly files: number
}

export interface ArchiveResult {
  readonly written: readonly WrittenDay[]
  /** Days that are new or have changed. */
  readonly due: readonly { readonly table: string; readonly day: Day }[]
  /** Why days that are due could not be written, one line each: what the archive had of them is damaged. */
  readonly problems: readonly string[]
}

/**
 * Writes every settled day that is not in the archive yet, or has changed since. Goes on where an earlier call was ended, in
 * whatever way. Throws when another archiver of this database is at work, and when a day cannot be written.
 */
export async function runArchive(
  database: RecorderDatabase,
  target: ArchiveTarget,
  request: ArchiveRequest,
  options: ArchiveOptions,
): Promise<ArchiveResult> {
  return withArchiveLock(database.db, async () => {
    const result = { written: [] as WrittenDay[], due: [] as { table: string; day: Day }[], problems: [] as string[] }
    const context = await openContext(database, target, options)
    for (const name of request.tables) {
      const table = archivedTable(name)
      const versions = await listTableDays(target, name)
      const known = await readArchivedDays(database.db, name)
      const newest = await newestManifest(target, name, versions)
      let columns = newest?.columns ?? []
      for (const day of await daysDue(context, table, versions, known, options.now() - request.afterHours * hourMs)) {
        options.signal?.throwIfAborted()
        result.due.push({ table: name, day })
        if (request.isDryRun === true) continue
        const onRows = (rows: number) => {
          options.onProgress?.({ table: name, day, rows })
          options.signal?.throwIfAborted()
        }
        onRows(0)
        const due = {
          table,
          day,
          columns,
          versions: versions.get(day) ?? [],
          known: known.get(day),
          dayBefore: table.timeColumn === undefined ? newest?.digests : undefined,
        }
        try {
          const manifest = await archiveDay({ ...context, onRows }, due)
          if (manifest === null) continue
          columns = manifest.columns
          const one = describe(manifest)
          result.written.push(one)
          options.onDay?.(one)
        } catch (error) {
          // A damaged day does not affect other days.
          if (!(error instanceof DamagedArchive)) throw explainFullDisk(error, context.folder)
          result.problems.push(error.message)
        }
      }
    }
    return result
  })
}

function describe({ table, day, version, rows, files }: Manifest): WrittenDay {
  const bytes = files.reduce((sum, file) => sum + file.bytes, 0)
  return { table, day, version, rows, bytes, files: files.length }
}

/** Reads the newest readable manifest. Its sizes of decimals are only a hint. */
async function newestManifest(target: ArchiveTarget, table: string, days: ReadonlyMap<Day, readonly number[]>) {
  for (const [day, versions] of [...days].toReversed()) {
    try {
      return await readManifest(target, table, day, versions.at(-1) ?? 0)
    } catch (error) {
      if (!(error instanceof DamagedArchive)) throw error
    }
  }
  return undefined
}

async function openContext(
  database: RecorderDatabase,
  target: ArchiveTarget,
  { now, recorder }: Pick<ArchiveOptions, 'now' | 'recorder'>,
): Promise<ArchiveContext> {
  const { rows } = await sql<{ name: string }>`
    select name from recorder.migration order by name desc limit 1`.execute(database.db)
  return {
    database,
    target,
    folder: await target.stagingFolder(),
    compression: await loadZstd(),
    isHypertable: await hasHypertables(database.db),
    schema: rows[0]?.name ?? '',
    recorder,
    now,
  }
}

/** The settled days of which the archive has nothing, or something else than the database has now. */
async function daysDue(
  context: ArchiveContext,
  table: ArchivedTable,
  versions: ReadonlyMap<Day, readonly number[]>,
  known: ReadonlyMap<Day, ArchivedDay>,
  settledAt: number,
): Promise<Day[]> {
  if (table.timeColumn === undefined) {
    const day = dayOf(settledAt - dayMs)
    return versions.has(day) ? [] : [day]
  }
  const first = await firstTime(context, table)
  const last = await lastTime(context, table)
  if (first === null || last === null) return []
  // Days after the last row need no check, however many there are.
  const until = Math.min(settledAt, dayEnd(dayOf(last)))
  const due: Day[] = []
  for (const day of daysBetween(first, until)) {
    const state = known.get(day)
    const version = versions.get(day)?.at(-1)
    const isDue = await withSnapshot(context.database, async (snapshot) => {
      const isAsNoted = state !== undefined && state.version === version
      if (isAsNoted && proofDigest(await readProof(snapshot, table, day)) === state.proofDigest) return false
      if (version === undefined && state?.isRemoved !== true) return true
      // A day removed for its age keeps only gaps that extend beyond it. Such gaps alone do not make it due.
      return (await symbolsOfDay(snapshot, table, day, context.isHypertable)).size > 0
    })
    if (isDue) due.push(day)
  }
  return due
}
