import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { randomName } from '../../runtime/randomness.js'
import { createParquetFile, type ParquetFile } from '../parquet/file.js'
import type { ParquetColumn } from '../parquet/columns.js'
import { UnfitDecimal } from '../parquet/decimals.js'
import type { Compression } from '../parquet/zstd.js'
import type { QueryRow } from '../../db/readOnlyQuery.js'
import { parquetColumns, tableColumns, withExtents, withKnownExtents } from './columns.js'
import { RowDigest } from './rowDigest.js'
import type { Manifest, ManifestColumn, ManifestFile, SeriesProof } from './manifest.js'
import { readProof } from './proof.js'
import { rowsOf, rowsOfDay, symbolsOfDay } from './rows.js'
import type { ArchivedTableName } from '../../market/archivedTable.js'
import type { Snapshot } from './snapshot.js'
import type { ArchivedTable, Day } from './tables.js'
import { timeText } from './values.js'

/** A day in files of this machine that nobody sees yet. */
export interface StagedDay {
  readonly columns: readonly ManifestColumn[]
  readonly rows: number
  readonly digests: Manifest['digests']
  readonly files: readonly StagedFile[]
  readonly proof: readonly SeriesProof[]
}
export interface StagedFile extends Omit<ManifestFile, 'path'> {
  readonly localPath: string
  /** Within its category. */
  readonly number: number
}

export interface StageOptions {
  readonly folder: string
  readonly compression: Compression
  readonly isHypertable: boolean
  /** What earlier days needed for their decimals. */
  readonly known: readonly ManifestColumn[]
  /** Whether what is proven of the rows is read, too. Default true. */
  readonly withProof?: boolean
  /** Told the rows so far; may throw to end it. */
  readonly onRows?: (rows: number) => void
}

/** Many symbols in one file, so that a day has few; not so large that one has to be carried around whole. */
const rowsPerFile = 5_000_000
const charactersPerFile = 2_000_000_000

/**
 * Of zstd. Short runs of prices that hardly repeat, as in candles, become a sixth smaller at level 9; fills are smallest at
 * level 1, which is also the fastest.
 */
const levels: Readonly<Partial<Record<ArchivedTableName, number>>> = { candles: 9, fills: 1 }

/** Writes what a snapshot has of a day. Memory does not grow with the day. */
export async function stageDay(
  snapshot: Snapshot,
  table: ArchivedTable,
  day: Day,
  options: StageOptions,
): Promise<StagedDay> {
  const described = await tableColumns(snapshot, table)
  const proof = options.withProof === false ? [] : await readProof(snapshot, table, day)
  const symbols = await symbolsOfDay(snapshot, table, day, options.isHypertable)
  const measured = () => withExtents(snapshot, rowsOfDay(table, day), described, options.known)
  const stage = async (columns: readonly ManifestColumn[]): Promise<StagedDay> => {
    const digests: Record<string, { rows: number; sha256: string }> = {}
    const files: StagedFile[] = []
    let rows = 0
    for (const [category, known] of symbols) {
      const writer = new CategoryWriter(table, category, columns, options)
      try {
        for await (const batch of rowsOf(snapshot, table, writer.columns, { day, category, symbols: known })) {
          await writer.write(batch)
          options.onRows?.(rows + writer.digest.rows)
        }
      } finally {
        await writer.close()
      }
      rows += writer.digest.rows
      files.push(...writer.files)
      digests[category] = { rows: writer.digest.rows, sha256: writer.digest.hex() }
    }
    return { columns, rows, digests, files, proof }
  }
  const known = withKnownExtents(described, options.known)
  if (known === null) return stage(symbols.size === 0 ? described : await measured())
  try {
    return await stage(known)
  } catch (error) {
    if (!(error instanceof UnfitDecimal)) throw error
    // The cursor that was read is at its end or is broken off with the statement after it; the day is measured and written anew.
    await snapshot.query('close all')
    return stage(await measured())
  }
}

class CategoryWriter {
  readonly files: StagedFile[] = []
  readonly digest: RowDigest
  readonly columns: readonly ParquetColumn[]
  readonly #table: ArchivedTable
  readonly #category: string
  readonly #options: StageOptions
  readonly #symbolColumn: number
  readonly #timeColumn: number
  #open: { file: ParquetFile; localPath: string; rows: number; characters: number; first: QueryRow } | undefined
  #last: QueryRow = []

  constructor(table: ArchivedTable, category: string, columns: readonly ManifestColumn[], options: StageOptions) {
    this.#table = table
    this.#category = category
    this.columns = parquetColumns(columns)
    this.digest = new RowDigest(columns)
    this.#options = options
    this.#symbolColumn = columns.findIndex(({ name }) => name === 'symbol')
    this.#timeColumn = columns.findIndex(({ name }) => name === table.timeColumn)
  }

  async write(rows: readonly QueryRow[]): Promise<void> {
    const [first] = rows
    if (first === undefined) return
    this.#open ??= this.#openFile(first)
    await this.#open.file.write(rows)
    this.digest.addServerRows(rows)
    this.#last = rows.at(-1) ?? first
    this.#open.rows += rows.length
    for (const row of rows) for (const value of row) this.#open.characters += value?.length ?? 0
    if (this.#open.rows >= rowsPerFile || this.#open.characters >= charactersPerFile) await this.close()
  }

  async close(): Promise<void> {
    const open = this.#open
    this.#open = undefined
    if (open === undefined) return
    await open.file.close()
    this.files.push({
      category: this.#category,
      number: this.files.length,
      localPath: open.localPath,
      rows: open.rows,
      ...(await fileDigest(open.localPath)),
      first: this.#placeOf(open.first),
      last: this.#placeOf(this.#last),
    })
  }

  #openFile(first: QueryRow) {
    const localPath = join(
      this.#options.folder,
      `${this.#table.name}-${this.#category}-${this.files.length}-${randomName(4)}.parquet`,
    )
    const level = levels[this.#table.name]
    const { compression } = this.#options
    const file = createParquetFile(localPath, this.columns, { compression, ...(level !== undefined && { level }) })
    return { file, localPath, rows: 0, characters: 0, first }
  }

  #placeOf(row: QueryRow): { symbol: string; time: string | null } {
    const micros = row[this.#timeColumn] ?? null
    return { symbol: row[this.#symbolColumn] ?? '', time: micros === null ? null : timeText(BigInt(micros)) }
  }
}

/** Bytes and SHA-256 of a file, in bounded memory. */
export async function fileDigest(localPath: string): Promise<{ bytes: number; sha256: string }> {
  const hash = createHash('sha256')
  for await (const chunk of createReadStream(localPath, { highWaterMark: 1 << 20 })) hash.update(chunk as Buffer)
  return { bytes: (await stat(localPath)).size, sha256: hash.digest('hex') }
}
