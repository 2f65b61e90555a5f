import type { RecorderDatabase } from '../../db/database.js'
import { sum } from '../../market/values.js'
import { randomName } from '../../runtime/randomness.js'
import { messageOf } from '../../runtime/text.js'
import {
  type Pointers,
  readMetadata,
  readPointers,
  type ShownFile,
  shownFiles,
  tableFolder,
} from '../iceberg/catalog.js'
import { type CommitContext, commitTables } from '../iceberg/commit.js'
import { publishedTable, type PublishedTable } from '../iceberg/tables.js'
import { type ArchivedTable, type ArchiveFile, type Day, dayOf } from '../layout/tables.js'
import { changedPartitions, partitionName } from './verify.js'
import { fileRows, PartitionWriter, type StagedFile } from './file.js'
import { parquetColumns, serverRow, type StoredColumn } from '../layout/rowText.js'
import { withSnapshot } from './rows.js'
import { stageDay } from './stageDay.js'
import { type ArchivedDay, forgetOtherDays, noteArchivedDay, readArchivedDays, replaceFiles } from './state.js'
import { type ArchiveTarget, DamagedArchive } from '../layout/target.js'
import { columnsProperty, fieldOf } from '../iceberg/metadata.js'

export interface WrittenDay {
  readonly table: string
  readonly day: Day
  /** Rows, bytes and files that the day now has in the archive. */
  readonly rows: number
  readonly bytes: number
  readonly files: number
}

/** Days that become visible together. A process that is killed loses this much work at most. */
const daysPerCommit = 10
const rowsPerCommit = 5_000_000

interface Change {
  readonly added: { readonly day: Day; readonly file: ArchiveFile }[]
  readonly removed: { readonly day: Day; readonly path: string }[]
}

/** Writes days as the database has them, and makes them visible several at a time. */
export class DayWriter {
  readonly written: WrittenDay[] = []
  readonly #database: RecorderDatabase
  readonly #context: CommitContext
  #columns: Map<string, readonly StoredColumn[]> | undefined
  readonly #changes = new Map<string, Change>()
  readonly #days: { readonly table: ArchivedTable; readonly noted: Pick<ArchivedDay, 'day' | 'files'> }[] = []
  /** Why the files of a table could not be widened. Each try would read all of them. */
  readonly #failures = new Map<string, DamagedArchive>()
  #rows = 0

  constructor(database: RecorderDatabase, context: CommitContext) {
    this.#database = database
    this.#context = context
  }

