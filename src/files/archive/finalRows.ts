import type { QueryColumn, QueryRow } from '../../db/readOnlyQuery.js'
import { compareDecimals } from '../parquet/decimals.js'
import type { ArchiveFile } from '../layout/archiveFile.js'
import { type ArchiveReader, type ExpectedFile, fileRows } from './file.js'
import { serverRow, type StoredColumn } from '../layout/rowText.js'
import { byBytes, type Snapshot } from './rows.js'
import type { ArchivedTable, Day } from '../layout/tables.js'

type Compare = (a: QueryRow, b: QueryRow) => number

/** Returns the order of a category's rows in a file. The rows have unique keys in this order. */
export async function archivedOrder(
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
export async function* withoutArchived(
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
