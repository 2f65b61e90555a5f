import type { QueryRow } from '../../db/readOnlyQuery.js'
import { messageOf } from '../../runtime/text.js'
import { openParquet } from '../parquet/file.js'
import { type Digests, type Manifest, type ManifestFile, type ManifestPlace, readManifest } from './manifest.js'
import { type FileRow, linesOf, parquetColumns, RowDigest } from './rowText.js'
import { rowsOf, type Snapshot, symbolsOfDay, tableColumns } from './rows.js'
import { type ArchivedDay, whyForeign } from './state.js'
import { archivedTable, dayEnd, dayStart } from './tables.js'
import { type ArchiveTarget, DamagedArchive, fileDigest } from './target.js'

export interface ArchiveReader {
  readonly target: ArchiveTarget
  /** Ends the reading on abort. */
  readonly signal?: AbortSignal | undefined
}

/** Rows of a row group, each with the line that its digest is made of. */
interface ArchivedBatch {
  readonly rows: readonly FileRow[]
  readonly lines: readonly string[]
}

/**
 * Reads the archived rows of a category of a day. Throws a `DamagedArchive` if a file has changed, or has a row of
 * another day or category. Throws it at the end if the digest differs. A reader that reaches the end has exactly the
 * archived rows.
 */
export async function* archivedRows(
  { target, signal }: ArchiveReader,
  manifest: Manifest,
  category: string,
): AsyncGenerator<ArchivedBatch, void> {
  const lines = linesOf(manifest.columns)
  const digest = new RowDigest()
  const isPlaced = placeCheck(manifest, category)
  for (const file of manifest.files.filter((one) => one.category === category)) {
    let rows = 0
    for await (const batch of fileRows(target, file, manifest)) {
      signal?.throwIfAborted()
      const batchLines = batch.map((row) => {
        if (!isPlaced(row)) throw new DamagedArchive(`${file.path} has a row of another day or category`)
        const line = lines.ofFile(row)
        digest.add(line)
        return line
      })
      rows += batch.length
      yield { rows: batch, lines: batchLines }
    }
    if (rows !== file.rows) throw new DamagedArchive(`${file.path} has ${rows} rows, and was written with ${file.rows}`)
  }
  const expected = manifest.digests[category as keyof Digests]
  const found = digest.sum()
  if (found.rows !== (expected?.rows ?? 0) || (expected !== undefined && found.sha256 !== expected.sha256)) {
    const { table, day } = manifest
    throw new DamagedArchive(`the rows of ${category} in ${table} of ${day} differ from those that were written`)
  }
}

async function* fileRows(
  target: ArchiveTarget,
  file: ManifestFile,
  { columns }: Manifest,
): AsyncGenerator<readonly FileRow[], void> {
  let fetched: Awaited<ReturnType<ArchiveTarget['fetch']>> | undefined
  try {
    fetched = await target.fetch(file.path)
    const { bytes, sha256 } = await fileDigest(fetched.localPath)
    if (bytes !== file.bytes || sha256 !== file.sha256) {
      throw new DamagedArchive(`${file.path} is not what was written: ${bytes} of ${file.bytes} bytes, another digest`)
    }
    const opened = await openParquet(fetched.localPath)
    if (opened.columns.join() !== columns.map(({ name }) => name).join()) {
      throw new DamagedArchive(`${file.path} has other columns than its manifest`)
    }
    yield* opened.batches()
  } catch (error) {
    const { code } = error as { code?: unknown }
    if (code === 'ENOENT') throw new DamagedArchive(`${file.path} is missing`, { cause: error })
    // An error of the system has a code. A file that cannot be parsed gives an error without one.
    if (error instanceof DamagedArchive || typeof code === 'string') throw error
    throw new DamagedArchive(`${file.path} cannot be read: ${messageOf(error)}`, { cause: error })
  } finally {
    await fetched?.release()
  }
}

function placeCheck({ table, day, columns }: Manifest, category: string): (row: FileRow) => boolean {
  const { timeColumn } = archivedTable(table)
  const categoryAt = columns.findIndex(({ name }) => name === 'category')
  const timeAt = columns.findIndex(({ name }) => name === timeColumn)
  const [start, end] = [BigInt(dayStart(day)) * 1000n, BigInt(dayEnd(day)) * 1000n]
  return (row) => {
    if (row[categoryAt] !== category) return false
    if (timeColumn === undefined) return true
    const time = row[timeAt]
    return typeof time === 'bigint' && time >= start && time < end
  }
}

