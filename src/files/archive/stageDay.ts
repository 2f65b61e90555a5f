import type { QueryColumn, QueryRow } from '../../db/readOnlyQuery.js'
import type { MarketTable } from '../../market/stream.js'
import { type DecimalExtent, extentList, extentsIn, isDecimal, UnfitDecimal, withSpare } from '../parquet/columns.js'
import { type ArchivedTable, type ArchiveFile, type Day, dayEnd, dayStart, proofTables } from '../layout/tables.js'
import { type ArchiveReader, type ExpectedFile, fileRows, PartitionWriter, type StagedFile } from './file.js'
import { serverRow, type StoredColumn } from '../layout/rowText.js'
import { byBytes, rowsOf, rowsOfDay, type Snapshot, symbolsOfDay, tableColumns } from './rows.js'
import { placesOf, unitsAt } from '../../market/values.js'

/** Columns of each table of the archive that has files, with the digits of their decimals. */
type KnownColumns = ReadonlyMap<string, readonly StoredColumn[]>

/** A day in local files that no reader sees yet. */
interface StagedDay {
  readonly files: readonly StagedFile[]
  readonly columns: KnownColumns
}

interface StageOptions {
  /** Local folder for the files. Null to write none, and only make the digests of their rows. */
  readonly folder: string | null
  readonly reader: ArchiveReader
  /** Columns of the files that the archive has. Digests do not depend on them. */
  readonly known?: KnownColumns | undefined
  /** Final files of the day. Rows with a key that one of them has are left out. */
  readonly finalFiles: readonly ArchiveFile[]
  /** Called with the number of rows written so far. Throwing an error ends the work. */
  readonly onRows?: ((rows: number) => void) | undefined
}

/**
 * Zstandard levels by table. Level 9 makes short runs of rarely repeating prices, as in candles, a sixth smaller. Fills
 * are smallest at level 1, which is also the fastest.
 */
const levels: Readonly<Partial<Record<MarketTable, number>>> = { candles: 9, fills: 1 }

/** Writes what a snapshot has of a day of a table, and the proof that is about it. Memory does not grow with the day. */
export async function stageDay(
  snapshot: Snapshot,
  table: ArchivedTable,
  day: Day,
  options: StageOptions,
): Promise<StagedDay> {
  const { folder, known } = options
  const columns = new Map<string, readonly StoredColumn[]>()
  const files: StagedFile[] = []
  const rows = await stageRows(snapshot, table, day, options)
  files.push(...rows.files)
  if (rows.files.length > 0) columns.set(table.name, rows.columns)
  for (const proof of table.stream === null ? [] : proofTables) {
    const parameters = [table.stream, new Date(dayStart(day)), new Date(dayEnd(day))]
    const names = proof.columns.map(({ name }) => `"${name}"`)
    const source = { sql: `(${proof.sql}) as q (${names.join(', ')})`, parameters }
    const stage = async (fitted: readonly StoredColumn[]): Promise<StagedTable> => {
      const writer = new PartitionWriter({ folder, table: proof.name, day, divider: table.name, columns: fitted })
      await writeAll(writer, snapshot.stream(proof.sql, parameters))
      return { columns: fitted, files: writer.files }
    }
    const staged = await fitting(snapshot, proof.columns, source, known && (known.get(proof.name) ?? []), stage)
    files.push(...staged.files)
    if (staged.files.length > 0) columns.set(proof.name, staged.columns)
  }
  return { files, columns }
}

interface StagedTable {
  readonly columns: readonly StoredColumn[]
  readonly files: readonly StagedFile[]
}

async function stageRows(
  snapshot: Snapshot,
  table: ArchivedTable,
  day: Day,
  { folder, reader, known, finalFiles, onRows }: StageOptions,
): Promise<StagedTable> {
  const described = await tableColumns(snapshot, table)
  const symbols = await symbolsOfDay(snapshot, table, day)
  const order = finalFiles.length === 0 ? null : await archivedOrder(snapshot, table, described)
  const stage = async (columns: readonly StoredColumn[]): Promise<StagedTable> => {
    const files: StagedFile[] = []
    let rows = 0
    for (const [category, named] of symbols) {
      const writer = new PartitionWriter({
        folder,
        table: table.name,
        day,
        divider: category,
        columns,
        level: levels[table.name],
      })
      const own = rowsOf(snapshot, table, writer.columns, { day, category, symbols: named })
      const archived = finalFiles.filter(({ table: of, divider }) => of === table.name && divider === category)
      const fresh = order === null ? own : withoutArchived(own, { reader, day, files: archived, order, columns })
      await writeAll(writer, fresh, (written) => onRows?.(rows + written))
      rows += writer.rows
      files.push(...writer.files)
    }
    return { columns, files }
  }
  if (symbols.size === 0) return stage(described)
  return fitting(snapshot, described, rowsOfDay(table, day), known && (known.get(table.name) ?? []), stage)
}

