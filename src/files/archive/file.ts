import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import type { QueryRow } from '../../db/readOnlyQuery.js'
import { messageOf } from '../../runtime/text.js'
import { randomName } from '../../runtime/randomness.js'
import type { ParquetColumn } from '../parquet/columns.js'
import { createParquetFile, openParquet } from '../parquet/file.js'
import { type Field, fieldOf, fieldProblem, type TableColumns } from '../iceberg/metadata.js'
import { publishedTable } from '../iceberg/tables.js'
import { type ArchiveFile, type Day, dayEnd, dayStart } from '../layout/tables.js'
import { type FileRow, linesOf, parquetColumns, RowDigest, type StoredColumn } from '../layout/rowText.js'
import { type ArchiveTarget, DamagedArchive } from '../layout/target.js'

/** A finished file that no reader sees yet. */
export interface StagedFile extends Omit<ArchiveFile, 'path'> {
  readonly localPath: string
}

/** What a file says of itself. */
export interface FileFooter {
  readonly table: string
  readonly day: Day
  readonly divider: string
  readonly rows: number
  readonly sha256: string
  readonly columns: readonly StoredColumn[]
}

const footerKey = 'market-recorder'
const footerSchema = z.object({
  table: z.string(),
  day: z.iso.date(),
  divider: z.string(),
  rows: z.int(),
  sha256: z.string(),
  columns: z.array(
    z.object({
      name: z.string(),
      type: z.string(),
      digits: z.int().min(0).optional(),
      scale: z.int().min(0).optional(),
    }),
  ),
})

/** A file holds many symbols, so that a day has few files. The limits keep it small enough to copy. */
const rowsPerFile = 5_000_000
const charactersPerFile = 2_000_000_000

interface Partition {
  /** Local folder for files that are being written. Null to write none, and only make the digests of their rows. */
  readonly folder: string | null
  readonly table: string
  readonly day: Day
  readonly divider: string
  readonly columns: readonly StoredColumn[]
  /** Zstandard level. */
  readonly level?: number | undefined
  /** True to write one file, however large. Default false. */
  readonly isOneFile?: boolean
}

/** Writes the rows of a partition to as many files as they need, in bounded memory. */
export class PartitionWriter {
  readonly files: StagedFile[] = []
  readonly columns: readonly ParquetColumn[]
  rows = 0
  readonly #partition: Partition
  readonly #line: (row: QueryRow) => string
  readonly #symbolAt: number
  #open: OpenPart | undefined

  constructor(partition: Partition) {
    this.#partition = partition
    this.columns = parquetColumns(partition.columns)
    this.#line = linesOf(partition.columns).ofServer
    this.#symbolAt = partition.columns.findIndex(({ name }) => name === 'symbol')
  }

