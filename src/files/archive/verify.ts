import type { RecorderDatabase } from '../../db/database.js'
import { marketTables } from '../../market/stream.js'
import { sum } from '../../market/values.js'
import { groupBy } from '../../runtime/groupBy.js'
import {
  neededFiles,
  type Pointers,
  readPointers,
  type ShownFile,
  shownFiles,
  shownWithProof,
  tablesFolder,
} from '../iceberg/catalog.js'
import { publishedTables, sourceOf } from '../iceberg/tables.js'
import { type ArchiveReader, fileRows } from './file.js'
import { type Snapshot, withSnapshot } from './rows.js'
import { type ArchivedDay, makeDayDue, readArchivedDays } from './state.js'
import {
  archivedTable,
  type ArchivedTable,
  type ArchiveFile,
  type Day,
  dayEnd,
  dayOf,
  type DayRange,
  isInRange,
} from '../layout/tables.js'
import { type ArchiveTarget, DamagedArchive } from '../layout/target.js'
import { stageDay } from './stageDay.js'

export interface VerifiedDay {
  readonly table: string
  readonly day: Day
  readonly rows: number
  /** Null if there is no database to compare with, or if the rows have left it. */
  readonly isEqual: boolean | null
  readonly problems: readonly string[]
}

interface VerifyOptions extends DayRange {
  readonly pointers: Pointers
  readonly tables?: readonly string[] | undefined
  /** Database to compare with. Without it, a day that is missing as a whole is not noticed. */
  readonly database?: RecorderDatabase | undefined
  readonly signal?: AbortSignal | undefined
}

/** Instructions for repairing a day. */
const advice = {
  writeAnew: 'the next market-recorder archive writes the day anew',
  copy: 'its rows have left the database: bring the file back from a copy of the archive',
  ask: 'archive verify without --offline says whether market-recorder archive can write the day anew',
} as const

/**
 * Reads every file that the tables show, and compares it with what it says of itself. With a database, compares the
 * files with those that the database noted, and with the rows that it still has. A damaged or different day becomes due
 * again. A day that an archiver or a recorder writes meanwhile is read again, and one that has changed since it was
 * archived is not compared. Yields one result for each day of a table.
 */
export async function* verifyArchive(target: ArchiveTarget, options: VerifyOptions): AsyncIterable<VerifiedDay> {
  const { database, pointers, tables = marketTables, signal } = options
  const reader = { target, signal }
  const shown: ShownFile[] = []
  for (const table of publishedTables) {
    try {
      shown.push(...(await shownFiles(target, table, pointers, options)))
    } catch (error) {
      if (!(error instanceof DamagedArchive)) throw error
      yield { table: table.name, day: '', rows: 0, isEqual: null, problems: [error.message] }
    }
  }
  for (const table of tables) {
    const noted = database === undefined ? new Map<Day, ArchivedDay>() : await readArchivedDays(database.db, table)
    const isWhole = archivedTable(table).timeColumn === undefined
    // A table that is archived whole has the day on which it was written.
    const written = [...noted.values()].findLast(({ files }) => files.length > 0)?.day ?? ''
    const own = shown.filter((file) => sourceOf(file) === table)
    const found = groupBy(own, (file) => file.day ?? written)
    for (const day of [...new Set([...found.keys(), ...noted.keys()])].toSorted()) {
      const [files, known] = [found.get(day) ?? [], noted.get(day)]
      if (files.length + (known?.files.length ?? 0) === 0 || (!isWhole && !isInRange(day, options))) continue
      yield await verifyDay(reader, { table, day, files, noted: known, pointers, database })
    }
  }
}

interface DayToVerify {
  readonly table: string
  readonly day: Day
  readonly files: readonly ShownFile[]
  readonly noted: ArchivedDay | undefined
  /** By which the files were listed. */
  readonly pointers: Pointers
  readonly database: RecorderDatabase | undefined
}

async function verifyDay(reader: ArchiveReader, one: DayToVerify): Promise<VerifiedDay> {
  const { table, day, files, noted, database } = one
  const { isEqual, problem } = await checkOnce(reader, one)
  const rows = sum(files.filter((file) => file.table === table).map((file) => file.rows))
  if (problem === null) return { table, day, rows, isEqual, problems: [] }
  if (database !== undefined) {
    const written = await writtenMeanwhile(reader, one, database)
    if (written !== null) return verifyDay(reader, written)
    await makeDayDue(database.db, table, day)
  }
  const isFinal = noted?.files.some((file) => file.isFinal) === true
  const next = database === undefined ? advice.ask : isFinal ? advice.copy : advice.writeAnew
  return { table, day, rows, isEqual, problems: [`${problem}; ${next}`] }
}

/** Reads a day as it is now if somebody has written it since it was listed; resolves to null otherwise. */
async function writtenMeanwhile(
  { target }: ArchiveReader,
  one: DayToVerify,
  { db }: RecorderDatabase,
): Promise<DayToVerify | null> {
  const { table, day } = one
  const pointers = await readPointers(db)
  const isMoved = [...pointers].some(([name, url]) => one.pointers.get(name) !== url)
  const noted = (await readArchivedDays(db, table, day)).get(day)
  if (!isMoved) return noted?.isChanged === true && one.noted?.isChanged === false ? { ...one, noted } : null
  const range = archivedTable(table).timeColumn === undefined ? {} : { from: day, to: dayOf(dayEnd(day)) }
  return { ...one, noted, pointers, files: await shownWithProof(target, table, pointers, range) }
}

