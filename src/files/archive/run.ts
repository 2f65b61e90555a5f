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
import { symbolsOfDay, withSnapshot } from './rows.js'
import { type ArchivedDay, noteArchivedDay, type NotedDay, readArchivedDays, withArchiveLock } from './state.js'
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

/**
 * Publishes the archive as tables for other engines, and records days in the same transaction. Resolves to days that
 * must first be written again with other columns, and to reasons why tables were not published.
 *
 * @param folder local folder for files that are being written
 */
type PublishArchive = (folder: string, noted: readonly NotedDay[]) => Promise<Published>

interface Published {
  readonly narrow: readonly {
    readonly table: string
    readonly days: readonly Day[]
    readonly columns: readonly ManifestColumn[]
  }[]
  readonly problems: readonly string[]
}

interface ArchiveOptions {
  /** Publishes archived days as tables. Without it, days are only recorded in the database. */
  readonly publish?: PublishArchive | undefined
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
    const run = new ArchiveRun(await openContext(database, target, options), request.isDryRun === true, options)
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
    if (request.isDryRun === true) return run.result
    const first = await run.publish()
    for (const { table: name, days, columns } of first.narrow) {
      const versions = await listDays(target, name)
      const notedDays = await readArchivedDays(database.db, name)
      for (const day of days)
        await run.write({ ...dueDay(archivedTable(name), day, versions, notedDays), columns, isReshaped: true })
    }
    run.result.problems.push(...(first.narrow.length === 0 ? first : await run.publish()).problems)
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

/** Writes days one after the other, and publishes those that are written. */
class ArchiveRun {
  readonly result = { written: [] as WrittenDay[], due: [] as { table: string; day: Day }[], problems: [] as string[] }
  #noted: NotedDay[] = []

  constructor(
    private readonly context: Awaited<ReturnType<typeof openContext>>,
    private readonly isDryRun: boolean,
    private readonly options: ArchiveOptions,
  ) {}

  /** Resolves to the new version of a day; null if there is none. */
  async write(due: DueDay): Promise<Manifest | null> {
    const { day } = due
    const table = due.table.name
    const { signal, onProgress, publish } = this.options
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
      this.#noted.push(noteOf(current))
      if (current.isNew) this.result.written.push(describe(current.manifest))
      if (publish === undefined || isFull(this.#noted)) await this.publish()
      return current.isNew ? current.manifest : null
    } catch (error) {
      // A damaged day does not affect other days.
      if (!(error instanceof DamagedArchive)) throw explainFullDisk(error, this.context.folder)
      this.result.problems.push(error.message)
      return null
    }
  }

  /** Publishes the days that are noted. Without tables to publish, it only records them in the database. */
  async publish(): Promise<Published> {
    const noted = this.#noted
    this.#noted = []
    const { publish } = this.options
    if (publish !== undefined) return publish(this.context.folder, noted)
    for (const day of noted) await noteArchivedDay(this.context.database.db, day)
    return { narrow: [], problems: [] }
  }
}

/** Days are recorded together when they are published. A killed run must check up to this many days and rows again. */
const fullAt = { days: 30, rows: 1_000_000 } as const

function isFull(noted: readonly NotedDay[]): boolean {
  const rows = sum(noted.map(({ manifest }) => manifest.rows))
  return noted.length >= fullAt.days || rows >= fullAt.rows
}

/** Keeps what is recorded of a day. A whole manifest takes memory. */
function noteOf({ manifest: { table, day, version, rows, sha256 }, proofDigest: proven }: NotedDay): NotedDay {
  return { manifest: { table, day, version, rows, sha256 }, proofDigest: proven }
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
    const isDue = await withSnapshot(database, async (snapshot) => {
      const isAsNoted = noted !== undefined && noted.version === version
      if (isAsNoted && proofDigest(await readProof(snapshot, table, day)) === noted.proofDigest) return false
      if (noted === undefined ? version === undefined : !noted.isRemoved) return true
      // A day removed for its age keeps only gaps that extend beyond it. Such gaps alone do not make it due.
      return (await symbolsOfDay(snapshot, table, day)).size > 0
    })
    if (isDue) due.push(day)
  }
  return due
}