  async write(rows: readonly QueryRow[]): Promise<void> {
    if (rows.length === 0) return
    const open = (this.#open ??= await this.#openFile())
    await open.file?.write(rows)
    this.rows += rows.length
    for (const row of rows) {
      open.digest.add(this.#line(row))
      const symbol = row[this.#symbolAt] ?? ''
      if (open.lowest === undefined || isBefore(symbol, open.lowest)) open.lowest = symbol
      if (open.highest === undefined || isBefore(open.highest, symbol)) open.highest = symbol
      for (const value of row) open.characters += value?.length ?? 0
    }
    const isFull = open.digest.rows >= rowsPerFile || open.characters >= charactersPerFile
    if (isFull && this.#partition.isOneFile !== true) await this.close()
  }

  async close(): Promise<void> {
    const open = this.#open
    this.#open = undefined
    if (open === undefined) return
    const { table, day, divider, columns } = this.#partition
    const { localPath, lowest = '', highest = '' } = open
    const sum = open.digest.sum()
    const footer: FileFooter = { table, day, divider, ...sum, columns }
    await open.file?.close({ [footerKey]: JSON.stringify(footer) })
    const bytes = open.file === null ? 0 : (await stat(localPath)).size
    this.files.push({ localPath, table, divider, ...sum, bytes, symbols: [lowest, highest], isFinal: false })
  }

  async #openFile(): Promise<OpenPart> {
    const { folder, table, divider, level } = this.#partition
    const localPath = join(folder ?? '', `${table}-${divider}-${randomName(8)}.parquet`)
    const file = folder === null ? null : await createParquetFile(localPath, this.columns, level)
    return { file, localPath, digest: new RowDigest(), characters: 0, lowest: undefined, highest: undefined }
  }
}

interface OpenPart {
  readonly file: Awaited<ReturnType<typeof createParquetFile>> | null
  readonly localPath: string
  readonly digest: RowDigest
  characters: number
  lowest: string | undefined
  highest: string | undefined
}

function isBefore(a: string, b: string): boolean {
  return a !== b && Buffer.compare(Buffer.from(a), Buffer.from(b)) < 0
}

export interface ArchiveReader {
  readonly target: ArchiveTarget
  /** Ends the reading on abort. */
  readonly signal?: AbortSignal | undefined
}

/** Rows of a row group, each with the line that its digest is made of. */
interface FileBatch {
  readonly footer: FileFooter
  readonly rows: readonly FileRow[]
  readonly lines: readonly string[]
}

/** The file that a reader expects. Without a digest, that of the file itself counts. */
export interface ExpectedFile extends Pick<ArchiveFile, 'path' | 'table' | 'divider' | 'rows'> {
  readonly sha256?: string
  /** Counts for nothing where a table is archived whole. */
  readonly day: Day | null
  /** Columns of its table. Without them, only those that the file names count. */
  readonly columns?: TableColumns | undefined
}

/**
 * Reads the rows of a file. Throws a `DamagedArchive` if the file is not what is expected, or at the end if it does not
 * have the rows that were written. A reader that reaches the end has exactly these rows.
 */
export async function* fileRows(reader: ArchiveReader, expected: ExpectedFile): AsyncGenerator<FileBatch, void> {
  const { path } = expected
  let fetched: Awaited<ReturnType<ArchiveTarget['fetch']>> | undefined
  try {
    fetched = await reader.target.fetch(path)
    const opened = await openParquet(fetched.localPath)
    const footer = footerSchema.parse(JSON.parse(opened.footer[footerKey] ?? 'null'))
    const problem = contradiction(footer, expected, opened.columns.map(fieldOf))
    if (problem !== null) throw new DamagedArchive(`${path} ${problem}`)
    const { ofFile } = linesOf(footer.columns)
    const isPlaced = placeCheck(expected, footer.columns)
    const digest = new RowDigest()
    for await (const rows of opened.batches()) {
      reader.signal?.throwIfAborted()
      const lines = rows.map((row) => {
        if (!isPlaced(row)) throw new DamagedArchive(`${path} has a row of another day or partition`)
        const line = ofFile(row)
        digest.add(line)
        return line
      })
      yield { footer, rows, lines }
    }
    const found = digest.sum()
    if (found.rows !== footer.rows || found.sha256 !== footer.sha256)
      throw new DamagedArchive(`${path} does not have the rows that were written`)
  } catch (error) {
    const { code } = error as { code?: unknown }
    if (code === 'ENOENT') throw new DamagedArchive(`${path} is missing`, { cause: error })
    // An error of the system has a code. A file that cannot be parsed gives an error without one.
    if (error instanceof DamagedArchive || typeof code === 'string' || reader.signal?.aborted === true) throw error
    const why = error instanceof z.ZodError || error instanceof SyntaxError ? 'its footer is damaged' : messageOf(error)
    throw new DamagedArchive(`${path} cannot be read: ${why}`, { cause: error })
  } finally {
    await fetched?.release()
  }
}

/** Returns why a file is not the expected one; null if it is. */
function contradiction(footer: FileFooter, expected: ExpectedFile, found: readonly Field[]): string | null {
  const { table, divider, rows, day, sha256 = footer.sha256, columns } = expected
  const isWhole = publishedTable(table).timeColumn === undefined
  const isSame = footer.table === table && footer.divider === divider && (isWhole || footer.day === day)
  if (!isSame) return `is of ${footer.table} of ${footer.day}, ${footer.divider}`
  if (footer.rows !== rows || footer.sha256 !== sha256) return 'is not what was written: it has other rows'
  const fields = parquetColumns(footer.columns).map(fieldOf)
  const own = fieldProblem(found, { fields, required: new Set(fields.map(({ name }) => name)) })
  return own ?? (columns === undefined ? null : fieldProblem(found, columns))
}

function placeCheck(expected: ExpectedFile, columns: readonly StoredColumn[]): (row: FileRow) => boolean {
  const { day } = expected
  const { timeColumn, divider } = publishedTable(expected.table)
  const dividerAt = columns.findIndex(({ name }) => name === divider)
  const timeAt = columns.findIndex(({ name }) => name === timeColumn)
  if (timeColumn === undefined || day === null) return (row) => row[dividerAt] === expected.divider
  const [start, end] = [BigInt(dayStart(day)) * 1000n, BigInt(dayEnd(day)) * 1000n]
  return (row) => {
    const time = row[timeAt]
    return row[dividerAt] === expected.divider && typeof time === 'bigint' && time >= start && time < end
  }
}