async function checkOnce(
  reader: ArchiveReader,
  { table, files, noted, database }: DayToVerify,
): Promise<{ isEqual: boolean | null; problem: string | null }> {
  const ofTable = archivedTable(table)
  const known = noted && { ...noted, shown: files }
  let isEqual: boolean | null = null
  try {
    if (database === undefined || known === undefined) await readShown(reader, files)
    else if (known.isChanged || ofTable.timeColumn === undefined) await readDay(reader, known)
    else {
      isEqual = false
      const compare = (snapshot: Snapshot) => checkDay(reader, ofTable, known, snapshot)
      await withSnapshot(database, compare, { table: ofTable, signal: reader.signal })
      isEqual = true
    }
  } catch (error) {
    if (!(error instanceof DamagedArchive)) throw error
    return { isEqual, problem: error.message }
  }
  return { isEqual, problem: null }
}

interface Pruned {
  readonly files: number
  readonly bytes: number
}

/**
 * Removes the files that no snapshot names which readers may still hold. Only one process may call it at a time. Throws
 * if a table cannot be read, and then removes nothing.
 */
export async function pruneArchive(
  target: ArchiveTarget,
  pointers: Pointers,
  { isDryRun = false, signal }: { readonly isDryRun?: boolean; readonly signal?: AbortSignal } = {},
): Promise<Pruned> {
  const needed = await neededFiles(target, pointers)
  let files = 0
  let bytes = 0
  for (const file of await target.list(tablesFolder)) {
    if (needed.has(file.path)) continue
    signal?.throwIfAborted()
    files++
    bytes += file.bytes
    if (!isDryRun) await target.remove(file.path)
  }
  return { files, bytes }
}

/** A day that the database has noted, with the files that the tables show of it. */
interface ShownDay extends Pick<ArchivedDay, 'day' | 'files'> {
  readonly shown: readonly ShownFile[]
}

/**
 * Reads all files of a day. Throws a `DamagedArchive` unless the tables show those that the database has noted, and these
 * have the rows that were written.
 */
async function readDay(reader: ArchiveReader, { files, shown }: ShownDay): Promise<void> {
  const sums = new Map(files.map(({ path, sha256 }) => [path, sha256]))
  if (new Set(shown.map(({ path }) => path)).size !== files.length || !shown.every(({ path }) => sums.has(path)))
    throw new DamagedArchive('its tables show other files than this database has noted')
  await readShown(reader, shown, sums)
}

/** Reads files, whose rows must have these digests. A file without one must have the digest that it names itself. */
async function readShown(
  reader: ArchiveReader,
  shown: readonly ShownFile[],
  sums: ReadonlyMap<string, string> = new Map(),
): Promise<void> {
  const problems: string[] = []
  for (const file of shown) {
    const sha256 = sums.get(file.path)
    try {
      for await (const _ of fileRows(reader, { ...file, ...(sha256 !== undefined && { sha256 }) }));
    } catch (error) {
      if (!(error instanceof DamagedArchive)) throw error
      problems.push(error.message)
    }
  }
  if (problems.length > 0) throw new DamagedArchive(problems.join('; '))
}

/** Reads all files of a day, and throws a `DamagedArchive` unless they have what a snapshot has and what is final. */
export async function checkDay(
  reader: ArchiveReader,
  table: ArchivedTable,
  known: ShownDay,
  snapshot: Snapshot,
): Promise<void> {
  await readDay(reader, known)
  const finalFiles = known.files.filter(({ isFinal }) => isFinal)
  const owned = known.files.filter(({ isFinal }) => !isFinal)
  const staged = await stageDay(snapshot, table, known.day, { folder: null, reader, finalFiles })
  const [changed] = changedPartitions(owned, staged.files)
  if (changed !== undefined) throw new DamagedArchive(`the archive has something else: other rows of ${changed}`)
}

type RowsOfFile = Pick<ArchiveFile, 'table' | 'divider' | 'sha256'>

/** Returns the name of the partition of a file, as in messages. */
export function partitionName({ table, divider }: RowsOfFile): string {
  return `${table.replaceAll('_', ' ')} of ${divider}`
}

/** Returns the names of partitions whose rows differ, or are split otherwise. */
export function changedPartitions(owned: readonly RowsOfFile[], staged: readonly RowsOfFile[]): ReadonlySet<string> {
  const [before, after] = [groupBy(owned, partitionName), groupBy(staged, partitionName)]
  const sumsOf = (files: readonly RowsOfFile[] = []) => files.map(({ sha256 }) => sha256).join()
  const names = new Set([...before.keys(), ...after.keys()])
  return new Set([...names].filter((name) => sumsOf(before.get(name)) !== sumsOf(after.get(name))))
}
