import type { QueryRow } from '../../db/readOnlyQuery.js'
import type { ArchiveFile } from '../layout/archiveFile.js'
import type { ShownFile } from '../iceberg/catalog.js'
import { type ArchiveReader, type FileFooter, fileRows } from './file.js'
import { archivedOrder, withoutArchived } from './finalRows.js'
import { proofTables } from '../layout/proof.js'
import { linesOf, parquetColumns, RowDigest } from '../layout/rowText.js'
import { rowsOf, type Snapshot, symbolsOfDay, tableColumns } from './rows.js'
import type { ArchivedDay } from './state.js'
import { type ArchivedTable, dayEnd, dayStart } from '../layout/tables.js'
import { DamagedArchive } from '../layout/target.js'

interface DayFiles extends Pick<ArchivedDay, 'day' | 'files'> {
  /** Files that the tables show of the day. */
  readonly shown: readonly ShownFile[]
}

/** Message for a day with files that readers do not see, or with others that they do. */
export const showOthers = 'its tables show other files than this database has noted'

export function isShown({ files, shown }: Pick<DayFiles, 'files' | 'shown'>): boolean {
  const paths = new Set(shown.map(({ path }) => path))
  return paths.size === files.length && files.every(({ path }) => paths.has(path))
}

/** Reads all files of a day. Throws a `DamagedArchive` unless they have the rows that were written. */
async function readDay(reader: ArchiveReader, { day, files, shown }: DayFiles): Promise<Map<ArchiveFile, FileFooter>> {
  const footers = new Map<ArchiveFile, FileFooter>()
  const problems: string[] = []
  const columnsOf = new Map(shown.map(({ path, columns }) => [path, columns]))
  for (const file of files) {
    const columns = columnsOf.get(file.path)
    try {
      for await (const { footer } of fileRows(reader, { ...file, day, columns })) footers.set(file, footer)
    } catch (error) {
      if (!(error instanceof DamagedArchive)) throw error
      problems.push(error.message)
    }
  }
  if (problems.length > 0) throw new DamagedArchive(problems.join('; '))
  return footers
}

/**
 * Reads all files of a day, and compares those that are not final with what a snapshot has. Resolves to the difference;
 * null if there is none. Throws a `DamagedArchive` if a file is not as it was written.
 */
export async function checkDay(
  reader: ArchiveReader,
  table: ArchivedTable,
  noted: DayFiles,
  snapshot: Snapshot,
): Promise<string | null> {
  const footers = await readDay(reader, noted)
  const owned = (name: string, divider: string) =>
    [...footers].filter(([file]) => !file.isFinal && file.table === name && file.divider === divider)
  const rows = await compareRows(reader, table, noted, snapshot, footers)
  if (rows !== null) return rows
  for (const proof of table.stream === null ? [] : proofTables) {
    const parameters = [table.stream, new Date(dayStart(noted.day)), new Date(dayEnd(noted.day))]
    const files = owned(proof.name, table.name)
    if (!(await hasRows(files, snapshot.stream(proof.sql, parameters), 0))) {
      return `the ${proof.name.replaceAll('_', ' ')} of the day are others`
    }
  }
  return null
}

async function compareRows(
  reader: ArchiveReader,
  table: ArchivedTable,
  { day, files }: DayFiles,
  snapshot: Snapshot,
  footers: ReadonlyMap<ArchiveFile, FileFooter>,
): Promise<string | null> {
  const described = await tableColumns(snapshot, table)
  const symbols = await symbolsOfDay(snapshot, table, day)
  const order = files.some(({ isFinal }) => isFinal) ? await archivedOrder(snapshot, table, described) : null
  const own = files.filter((file) => file.table === table.name)
  for (const category of new Set([...symbols.keys(), ...own.map(({ divider }) => divider)])) {
    const ofCategory = own.filter(({ divider }) => divider === category)
    const owned = ofCategory.filter(({ isFinal }) => !isFinal).map((file) => [file, footerOf(footers, file)] as const)
    const known = owned[0]?.[1].columns ?? described
    const isKnown = ({ name, type }: { readonly name: string; readonly type: string }) =>
      described.some((column) => column.name === name && column.type === type)
    const foreign = known.find((column) => !isKnown(column))
    if (foreign !== undefined) return `the database has no column ${foreign.name} of type ${foreign.type}`
    const more = described.filter(({ name }) => !known.some((column) => column.name === name))
    const columns = [...known, ...more]
    const selection = { day, category, symbols: symbols.get(category) ?? [] }
    const stored = rowsOf(snapshot, table, parquetColumns(columns), selection)
    const final = ofCategory.filter(({ isFinal }) => isFinal)
    const fresh = order === null ? stored : withoutArchived(stored, { reader, day, files: final, order, columns })
    if (!(await hasRows(owned, fresh, more.length))) return `${category}: the rows are others`
  }
  return null
}

function footerOf(footers: ReadonlyMap<ArchiveFile, FileFooter>, file: ArchiveFile): FileFooter {
  const found = footers.get(file)
  if (found === undefined) throw new DamagedArchive(`${file.path} has no rows`)
  return found
}

/**
 * Returns true if files have exactly these rows, in this order.
 *
 * @param more number of columns at the end that the files do not have. They must be null.
 */
async function hasRows(
  files: readonly (readonly [ArchiveFile, FileFooter])[],
  batches: AsyncIterable<readonly QueryRow[]>,
  more: number,
): Promise<boolean> {
  const rest = files.map(([file, { columns }]) => ({ file, lineOf: linesOf(columns).ofServer }))
  let digest = new RowDigest()
  for await (const batch of batches) {
    for (const row of batch) {
      const [next] = rest
      if (next === undefined || row.slice(row.length - more).some((value) => value !== null)) return false
      digest.add(next.lineOf(row))
      if (digest.rows < next.file.rows) continue
      if (digest.sum().sha256 !== next.file.sha256) return false
      digest = new RowDigest()
      rest.shift()
    }
  }
  return rest.length === 0
}
