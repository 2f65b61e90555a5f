import { join } from 'node:path'
import type { QueryColumn, QueryRow } from '../../db/readOnlyQuery.js'
import type { MarketTable } from '../../market/stream.js'
import type { Category } from '../../market/category.js'
import { randomName } from '../../runtime/randomness.js'
import { extentList, extentsIn, isDecimal, type ParquetColumn } from '../parquet/columns.js'
import { UnfitDecimal, widen, withSpare } from '../parquet/decimals.js'
import { createParquetFile, type ParquetFile } from '../parquet/file.js'
import { archivedOrder, mergeRows } from './mergeDay.js'
import type { ArchiveReader } from './checkDay.js'
import type { Digests, Manifest, ManifestColumn, ManifestFile } from './manifest.js'
import { linesOf, parquetColumns, RowDigest, timeText } from './rowText.js'
import { rowsOf, rowsOfDay, type Snapshot, symbolsOfDay, tableColumns } from './rows.js'
import type { ArchivedTable, Day } from './tables.js'
import { fileDigest } from './target.js'

/** A day in local files that no reader sees yet. */
export interface StagedDay {
  readonly columns: readonly ManifestColumn[]
  readonly rows: number
  /** Number of rows, among `rows`, that only the former version had. */
  readonly rowsOnlyArchived: number
  readonly digests: Digests
  readonly files: readonly StagedFile[]
}
interface StagedFile extends Omit<ManifestFile, 'path'> {
  readonly localPath: string
  /** Number of the file within its category, from 0. */
  readonly number: number
}

interface StageOptions {
  readonly folder: string
  /** Columns of earlier days, with the digits that their decimals needed. */
  readonly known: readonly ManifestColumn[]
  /** Former version whose rows are kept, unless the database has a row with the same key. */
  readonly former?: { readonly reader: ArchiveReader; readonly manifest: Manifest } | undefined
  /** Called with the number of rows written so far. Throwing an error ends the work. */
  readonly onRows?: ((rows: number) => void) | undefined
}

/** A file holds many symbols, so that a day has few files. The limits keep it small enough to copy. */
const rowsPerFile = 5_000_000
const charactersPerFile = 2_000_000_000

/**
 * Zstandard levels by table. Level 9 makes short runs of rarely repeating prices, as in candles, a sixth smaller. Fills
 * are smallest at level 1, which is also the fastest.
 */
const levels: Readonly<Partial<Record<MarketTable, number>>> = { candles: 9, fills: 1 }

/** Writes the rows that a snapshot and a former version have of a day. Memory does not grow with the day. */
export async function stageDay(
  snapshot: Snapshot,
  table: ArchivedTable,
  day: Day,
  options: StageOptions,
): Promise<StagedDay> {
  const { former, onRows } = options
  const described = await tableColumns(snapshot, table)
  const symbols = await symbolsOfDay(snapshot, table, day)
  const categories = [...new Set([...symbols.keys(), ...Object.keys(former?.manifest.digests ?? {})])].toSorted()
  const order = former === undefined ? null : await archivedOrder(snapshot, table, described)
  const stage = async (columns: readonly ManifestColumn[]): Promise<StagedDay> => {
    const digests: Record<string, { rows: number; sha256: string }> = {}
    const files: StagedFile[] = []
    let rows = 0
    let rowsOnlyArchived = 0
    for (const category of categories as Category[]) {
      const writer = new CategoryWriter(table, category, columns, options)
      const own = rowsOf(snapshot, table, writer.columns, { day, category, symbols: symbols.get(category) ?? [] })
      const onlyArchived = (count: number) => (rowsOnlyArchived += count)
      const all = former && order ? mergeRows(own, { ...former, category, columns, order, onlyArchived }) : own
      try {
        for await (const batch of all) {
          await writer.write(batch)
          onRows?.(rows + writer.digest.rows)
        }
      } finally {
        await writer.close()
      }
      rows += writer.digest.rows
      files.push(...writer.files)
      digests[category] = writer.digest.sum()
    }
    return { columns, rows, rowsOnlyArchived, digests, files }
  }
  const measured = () => withExtents(snapshot, rowsOfDay(table, day), described, options.known)
  const known = withKnownExtents(described, options.known)
  if (known === null) return stage(categories.length === 0 ? [...described] : await measured())
  try {
    return await stage(known)
  } catch (error) {
    if (!(error instanceof UnfitDecimal)) throw error
    // The cursor may still be open. The day is measured and written again with wider decimals.
    await snapshot.query('close all')
    return stage(await measured())
  }
}

