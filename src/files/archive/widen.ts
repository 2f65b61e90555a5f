import { randomName } from '../../runtime/randomness.js'
import { type Pointers, readMetadata, readPointers, type ShownFile, shownFiles } from '../iceberg/catalog.js'
import { type CommitContext, commitTables } from '../iceberg/commit.js'
import { columnsProperty, fieldOf } from '../iceberg/metadata.js'
import type { PublishedTable } from '../iceberg/tables.js'
import type { ArchiveTarget } from '../layout/target.js'
import { DamagedArchive } from '../layout/target.js'
import type { ArchiveFile } from '../layout/archiveFile.js'
import { fileRows, PartitionWriter } from './file.js'
import { parquetColumns, serverRow, type StoredColumn } from '../layout/rowText.js'
import { replaceFiles } from './state.js'
import { type Day, dayOf } from '../layout/tables.js'

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
export async function widenTable(
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