  /** Writes a day. Its final files stay, and its other files are replaced where their rows differ. */
  async write(table: ArchivedTable, day: Day, onRows?: (rows: number) => void): Promise<void> {
    const { target, folder, signal } = this.#context
    const known = await this.#known()
    const finalFiles = (await this.#filesOf(table, day)).files.filter(({ isFinal }) => isFinal)
    const options = { folder, reader: { target, signal }, known, finalFiles, onRows }
    const staged = await withSnapshot(this.#database, (snapshot) => stageDay(snapshot, table, day, options), { table })
    for (const [name, columns] of staged.columns) await this.#takeColumns(name, columns)
    const { files, isTrusted } = await this.#filesOf(table, day)
    const owned = files.filter(({ isFinal }) => !isFinal)
    const changed = changedPartitions(owned, staged.files)
    const isSame = (file: ArchiveFile | StagedFile) => isTrusted && !changed.has(partitionName(file))
    const kept = owned.filter(isSame)
    const added: ArchiveFile[] = []
    for (const file of staged.files) if (!isSame(file)) added.push(await this.#publish(day, file))
    for (const file of added) this.#change(file.table).added.push({ day, file })
    for (const file of owned) if (!kept.includes(file)) this.#change(file.table).removed.push({ day, path: file.path })
    const now = [...files.filter(({ isFinal }) => isFinal), ...kept, ...added]
    this.#days.push({ table, noted: { day, files: now } })
    if (added.length > 0 || kept.length < owned.length) {
      const own = now.filter((file) => file.table === table.name)
      const [rows, bytes] = [sum(own.map((file) => file.rows)), sum(own.map((file) => file.bytes))]
      this.written.push({ table: table.name, day, rows, bytes, files: own.length })
    }
    this.#rows += sum(added.map((file) => file.rows))
    if (this.#days.length >= daysPerCommit || this.#rows >= rowsPerCommit) await this.commit()
  }

  /** Makes visible what was written. */
  async commit(): Promise<void> {
    if (this.#days.length + this.#changes.size === 0) return
    const known = await this.#known()
    const changes = new Map(
      [...this.#changes].map(([name, change]) => [name, { ...change, columns: known.get(name) ?? [] }]),
    )
    await commitTables(this.#context, changes, async (transaction) => {
      for (const { table, noted } of this.#days) {
        await noteArchivedDay(transaction, table.name, noted)
        if (table.timeColumn === undefined) await forgetOtherDays(transaction, table.name, noted.day)
      }
    })
    this.#changes.clear()
    this.#days.length = 0
    this.#rows = 0
  }

  async #filesOf({ name, timeColumn }: ArchivedTable, day: Day) {
    const days = await readArchivedDays(this.#context.db, name, timeColumn === undefined ? undefined : day)
    const own = [...days.values()]
    const written = own.filter(({ files }) => files.length > 0)
    return { files: own.flatMap(({ files }) => files), isTrusted: written.every(({ isArchived }) => isArchived) }
  }

  async #known(): Promise<Map<string, readonly StoredColumn[]>> {
    const { db, target } = this.#context
    this.#columns ??= await columnsOfTables(target, await readPointers(db))
    return this.#columns
  }

  /**
   * Takes over the columns of staged files. If a decimal has another type now, all files of the table get it. If one of
   * them is damaged, the table stays as it is, and no wider day can be written before that file is back.
   */
  async #takeColumns(name: string, columns: readonly StoredColumn[]): Promise<void> {
    const known = await this.#known()
    const before = known.get(name)
    if (before !== undefined && !isSameType(before, columns)) {
      const failed = this.#failures.get(name)
      if (failed !== undefined) throw failed
      await this.commit()
      try {
        await widenTable(this.#context, publishedTable(name), columns)
      } catch (error) {
        if (error instanceof DamagedArchive) this.#failures.set(name, error)
        throw error
      }
    }
    known.set(name, columns)
  }

  #change(table: string): Change {
    const found = this.#changes.get(table) ?? { added: [], removed: [] }
    this.#changes.set(table, found)
    return found
  }

  /** Moves a file to its place and reads it back. */
  async #publish(day: Day, { localPath, ...file }: StagedFile): Promise<ArchiveFile> {
    const { target, signal } = this.#context
    const { divider } = publishedTable(file.table)
    const path = `${tableFolder(file.table)}data/day=${day}/${divider}=${file.divider}/${randomName(12)}.parquet`
    await target.publish(localPath, path)
    const published = { ...file, path }
    try {
      for await (const _ of fileRows({ target, signal }, { ...published, day }));
      return published
    } catch (error) {
      if (!(error instanceof DamagedArchive)) throw error
      await target.remove(path)
      throw new Error(`${file.table} of ${day} was not archived: ${messageOf(error)}`, { cause: error })
    }
  }
}

/** Reads the columns of the files of each table. */
export async function columnsOfTables(
  target: ArchiveTarget,
  pointers: Pointers,
): Promise<Map<string, readonly StoredColumn[]>> {
  const found = new Map<string, readonly StoredColumn[]>()
  for (const [name, url] of pointers) {
    const { properties } = await readMetadata(target, url)
    found.set(name, JSON.parse(properties[columnsProperty] ?? '[]') as StoredColumn[])
  }
  return found
}

/** Returns true if the columns that two sets of files share have the same types. */
export function isSameType(a: readonly StoredColumn[], b: readonly StoredColumn[]): boolean {
  const ids = new Map(parquetColumns(a).map((column) => [column.name, fieldOf(column).id]))
  return parquetColumns(b).every((column) => (ids.get(column.name) ?? fieldOf(column).id) === fieldOf(column).id)
}

/**
 * Writes all files of a table again with decimals of another type. Iceberg never changes a scale, so all files of a
 * table need the same one. Their rows stay the same, also where they are final. Throws a `DamagedArchive` if one of them
 * cannot be read, and then leaves no new file.
 */
async function widenTable(
  context: CommitContext,
  table: PublishedTable,
  columns: readonly StoredColumn[],
): Promise<void> {
  const { db, target } = context
  const replaced: { readonly day: Day; readonly path: string; readonly file: ArchiveFile }[] = []
  try {
    for (const shown of await shownFiles(target, table, await readPointers(db))) {
      const file = await widenFile(context, shown, columns)
      replaced.push({ day: shown.day ?? dayOf(0), path: shown.path, file })
    }
  } catch (error) {
    for (const { file } of replaced) await target.remove(file.path)
    if (!(error instanceof DamagedArchive)) throw error
    const what = `${table.name} has values that need wider decimals in all of its files`
    throw new DamagedArchive(`${error.message}; ${what}: bring the file back`, { cause: error })
  }
  const changes = new Map([[table.name, { added: replaced, removed: replaced, columns }]])
  await commitTables(context, changes, (transaction) => replaceFiles(transaction, replaced))
}

async function widenFile(
  { target, folder, signal }: CommitContext,
  shown: ShownFile,
  columns: readonly StoredColumn[],
): Promise<ArchiveFile> {
  let writer: PartitionWriter | undefined
  for await (const { footer, rows } of fileRows({ target, signal }, shown)) {
    const wider = footer.columns.map((own) => columns.find(({ name }) => name === own.name) ?? own)
    const { table, divider } = shown
    writer ??= new PartitionWriter({ folder, table, day: footer.day, divider, columns: wider, isOneFile: true })
    await writer.write(rows.map(serverRow(footer.columns)))
  }
  await writer?.close()
  const [staged] = writer?.files ?? []
  if (staged === undefined) throw new DamagedArchive(`${shown.path} has no rows`)
  const { localPath, ...file } = staged
  const path = shown.path.replace(/[^/]*$/, `${randomName(12)}.parquet`)
  await target.publish(localPath, path)
  return { ...file, path }
}
