import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Kysely } from 'kysely'
import { databaseNow } from '../../db/database.js'
import type { Database } from '../../db/schema.js'
import { random, randomName } from '../../runtime/randomness.js'
import { type ArchiveFile, type Day, dayEnd, dayStart } from '../layout/tables.js'
import { parquetColumns, type StoredColumn } from '../layout/rowText.js'
import type { ArchiveTarget } from '../layout/target.js'
import * as catalog from './catalog.js'
import {
  type DataFile,
  entryStatus,
  listBytes,
  type ListedManifest,
  listedManifest,
  manifestBytes,
  type ManifestEntry,
} from './manifests.js'
import {
  currentFields,
  currentSnapshot,
  type Field,
  fieldOf,
  nextMetadata,
  type PartitionColumn,
  type TableMetadata,
} from './metadata.js'
import { type PublishedTable, publishedTables } from './tables.js'
import { dayMs, sum } from '../../market/values.js'
import { fieldId } from '../parquet/columns.js'

export interface CommitContext {
  readonly db: Kysely<Database>
  readonly target: ArchiveTarget
  /** Local folder for files that are being written. */
  readonly folder: string
  readonly now: () => number
  /** Days for which superseded snapshots are kept. */
  readonly snapshotDays: number
  /** Ends the commit on abort, before it is visible. */
  readonly signal?: AbortSignal | undefined
}

/** Difference between two snapshots of a table. */
interface TableChange {
  readonly added: readonly { readonly day: Day; readonly file: ArchiveFile }[]
  readonly removed: readonly { readonly day: Day; readonly path: string }[]
  /** Columns of the added files. */
  readonly columns: readonly StoredColumn[]
}

/**
 * Adds a snapshot to each changed table. Files are written first. All pointers are moved last, in one transaction with
 * `note`, so that a process that is killed leaves files that no snapshot names.
 */
export async function commitTables(
  context: CommitContext,
  changes: ReadonlyMap<string, TableChange>,
  note: (transaction: Kysely<Database>) => Promise<void>,
): Promise<void> {
  const { db } = context
  const pointers = await catalog.readPointers(db)
  const moved = new Map<string, string>()
  // Rows become visible before their proof, also to readers that go by path.
  for (const table of publishedTables) {
    const change = changes.get(table.name)
    if (change === undefined || change.added.length + change.removed.length === 0) continue
    context.signal?.throwIfAborted()
    moved.set(table.name, await writeSnapshot(context, table, pointers.get(table.name), change))
  }
  await db.transaction().execute(async (transaction) => {
    for (const [name, to] of moved) {
      await catalog.movePointer(transaction, { name, from: pointers.get(name) ?? null, to })
    }
    await note(transaction)
  })
  await writeHints(context, moved)
}

/** Tells readers by path of the current metadata, rows before proof. They are told after the pointers have moved. */
export async function writeHints(
  context: Pick<CommitContext, 'target' | 'folder'>,
  pointers: catalog.Pointers,
): Promise<void> {
  for (const { name } of publishedTables) {
    const url = pointers.get(name)
    if (url === undefined) continue
    const version = String(catalog.versionOf(url))
    const path = catalog.hintPath(name)
    if ((await context.target.read(path))?.toString() !== version) await putFile(context, path, version)
  }
}

/** Writes the files of a snapshot. Resolves to the URL of its metadata, which no pointer names yet. */
async function writeSnapshot(
  context: CommitContext,
  table: PublishedTable,
  pointer: string | undefined,
  change: TableChange,
): Promise<string> {
  const { target } = context
  const metadata = pointer === undefined ? null : await catalog.readMetadata(target, pointer)
  const base = metadata === null || pointer === undefined ? null : { url: pointer, metadata }
  const own = {
    // Stays below 2⁵³, because it is also a JSON number.
    id: 1 + Math.floor(random() * 2 ** 52),
    sequence: (metadata?.['last-sequence-number'] ?? 0) + 1,
  }
  const folder = catalog.metadataFolder(table.name)
  const put = async (name: string, bytes: Buffer) => {
    await putFile(context, `${folder}${name}`, bytes)
    return `${catalog.urlOf(target)}/${folder}${name}`
  }
  const fields = fieldsOf(metadata, change.columns)
  const partition = partitionOf(table)
  const { kept, changed } = await planManifests(target, table, metadata, change, own)
  const manifests = [...kept]
  for (const [month, entries] of changed) {
    const bytes = await manifestBytes(entries, fields, partition)
    const path = await put(`${month}-${own.id}.avro`, bytes)
    manifests.push(listedManifest(entries, { path, bytes: bytes.length, partition, ...own }))
  }
  const next = nextMetadata(base, {
    id: own.id,
    now: Math.min(context.now(), await databaseNow(context.db)),
    location: `${catalog.urlOf(target)}/${catalog.tableFolder(table.name).slice(0, -1)}`,
    fields,
    partition,
    manifestList: await put(`snap-${own.id}.avro`, await listBytes(manifests)),
    summary: summaryOf(manifests, own.id),
    columns: JSON.stringify(change.columns),
    snapshotDays: context.snapshotDays,
  })
  // The number may be taken by metadata of a killed process, or of another archiver at this moment.
  for (let version = catalog.versionOf(pointer ?? '') + 1; ; version++) {
    const path = `${folder}v${version}.metadata.json`
    if (await target.create(path, `${JSON.stringify(next)}\n`)) return `${catalog.urlOf(target)}/${path}`
  }
}

