import { join } from 'node:path'
import type { QueryColumn, QueryRow } from '../../db/readOnlyQuery.js'
import type { MarketTable } from '../../market/stream.js'
import type { Category } from '../../market/category.js'
import { randomName } from '../../runtime/randomness.js'
import { extentList, extentsIn, isDecimal, type ParquetColumn } from '../parquet/columns.js'
import { compareDecimals, UnfitDecimal, widen, withSpare } from '../parquet/decimals.js'
import { createParquetFile, type ParquetFile } from '../parquet/file.js'
import { archivedRows, type ArchiveReader } from './checkDay.js'
import type { Digests, Manifest, ManifestColumn, ManifestFile } from './manifest.js'
import { linesOf, parquetColumns, RowDigest, serverRow, timeText } from './rowText.js'
import { byBytes, rowsOf, rowsOfDay, type Snapshot, symbolsOfDay, tableColumns } from './rows.js'
import type { ArchivedTable, Day } from './tables.js'
import { DamagedArchive, fileDigest } from './target.js'

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
  readonly earlier: readonly ManifestColumn[]
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
  const measured = () => withExtents(snapshot, rowsOfDay(table, day), described, options.earlier)
  const expected = withEarlierExtents(described, options.earlier)
  if (expected === null) return stage(categories.length === 0 ? [...described] : await measured())
  try {
    return await stage(expected)
  } catch (error) {
    if (!(error instanceof UnfitDecimal)) throw error
    // A decimal needs more digits than those of earlier days. So all rows of the day are measured, and written again
    // with wider decimals. The failed attempt may have left its cursor open, whose name the next one needs.
    await snapshot.query('close all')
    return stage(await measured())
  }
}

/** Adds the digits that earlier days needed. Returns null if a decimal column is new. */
function withEarlierExtents(
  columns: readonly QueryColumn[],
  earlier: readonly ManifestColumn[],
): ManifestColumn[] | null {
  const found = columns.map(({ name, type }): ManifestColumn | null => {
    if (!isDecimal(type)) return { name, type }
    const { digits, scale } = earlier.find((column) => column.name === name) ?? {}
    return digits === undefined || scale === undefined ? null : { name, type, digits, scale }
  })
  return found.includes(null) ? null : (found as ManifestColumn[])
}

/** Adds the digits that the rows of a day and earlier days need. */
async function withExtents(
  snapshot: Snapshot,
  from: { readonly sql: string; readonly parameters: readonly unknown[] },
  columns: readonly QueryColumn[],
  earlier: readonly ManifestColumn[],
): Promise<ManifestColumn[]> {
  const list = extentList(columns)
  if (list === '') return [...columns]
  const [row = []] = await snapshot.query(`select ${list} from ${from.sql}`, from.parameters)
  const extents = extentsIn(row, columns)
  return columns.map(({ name, type }) => {
    const found = extents.get(name)
    if (found === undefined) return { name, type }
    const before = earlier.find((column) => column.name === name)
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

type Compare = (a: QueryRow, b: QueryRow) => number

/** Returns the order of a category's rows in a file. The rows have unique keys in this order. */
async function archivedOrder(
  snapshot: Snapshot,
  { order }: ArchivedTable,
  columns: readonly QueryColumn[],
): Promise<Compare> {
  const parts: Compare[] = []
  for (const name of ['symbol', ...order.map((column) => column.replace(/ collate .*/, ''))]) {
    const at = columns.findIndex((column) => column.name === name)
    const compare = await textOrder(snapshot, columns[at]?.type ?? 'text')
    parts.push((a, b) => compare(a[at] ?? '', b[at] ?? ''))
  }
  return (a, b) => {
    for (const part of parts) {
      const found = part(a, b)
      if (found !== 0) return found
    }
    return 0
  }
}

async function textOrder(snapshot: Snapshot, type: string): Promise<(a: string, b: string) => number> {
  if (type === 'text') return byBytes
  const labels = await snapshot.query(
    `select e.enumlabel from pg_enum e join pg_type t on t.oid = e.enumtypid
     where t.typname = $1 and t.typnamespace = 'market'::regnamespace order by e.enumsortorder`,
    [type],
  )
  // All other columns of an order are numbers, or times in microseconds.
  if (labels.length === 0) return compareDecimals
  const ranks = new Map(labels.map(([label], rank) => [label, rank]))
  return (a, b) => (ranks.get(a) ?? 0) - (ranks.get(b) ?? 0)
}

interface Merging {
  readonly reader: ArchiveReader
  readonly manifest: Manifest
  readonly category: string
  readonly columns: readonly ManifestColumn[]
  readonly order: Compare
  /** Called with the number of rows that only the archive has. */
  readonly onlyArchived: (rows: number) => void
}

/** Merges rows of the database with archived ones. If both have the same key, the database row is used. */
async function* mergeRows(
  own: AsyncIterable<readonly QueryRow[]>,
  { reader, manifest, category, columns, order, onlyArchived }: Merging,
): AsyncGenerator<readonly QueryRow[], void> {
  const batches = archivedRows(reader, manifest, category)
  const toRow = rowsAs(manifest, columns)
  let archived: readonly QueryRow[] = []
  let at = 0
  /** Resolves to the next archived row; null at the end. */
  const next = async (): Promise<QueryRow | null> => {
    while (at === archived.length) {
      const batch = await batches.next()
      if (batch.done === true) return null
      ;[archived, at] = [batch.value.rows.map(toRow), 0]
    }
    return archived[at] ?? null
  }
  let row = await next()
  for await (const batch of own) {
    const merged: QueryRow[] = []
    for (const ownRow of batch) {
      while (row !== null && order(row, ownRow) < 0) {
        merged.push(row)
        at++
        row = at < archived.length ? (archived[at] ?? null) : await next()
      }
      if (row !== null && order(row, ownRow) === 0) {
        at++
        row = await next()
      }
      merged.push(ownRow)
    }
    onlyArchived(merged.length - batch.length)
    yield merged
  }
  while (row !== null) {
    const rest = archived.slice(at)
    onlyArchived(rest.length)
    yield rest
    at = archived.length
    row = await next()
  }
}

/** Returns a function that gives archived rows the columns of the table. Newer columns are null. */
function rowsAs({ table, day, columns: archived }: Manifest, columns: readonly ManifestColumn[]) {
  const lost = archived.find(({ name }) => !columns.some((column) => column.name === name))
  if (lost !== undefined) {
    throw new DamagedArchive(`${table} of ${day} has a column ${lost.name}, which the database does not have`)
  }
  const toServer = serverRow(archived)
  const indexes = columns.map(({ name }) => archived.findIndex((column) => column.name === name))
  return (row: readonly unknown[]): QueryRow => {
    const texts = toServer(row)
    return indexes.map((index) => (index < 0 ? null : (texts[index] ?? null)))
  }
}
