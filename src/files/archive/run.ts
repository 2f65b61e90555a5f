import { sql } from 'kysely'
import { intervalMs } from '../../market/candle.js'
import { dayMs, hourMs, sum } from '../../market/values.js'
import type { RecorderDatabase } from '../../db/database.js'
import { archiveDay, type DueDay } from './archiveDay.js'
import {
  listDays,
  type Manifest,
  type ManifestColumn,
  type ManifestPlace,
  proofDigest,
  readManifest,
} from './manifest.js'
import { readProof } from './proof.js'
import { type Snapshot, symbolsOfDay, withSnapshot } from './rows.js'
import { type ArchivedDay, noteArchivedDay, readArchivedDays, withArchiveLock } from './state.js'
import {
  archivedTable,
  type ArchivedTable,
  type Day,
  dayEnd,
  dayOf,
  daysBetween,
  dayStart,
  firstTime,
  lastTime,
} from './tables.js'
import { type ArchiveTarget, DamagedArchive, explainFullDisk } from './target.js'

interface ArchiveRequest {
  readonly tables: readonly string[]
  /** Hours from the end of a day until it counts as settled. */
  readonly afterHours: number
  /** True to report due days without archiving them. Default false. */
  readonly isDryRun?: boolean
}

/** Days of an archived table whose files have too few digits for the decimals of other days. */
export interface NarrowDays {
  readonly table: string
  readonly days: readonly Day[]
  /** Columns with enough digits for the values of all days. */
  readonly columns: readonly ManifestColumn[]
}

export interface Published {
  /** Days that have to be written again before their tables can be published. */
  readonly narrow: readonly NarrowDays[]
  /** Why tables were not published, one line each. */
  readonly problems: readonly string[]
}

interface ArchiveOptions {
  /**
   * Publishes the archive as tables for other engines. A run that fails leaves that to the next one, which publishes
   * whatever is archived by then.
   *
   * @param folder local folder for files that are being written
   */
  readonly publish?: ((folder: string) => Promise<Published>) | undefined
  readonly now: () => number
  /** Version of the program. */
  readonly recorder: string
  readonly signal?: AbortSignal | undefined
  readonly onProgress?: (progress: { readonly table: string; readonly day: Day; readonly rows: number }) => void
}

interface WrittenDay extends ManifestPlace {
  readonly rows: number
  readonly bytes: number
  readonly files: number
}

interface ArchiveResult {
  readonly written: readonly WrittenDay[]
  /** Days that are new or have changed. */
  readonly due: readonly { readonly table: string; readonly day: Day }[]
  /** Why due days could not be written, one line each. Their former versions are damaged. */
  readonly problems: readonly string[]
}

/**
 * Archives every settled day that is new or has changed. Continues where an earlier call ended or was killed. Throws if
 * another archiver of this database is running, or if a day cannot be written.
 */
export async function runArchive(
  database: RecorderDatabase,
  target: ArchiveTarget,
  request: ArchiveRequest,
  options: ArchiveOptions,
): Promise<ArchiveResult> {
  return withArchiveLock(database.db, async () => {
    const context = await openContext(database, target, options)
    const run = new ArchiveRun(context, request.isDryRun === true, options)
    const settledAt = options.now() - request.afterHours * hourMs
    for (const name of request.tables) {
      const table = archivedTable(name)
      const days = await listDays(target, name)
      const notedDays = await readArchivedDays(database.db, name)
      const newest = await newestManifest(target, name, days)
      const dayBefore = table.timeColumn === undefined ? newest?.digests : undefined
      let columns = newest?.columns ?? []
      for (const day of await daysDue(database, table, days, notedDays, settledAt)) {
        columns = (await run.write({ ...dueDay(table, day, days, notedDays), columns, dayBefore }))?.columns ?? columns
      }
    }
    const { publish } = options
    if (request.isDryRun === true || publish === undefined) return run.result
    const first = await publish(context.folder)
    for (const { table: name, days, columns } of first.narrow) {
      const versions = await listDays(target, name)
      const notedDays = await readArchivedDays(database.db, name)
      for (const day of days)
        await run.write({ ...dueDay(archivedTable(name), day, versions, notedDays), columns, isReshaped: true })
    }
    run.result.problems.push(...(first.narrow.length === 0 ? first : await publish(context.folder)).problems)
    return run.result
  })
}

const longestCandleMs = Math.max(...Object.values(intervalMs))

