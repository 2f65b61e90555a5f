import type { ArchivedTable, ArchiveFile } from '../layout/tables.js'
import type { ShownFile } from '../iceberg/catalog.js'
import { groupBy } from '../../market/values.js'
import { type ArchiveReader, fileRows } from './file.js'
import type { Snapshot } from './rows.js'
import { stageDay } from './stageDay.js'
import type { ArchivedDay } from './state.js'
import { DamagedArchive } from '../layout/target.js'

/** A day that the database has noted, with the files that the tables show of it. */
interface ShownDay extends Pick<ArchivedDay, 'day' | 'files'> {
  readonly shown: readonly ShownFile[]
}

/**
 * Reads all files of a day. Throws a `DamagedArchive` unless the tables show those that the database has noted, and these
 * have the rows that were written.
 */
export async function readDay(reader: ArchiveReader, { files, shown }: ShownDay): Promise<void> {
  const sums = new Map(files.map(({ path, sha256 }) => [path, sha256]))
  if (new Set(shown.map(({ path }) => path)).size !== files.length || !shown.every(({ path }) => sums.has(path)))
    throw new DamagedArchive('its tables show other files than this database has noted')
  await readShown(reader, shown, sums)
}

/** Reads files, whose rows must have these digests. A file without one must have the digest that it names itself. */
export async function readShown(
  reader: ArchiveReader,
  shown: readonly ShownFile[],
  sums: ReadonlyMap<string, string> = new Map(),
): Promise<void> {
  const problems: string[] = []
  for (const file of shown) {
    const sha256 = sums.get(file.path)
    try {
      for await (const _ of fileRows(reader, { ...file, ...(sha256 !== undefined && { sha256 }) }));
    } catch (error) {
      if (!(error instanceof DamagedArchive)) throw error
      problems.push(error.message)
    }
  }
  if (problems.length > 0) throw new DamagedArchive(problems.join('; '))
}

/** Reads all files of a day, and throws a `DamagedArchive` unless they have what a snapshot has and what is final. */
export async function checkDay(
  reader: ArchiveReader,
  table: ArchivedTable,
  known: ShownDay,
  snapshot: Snapshot,
): Promise<void> {
  await readDay(reader, known)
  const finalFiles = known.files.filter(({ isFinal }) => isFinal)
  const owned = known.files.filter(({ isFinal }) => !isFinal)
  const staged = await stageDay(snapshot, table, known.day, { folder: null, reader, finalFiles })
  const [changed] = changedPartitions(owned, staged.files)
  if (changed !== undefined) throw new DamagedArchive(`the archive has something else: other rows of ${changed}`)
}

type RowsOfFile = Pick<ArchiveFile, 'table' | 'divider' | 'sha256'>

/** Returns the name of the partition of a file, as in messages. */
export function partitionName({ table, divider }: RowsOfFile): string {
  return `${table.replaceAll('_', ' ')} of ${divider}`
}

/** Returns the names of partitions whose rows differ, or are split otherwise. */
export function changedPartitions(owned: readonly RowsOfFile[], staged: readonly RowsOfFile[]): ReadonlySet<string> {
  const [before, after] = [groupBy(owned, partitionName), groupBy(staged, partitionName)]
  const sumsOf = (files: readonly RowsOfFile[] = []) => files.map(({ sha256 }) => sha256).join()
  const names = new Set([...before.keys(), ...after.keys()])
  return new Set([...names].filter((name) => sumsOf(before.get(name)) !== sumsOf(after.get(name))))
}