/** Adds columns to those of a table. A decimal with another scale takes the place of the column of its name. */
function fieldsOf(metadata: TableMetadata | null, columns: readonly StoredColumn[]): Field[] {
  const fields = new Map((metadata === null ? [] : currentFields(metadata)).map((field) => [field.name, field]))
  for (const field of parquetColumns(columns).map(fieldOf)) fields.set(field.name, field)
  return [...fields.values()]
}

/** Keeps the manifests of months without a change. Of the others, an existing file keeps the snapshot that added it. */
async function planManifests(
  target: ArchiveTarget,
  table: PublishedTable,
  metadata: TableMetadata | null,
  { added, removed }: TableChange,
  { id, sequence }: { readonly id: number; readonly sequence: number },
): Promise<{ kept: ListedManifest[]; changed: ReadonlyMap<string, ManifestEntry[]> }> {
  const monthOfDay = (day: Day) => (table.timeColumn === undefined ? catalog.wholeTable : day.slice(0, 7))
  const changed = new Map<string, ManifestEntry[]>()
  for (const { day } of [...added, ...removed]) changed.set(monthOfDay(day), [])
  const gone = new Set(removed.map(({ path }) => path))
  const kept: ListedManifest[] = []
  const listed = metadata === null ? [] : await catalog.readList(target, currentSnapshot(metadata)['manifest-list'])
  for (const manifest of listed) {
    const entries = changed.get(catalog.monthOf(manifest.manifest_path))
    if (entries === undefined) {
      kept.push(manifest)
      continue
    }
    for (const entry of await catalog.readEntries(target, manifest.manifest_path)) {
      const isGone = gone.has(catalog.pathOf(target, entry.data_file.file_path))
      const fate = isGone ? { status: entryStatus.deleted, snapshot_id: id } : { status: entryStatus.existing }
      entries.push({ ...entry, ...fate })
    }
  }
  for (const { day, file } of added) {
    const url = `${catalog.urlOf(target)}/${file.path}`
    changed.get(monthOfDay(day))?.push({
      status: entryStatus.added,
      snapshot_id: id,
      sequence_number: sequence,
      file_sequence_number: sequence,
      data_file: dataFile(table, url, day, file),
    })
  }
  return { kept, changed }
}

/** Writes a small file in one step, in place of one that may be there. */
export async function putFile(
  { target, folder }: Pick<CommitContext, 'target' | 'folder'>,
  path: string,
  content: Buffer | string,
): Promise<void> {
  const local = join(folder, `${randomName(8)}.part`)
  try {
    await writeFile(local, content)
    await target.publish(local, path)
  } finally {
    await rm(local, { force: true })
  }
}

function partitionOf({ timeColumn, divider }: PublishedTable): PartitionColumn[] {
  const days =
    timeColumn === undefined
      ? []
      : [{ name: `${timeColumn}_day`, 'field-id': 1001, 'source-id': fieldId(timeColumn), transform: 'day' as const }]
  return [...days, { name: divider, 'field-id': 1000, 'source-id': fieldId(divider), transform: 'identity' }]
}

interface PlacedFile {
  readonly divider: string
  readonly rows: number
  readonly bytes: number
  readonly symbols: readonly [string, string]
}

/** Describes a file, with the bounds that follow from its place. Engines skip files by these bounds. */
function dataFile({ timeColumn, divider }: PublishedTable, url: string, day: Day, file: PlacedFile): DataFile {
  const bounds: [id: number, lower: Buffer, upper: Buffer][] = [
    [fieldId(divider), Buffer.from(file.divider), Buffer.from(file.divider)],
    [fieldId('symbol'), Buffer.from(file.symbols[0]), Buffer.from(file.symbols[1])],
  ]
  const partition: Record<string, string | number> = { [divider]: file.divider }
  if (timeColumn !== undefined) {
    bounds.push([fieldId(timeColumn), instant(dayStart(day), 0n), instant(dayEnd(day), -1n)])
    partition[`${timeColumn}_day`] = dayStart(day) / dayMs
  }
  return {
    content: 0,
    file_path: url,
    file_format: 'PARQUET',
    partition,
    record_count: file.rows,
    file_size_in_bytes: file.bytes,
    lower_bounds: bounds.map(([key, value]) => ({ key, value })),
    upper_bounds: bounds.map(([key, , value]) => ({ key, value })),
  }
}

function instant(time: number, moreMicros: bigint): Buffer {
  const bytes = Buffer.alloc(8)
  bytes.writeBigInt64LE(BigInt(time) * 1000n + moreMicros)
  return bytes
}

/** Counts the files and rows of a snapshot in the form that engines show and use. */
function summaryOf(manifests: readonly ListedManifest[], id: number): Record<string, string> {
  const total = (all: readonly ListedManifest[], count: (one: ListedManifest) => number) => sum(all.map(count))
  const own = manifests.filter((one) => one.added_snapshot_id === id)
  const added = total(own, (one) => one.added_files_count)
  const deleted = total(own, (one) => one.deleted_files_count)
  return {
    operation: deleted === 0 ? 'append' : added === 0 ? 'delete' : 'overwrite',
    'added-data-files': String(added),
    'deleted-data-files': String(deleted),
    'total-data-files': String(total(manifests, (one) => one.added_files_count + one.existing_files_count)),
    'total-records': String(total(manifests, (one) => one.added_rows_count + one.existing_rows_count)),
  }
}