async function writeAll(
  writer: PartitionWriter,
  batches: AsyncIterable<readonly QueryRow[]>,
  onRows?: (rows: number) => void,
): Promise<void> {
  try {
    for await (const batch of batches) {
      await writer.write(batch)
      onRows?.(writer.rows)
    }
  } finally {
    await writer.close()
  }
}

/** Stages rows with columns that hold all their decimals, and those of the files that are there, if files are written. */
async function fitting(
  snapshot: Snapshot,
  columns: readonly QueryColumn[],
  from: { readonly sql: string; readonly parameters: readonly unknown[] },
  known: readonly StoredColumn[] | undefined,
  stage: (columns: readonly StoredColumn[]) => Promise<StagedTable>,
): Promise<StagedTable> {
  const expected = known === undefined ? columns : asKnown(columns, known)
  if (expected !== null) {
    try {
      return await stage(expected)
    } catch (error) {
      if (!(error instanceof UnfitDecimal)) throw error
      // The failed attempt may have left its cursor open, whose name the next one needs.
      await snapshot.query('close all')
    }
  }
  return stage(await measured(snapshot, columns, from, known ?? []))
}

/** Adds the digits that earlier files needed. Returns null if a decimal column is new. */
function asKnown(columns: readonly QueryColumn[], known: readonly StoredColumn[]): StoredColumn[] | null {
  const found = columns.map(({ name, type }): StoredColumn | null => {
    if (!isDecimal(type)) return { name, type }
    const { digits, scale } = known.find((column) => column.name === name) ?? {}
    return digits === undefined || scale === undefined ? null : { name, type, digits, scale }
  })
  return found.includes(null) ? null : (found as StoredColumn[])
}

/** Adds the digits that the rows of a day and earlier files need. */
async function measured(
  snapshot: Snapshot,
  columns: readonly QueryColumn[],
  from: { readonly sql: string; readonly parameters: readonly unknown[] },
  known: readonly StoredColumn[],
): Promise<StoredColumn[]> {
  const [row = []] = await snapshot.query(`select ${extentList(columns)} from ${from.sql}`, from.parameters)
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

interface FinalFiles {
  readonly reader: ArchiveReader
  readonly day: Day
  /** Final files of one category. */
  readonly files: readonly ArchiveFile[]
  readonly order: Compare
  /** Columns of the rows of the database. */
  readonly columns: readonly StoredColumn[]
}

/** Leaves out the rows with a key that a final file has, whatever their values. What is final stays. */
async function* withoutArchived(
  own: AsyncIterable<readonly QueryRow[]>,
  { reader, day, files, order, columns }: FinalFiles,
): AsyncGenerator<readonly QueryRow[], void> {
  const archived = files.map((file) => keysOf(reader, { ...file, day }, columns))
  const next = await Promise.all(archived.map(async (keys) => (await keys.next()).value))
  for await (const batch of own) {
    const fresh: QueryRow[] = []
    for (const row of batch) {
      let isKnown = false
      for (const [i, keys] of archived.entries()) {
        let key = next[i]
        while (key && order(key, row) < 0) key = next[i] = (await keys.next()).value
        isKnown ||= key !== undefined && key !== null && order(key, row) === 0
      }
      if (!isKnown) fresh.push(row)
    }
    if (fresh.length > 0) yield fresh
  }
  for (const keys of archived) await keys.return(undefined)
}

/** Reads the rows of a file with the columns of the database. Columns that the file lacks are null. */
async function* keysOf(
  reader: ArchiveReader,
  file: ExpectedFile,
  columns: readonly StoredColumn[],
): AsyncGenerator<QueryRow, undefined> {
  for await (const { footer, rows } of fileRows(reader, file)) {
    const toServer = serverRow(footer.columns)
    const indexes = columns.map(({ name }) => footer.columns.findIndex((column) => column.name === name))
    for (const row of rows) {
      const texts = toServer(row)
      yield indexes.map((index) => (index < 0 ? null : (texts[index] ?? null)))
    }
  }
  return undefined
}

/** Returns the number of digits that two sets of values need together. */
function widen(a: DecimalExtent, b: DecimalExtent): DecimalExtent {
  return { digits: Math.max(a.digits, b.digits), scale: Math.max(a.scale, b.scale) }
}

/** Orders decimals, given as text, by their values. */
function compareDecimals(a: string, b: string): number {
  const places = Math.max(placesOf(a), placesOf(b))
  return Number(unitsAt(a, places) - unitsAt(b, places))
}