/** Adds the digits that earlier days needed. Returns null if a decimal column is new. */
function withKnownExtents(columns: readonly QueryColumn[], known: readonly ManifestColumn[]): ManifestColumn[] | null {
  const found = columns.map(({ name, type }): ManifestColumn | null => {
    if (!isDecimal(type)) return { name, type }
    const { digits, scale } = known.find((column) => column.name === name) ?? {}
    return digits === undefined || scale === undefined ? null : { name, type, digits, scale }
  })
  return found.includes(null) ? null : (found as ManifestColumn[])
}

/** Adds the digits that the rows of a day and earlier days need. */
async function withExtents(
  snapshot: Snapshot,
  from: { readonly sql: string; readonly parameters: readonly unknown[] },
  columns: readonly QueryColumn[],
  known: readonly ManifestColumn[],
): Promise<ManifestColumn[]> {
  const list = extentList(columns)
  if (list === '') return [...columns]
  const [row = []] = await snapshot.query(`select ${list} from ${from.sql}`, from.parameters)
  const extents = extentsIn(row, columns)
  return columns.map(({ name, type }) => {
    const found = extents.get(name)
    if (found === undefined) return { name, type }
    const before = known.find((column) => column.name === name)
    if (before?.digits === undefined || before.scale === undefined) return { name, type, ...withSpare(found) }
    const { digits, scale } = before
    const fits = found.digits <= digits && found.scale <= scale
    return { name, type, ...widen({ digits, scale }, fits ? found : withSpare(found)) }
  })
}

class CategoryWriter {
  readonly files: StagedFile[] = []
  readonly digest = new RowDigest()
  readonly columns: readonly ParquetColumn[]
  readonly #line: (row: QueryRow) => string
  readonly #table: ArchivedTable
  readonly #category: Category
  readonly #options: StageOptions
  readonly #symbolColumn: number
  readonly #timeColumn: number
  #open: { file: ParquetFile; localPath: string; rows: number; characters: number; first: QueryRow } | undefined
  #last: QueryRow = []

  constructor(table: ArchivedTable, category: Category, columns: readonly ManifestColumn[], options: StageOptions) {
    this.#table = table
    this.#category = category
    this.columns = parquetColumns(columns)
    this.#line = linesOf(columns).ofServer
    this.#options = options
    this.#symbolColumn = columns.findIndex(({ name }) => name === 'symbol')
    this.#timeColumn = columns.findIndex(({ name }) => name === table.timeColumn)
  }

  async write(rows: readonly QueryRow[]): Promise<void> {
    const [first] = rows
    if (first === undefined) return
    this.#open ??= await this.#openFile(first)
    await this.#open.file.write(rows)
    this.#last = rows.at(-1) ?? first
    this.#open.rows += rows.length
    for (const row of rows) {
      this.digest.add(this.#line(row))
      for (const value of row) this.#open.characters += value?.length ?? 0
    }
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

  async #openFile(first: QueryRow) {
    const localPath = join(
      this.#options.folder,
      `${this.#table.name}-${this.#category}-${this.files.length}-${randomName(4)}.parquet`,
    )
    const file = await createParquetFile(localPath, this.columns, levels[this.#table.name])
    return { file, localPath, rows: 0, characters: 0, first }
  }

  #placeOf(row: QueryRow): { symbol: string; time: string | null } {
    const micros = row[this.#timeColumn] ?? null
    return { symbol: row[this.#symbolColumn] ?? '', time: micros === null ? null : timeText(BigInt(micros)) }
  }
}
