import type { QueryRow } from '../../db/readOnlyQuery.js'
import { messageOf } from '../../runtime/text.js'
import { openParquet } from '../parquet/file.js'
import type { Compression } from '../parquet/zstd.js'
import type { Digests, Manifest, ManifestFile } from './manifest.js'
import { type FileRow, linesOf, parquetColumns, RowDigest } from './rowText.js'
import { rowsOf, type Snapshot, symbolsOfDay, tableColumns } from './rows.js'
import { archivedTable, dayEnd, dayStart } from './tables.js'
import { type ArchiveTarget, DamagedArchive, fileDigest } from './target.js'

export interface ArchiveReader {
  readonly target: ArchiveTarget
  readonly compression: Compression
}

/** Rows of a row group, each with the line that its digest is made of. */
interface ArchivedBatch {
  readonly rows: readonly FileRow[]
  readonly lines: readonly string[]
}

/**
 * Reads the archived rows of a category of a day. Throws a `DamagedArchive` if a file has changed, or has a row of
 * another day or category. Throws it at the end if the digest differs. So a reader that reaches the end has exactly the
 * archived rows.
 */
export async function* archivedRows(
  reader: ArchiveReader,
  manifest: Manifest,
  category: string,
): AsyncGenerator<ArchivedBatch, void> {
  const lines = linesOf(manifest.columns)
  const digest = new RowDigest()
  const isPlaced = placeCheck(manifest, category)
  for (const file of manifest.files.filter((one) => one.category === category)) {
    let rows = 0
    for await (const batch of fileRows(reader, file, manifest)) {
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
  if (digest.rows !== (expected?.rows ?? 0) || (expected !== undefined && digest.hex() !== expected.sha256)) {
    const { table, day } = manifest
    throw new DamagedArchive(`the rows of ${category} in ${table} of ${day} differ from those that were written`)
  }
}

async function* fileRows(
  { target, compression }: ArchiveReader,
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
    const opened = await openParquet(fetched.localPath, compression)
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

/** Result of a comparison. `within` means that the archive has all rows of the database, and more. */
type Comparison = 'equal' | 'within' | { readonly difference: string }

interface CheckedDay {
  /** Problems of the archive itself, one line each. */
  readonly problems: readonly string[]
  /** Null if the archive has problems, or if there is nothing to compare with. */
  readonly compared: Comparison | null
}

interface CheckOptions {
  /** Database whose rows are compared with those of the files, one by one. */
  readonly database?: { readonly snapshot: Snapshot; readonly isHypertable: boolean } | undefined
  /** Called with the number of rows read so far. Throwing an error ends the check. */
  readonly onRows?: ((rows: number) => void) | undefined
}

/** Reads all rows of a day from its files, and compares them with the database. */
export async function checkDay(
  reader: ArchiveReader,
  manifest: Manifest,
  { database, onRows }: CheckOptions = {},
): Promise<CheckedDay> {
  const stored = database && (await storedRows(database.snapshot, manifest, database.isHypertable))
  const problems: string[] = []
  let compared: Comparison = stored?.difference === undefined ? 'equal' : { difference: stored.difference }
  let rows = 0
  for (const category of new Set([...(stored?.categories ?? []), ...Object.keys(manifest.digests)])) {
    const count = (more: number) => onRows?.((rows += more))
    const files = archivedRows(reader, manifest, category)
    const isComparing = stored !== undefined && problems.length === 0 && typeof compared === 'string'
    try {
      if (!isComparing) for await (const batch of files) count(batch.rows.length)
      else {
        const found = await compareRows(stored.linesOf(category), files, count)
        const archived = manifest.digests[category as keyof Digests]?.rows ?? 0
        if (found.unknown > 0) compared = { difference: differenceOf(category, found.rows, archived) }
        else if (found.rows < archived) compared = 'within'
      }
    } catch (error) {
      if (!(error instanceof DamagedArchive)) throw error
      problems.push(error.message)
    }
  }
  return { problems, compared: problems.length > 0 || stored === undefined ? null : compared }
}

function differenceOf(category: string, stored: number, archived: number): string {
  if (stored === archived) return `${category}: as many rows, but not the same`
  return `${category}: ${stored} rows in the database, ${archived} in the archive`
}

/** Reads the database's rows of a day as lines, by category, in the order of the files. */
async function storedRows(snapshot: Snapshot, manifest: Manifest, isHypertable: boolean) {
  const table = archivedTable(manifest.table)
  const described = await tableColumns(snapshot, table)
  const symbols = await symbolsOfDay(snapshot, table, manifest.day, isHypertable)
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

/** Returns true if a row is null in all columns after the known ones. A file would lose other values. */
function isEmptyAfter(row: QueryRow, known: number): boolean {
  for (let i = known; i < row.length; i++) if (row[i] !== null) return false
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
  onRows: (rows: number) => void,
): Promise<{ rows: number; unknown: number }> {
  let lines: readonly string[] = []
  let at = 0
  let rows = 0
  let unknown = 0
  for await (const batch of stored) {
    rows += batch.length
    onRows(batch.length)
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
  for await (const rest of archived) onRows(rest.rows.length)
  return { rows, unknown }
}
