import { sql } from 'kysely'
import { dayMs, hourMs } from '../../market/values.js'
import type { RecorderDatabase } from '../../db/database.js'
import { loadZstd } from '../parquet/zstd.js'
import { hasHypertables } from '../../server/timescale/server.js'
import { archiveDay, type ArchiveContext } from './archiveDay.js'
import { explainFullDisk } from './fullDisk.js'
import { withArchiveLock } from './lock.js'
import { firstTime, lastTime } from './timeBounds.js'
import { proofDigest } from './manifest.js'
import { listDays, readManifest } from './manifests.js'
import { readProof } from './proof.js'
import { symbolsOfDay } from './rows.js'
import { withSnapshot } from './snapshot.js'
import { readArchivedDays } from './state.js'
import { archivedTable, type ArchivedTable, type Day, dayEnd, dayOf, daysBetween } from './tables.js'
import type { ArchiveTarget } from './target.js'

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
  /** Of a dry run: days that are new or have changed. */
  readonly due: readonly { readonly table: string; readonly day: Day }[]
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
    const written: WrittenDay[] = []
    const due: { table: string; day: Day }[] = []
    const context = await openContext(database, target, options)
    for (const name of request.tables) {
      const table = archivedTable(name)
      const versions = (await listDays(target, name)).get(name) ?? new Map<Day, readonly number[]>()
      const newest = [...versions.keys()].toSorted().at(-1)
      const newestManifest =
        newest === undefined ? undefined : await readManifest(target, name, newest, versions.get(newest)?.at(-1) ?? 0)
      let known = newestManifest?.columns ?? []
      const isWhole = table.timeColumn === undefined
      for (const day of await daysDue(context, table, versions, options.now() - request.afterHours * hourMs)) {
        options.signal?.throwIfAborted()
        due.push({ table: name, day })
        if (request.isDryRun === true) continue
        options.onProgress?.({ table: name, day, rows: 0 })
        const onRows = (rows: number) => {
          options.onProgress?.({ table: name, day, rows })
          options.signal?.throwIfAborted()
        }
        const former = isWhole ? newestManifest?.digests : undefined
        const manifest = await archiveDay(
          { ...context, onRows },
          table,
          day,
          versions.get(day) ?? [],
          known,
          former,
        ).catch((error: unknown) => {
          throw explainFullDisk(error, context.folder)
        })
        if (manifest === null) continue
        known = manifest.columns
        const { version, rows, files } = manifest
        const bytes = files.reduce((sum, file) => sum + file.bytes, 0)
        const one = { table: name, day, version, rows, bytes, files: files.length }
        written.push(one)
        options.onDay?.(one)
      }
    }
    return { written, due }
  })
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
  settledAt: number,
): Promise<Day[]> {
  if (table.timeColumn === undefined) {
    const day = dayOf(settledAt - dayMs)
    return versions.has(day) ? [] : [day]
  }
  const { database, target } = context
  const first = await firstTime(context, table)
  const last = await lastTime(context, table)
  if (first === null || last === null) return []
  // Beyond that there is nothing, on as many days as there may be.
  const until = Math.min(settledAt, dayEnd(dayOf(last)))
  const known = await readArchivedDays(database.db, table.name)
  const due: Day[] = []
  for (const day of daysBetween(first, until)) {
    const version = versions.get(day)?.at(-1)
    if (version === undefined) {
      due.push(day)
      continue
    }
    const state = known.get(day)
    const digest =
      state?.version === version
        ? state.proofDigest
        : (await readManifest(target, table.name, day, version)).proofSha256
    const isDue = await withSnapshot(database, async (snapshot) => {
      const proof = await readProof(snapshot, table, day)
      if (proofDigest(proof) === digest && state?.version === version) return false
      // Of a day that was removed for its age nothing is left here but gaps that reach beyond it.
      return (await symbolsOfDay(snapshot, table, day, context.isHypertable)).size > 0
    })
    if (isDue) due.push(day)
  }
  return due
}