/** Result of a comparison of the database with a day of the archive. */
interface Comparison {
  /** Describes how the rows of the database differ; null if the archive has all of them. */
  readonly difference: string | null
  /** True if the archive has more rows than the database. */
  readonly isPart: boolean
}

/**
 * Reads all rows of a day from its files. Compares them with the rows of a snapshot, if there is one. Throws a
 * `DamagedArchive` if the files are not as they were written.
 */
export async function checkDay(reader: ArchiveReader, manifest: Manifest, snapshot?: Snapshot): Promise<Comparison> {
  const stored = snapshot && (await storedRows(snapshot, manifest))
  const problems: string[] = []
  let difference = stored?.difference ?? null
  let isPart = false
  for (const category of new Set([...(stored?.categories ?? []), ...Object.keys(manifest.digests)])) {
    const files = archivedRows(reader, manifest, category)
    try {
      if (stored === undefined || problems.length > 0 || difference !== null) {
        while ((await files.next()).done !== true);
        continue
      }
      const found = await compareRows(stored.linesOf(category), files)
      const archived = manifest.digests[category as keyof Digests]?.rows ?? 0
      if (found.unknown > 0) difference = differenceOf(category, found.rows, archived)
      isPart ||= found.rows < archived
    } catch (error) {
      if (!(error instanceof DamagedArchive)) throw error
      problems.push(error.message)
    }
  }
  if (problems.length > 0) throw new DamagedArchive(problems.join('; '))
  return { difference, isPart }
}

/**
 * Reads a manifest and checks its day. Throws a `DamagedArchive` unless all is as it was written.
 *
 * @param noted record of the day in the database, if it has one
 */
export async function readCheckedDay(
  reader: ArchiveReader,
  place: ManifestPlace,
  noted: ArchivedDay | undefined,
): Promise<Manifest> {
  const manifest = await readManifest(reader.target, place)
  const foreign = whyForeign(manifest, noted)
  if (foreign !== null) throw new DamagedArchive(foreign)
  await checkDay(reader, manifest)
  return manifest
}

function differenceOf(category: string, stored: number, archived: number): string {
  if (stored === archived) return `${category}: as many rows, but not the same`
  return `${category}: ${stored} rows in the database, ${archived} in the archive`
}

/** Reads the database's rows of a day as lines, by category, in the order of the files. */
async function storedRows(snapshot: Snapshot, manifest: Manifest) {
  const table = archivedTable(manifest.table)
  const described = await tableColumns(snapshot, table)
  const symbols = await symbolsOfDay(snapshot, table, manifest.day)
  const isKnown = ({ name, type }: { readonly name: string; readonly type: string }) =>
    described.some((column) => column.name === name && column.type === type)
  const foreign = manifest.columns.find((column) => !isKnown(column))
  const more = described.filter(({ name }) => !manifest.columns.some((column) => column.name === name))
  const columns = [...parquetColumns(manifest.columns), ...parquetColumns(more)]
  const { ofServer } = linesOf(manifest.columns)
  return {
    categories: [...symbols.keys()],
    ...(foreign !== undefined && { difference: `the database has no column ${foreign.name} of type ${foreign.type}` }),
    async *linesOf(category: string): AsyncGenerator<readonly (string | null)[], void> {
      const selection = { day: manifest.day, category, symbols: symbols.get(category) ?? [] }
      for await (const batch of rowsOf(snapshot, table, columns, selection)) {
        yield batch.map((row) => (isEmptyAfter(row, manifest.columns.length) ? ofServer(row) : null))
      }
    },
  }
}

/** Returns true if a row is null in all columns after the first `columns`. A file would lose other values. */
function isEmptyAfter(row: QueryRow, columns: number): boolean {
  for (let i = columns; i < row.length; i++) if (row[i] !== null) return false
  return true
}

/**
 * Compares rows of the database with the files. In their common order, each must occur in the files.
 *
 * @param stored lines; null for a row that no file can have
 */
async function compareRows(
  stored: AsyncIterable<readonly (string | null)[]>,
  archived: AsyncGenerator<ArchivedBatch, void>,
): Promise<{ rows: number; unknown: number }> {
  let lines: readonly string[] = []
  let at = 0
  let rows = 0
  let unknown = 0
  for await (const batch of stored) {
    rows += batch.length
    for (const line of batch) {
      for (;;) {
        if (unknown > 0 || line === null) {
          unknown++
          break
        }
        if (at === lines.length) {
          const next = await archived.next()
          ;[lines, at] = [next.done === true ? [] : next.value.lines, 0]
          if (next.done === true) unknown++
        } else if (lines[at++] === line) break
      }
    }
  }
  while ((await archived.next()).done !== true);
  return { rows, unknown }
}