/** Collects what is known of a day. */
function dueDay(
  table: ArchivedTable,
  day: Day,
  versions: ReadonlyMap<Day, readonly number[]>,
  notedDays: ReadonlyMap<Day, ArchivedDay>,
): Omit<DueDay, 'columns'> {
  const since = dayOf(dayStart(day) - longestCandleMs)
  const isReached =
    table.name === 'candles' &&
    [...notedDays].some(([other, { isRemoved }]) => isRemoved && other >= since && other < day)
  return { table, day, versions: versions.get(day) ?? [], noted: notedDays.get(day), isReached }
}

/** Writes days one after the other. */
class ArchiveRun {
  readonly result = { written: [] as WrittenDay[], due: [] as { table: string; day: Day }[], problems: [] as string[] }

  constructor(
    private readonly context: Awaited<ReturnType<typeof openContext>>,
    private readonly isDryRun: boolean,
    private readonly options: ArchiveOptions,
  ) {}

  /** Resolves to the new version of a day; null if there is none. */
  async write(due: DueDay): Promise<Manifest | null> {
    const { day } = due
    const table = due.table.name
    const { signal, onProgress } = this.options
    signal?.throwIfAborted()
    this.result.due.push({ table, day })
    if (this.isDryRun) return null
    const onRows = (rows: number) => {
      onProgress?.({ table, day, rows })
      signal?.throwIfAborted()
    }
    onRows(0)
    try {
      const current = await archiveDay({ ...this.context, onRows }, due)
      if (current === null) return null
      await noteArchivedDay(this.context.database.db, current)
      if (!current.isNew) return null
      this.result.written.push(describe(current.manifest))
      return current.manifest
    } catch (error) {
      // A damaged day does not affect other days.
      if (!(error instanceof DamagedArchive)) throw explainFullDisk(error, this.context.folder)
      this.result.problems.push(error.message)
      return null
    }
  }
}

function describe({ table, day, version, rows, files }: Manifest): WrittenDay {
  const bytes = sum(files.map((file) => file.bytes))
  return { table, day, version, rows, bytes, files: files.length }
}

/** Reads the newest readable manifest. Its sizes of decimals are only a hint. */
async function newestManifest(target: ArchiveTarget, table: string, days: ReadonlyMap<Day, readonly number[]>) {
  for (const [day, versions] of [...days].toReversed()) {
    try {
      return await readManifest(target, { table, day, version: versions.at(-1) ?? 0 })
    } catch (error) {
      if (!(error instanceof DamagedArchive)) throw error
    }
  }
  return undefined
}

async function openContext(
  database: RecorderDatabase,
  target: ArchiveTarget,
  { now, recorder, signal }: ArchiveOptions,
) {
  const { rows } = await sql<{ name: string }>`
    select name from recorder.migration order by name desc limit 1`.execute(database.db)
  return {
    database,
    target,
    folder: await target.stagingFolder(),
    schema: rows[0]?.name ?? '',
    recorder,
    now,
    signal,
  }
}

/** Finds settled days that are not archived, or that differ from the database. */
async function daysDue(
  database: RecorderDatabase,
  table: ArchivedTable,
  versions: ReadonlyMap<Day, readonly number[]>,
  notedDays: ReadonlyMap<Day, ArchivedDay>,
  settledAt: number,
): Promise<Day[]> {
  if (table.timeColumn === undefined) {
    const newest = [...versions.keys()].at(-1)
    // Only the newest day of such a table is read, so only that one is written again when it is damaged.
    if (newest !== undefined && notedDays.get(newest)?.proofDigest === '') return [newest]
    const day = dayOf(settledAt - dayMs)
    return versions.has(day) ? [] : [day]
  }
  const first = await firstTime(database.db, table)
  const last = await lastTime(database.db, table)
  if (first === null || last === null) return []
  // Days after the last row and the last proof need no check, however many there are.
  const until = Math.min(settledAt, dayEnd(dayOf(last)))
  const due: Day[] = []
  for (const day of daysBetween(first, until)) {
    const noted = notedDays.get(day)
    const version = versions.get(day)?.at(-1)
    const differs = async (snapshot: Snapshot) => {
      const isAsNoted = noted !== undefined && noted.version === version
      if (isAsNoted && proofDigest(await readProof(snapshot, table, day)) === noted.proofDigest) return false
      if (noted === undefined ? version === undefined : !noted.isRemoved) return true
      // A day removed for its age keeps only gaps that extend beyond it. Such gaps alone do not make it due.
      return (await symbolsOfDay(snapshot, table, day)).size > 0
    }
    if (await withSnapshot(database, differs, { table })) due.push(day)
  }
  return due
}
