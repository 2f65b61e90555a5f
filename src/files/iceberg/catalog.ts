import { type Kysely, sql } from 'kysely'
import type { Database } from '../../db/schema.js'
import { messageOf } from '../../runtime/text.js'
import { type Day, type DayRange, isInRange } from '../layout/tables.js'
import { type ArchiveTarget, DamagedArchive } from '../layout/target.js'
import { type DataFile, entryStatus, type ListedManifest, type ManifestEntry, readAvro } from './manifests.js'
import { columnsProperty, currentFields, currentSnapshot, type TableColumns, type TableMetadata } from './metadata.js'
import { dayOfFile, type PublishedTable, publishedTables, sourceOf } from './tables.js'

/** Catalog and namespace by which engines find the tables, as in `recorder.market.fills`. */
const catalog = 'recorder'
const namespace = 'market'

/** URL of each table's current metadata, by table. */
export type Pointers = ReadonlyMap<string, string>

/** Reads the pointers that the database has. */
export async function readPointers(db: Kysely<Database>): Promise<Pointers> {
  const rows = await db
    .selectFrom('iceberg.iceberg_tables')
    .select(['table_name', 'metadata_location'])
    .where('catalog_name', '=', catalog)
    .where('table_namespace', '=', namespace)
    .execute()
  return new Map(rows.map(({ table_name, metadata_location }) => [table_name, metadata_location ?? '']))
}

/**
 * Reads the pointers that the archive itself has, for readers by path. They may be older than those of its database. They
 * are read until two readings are equal: a run that tells new ones meanwhile would mix old rows with new proof.
 */
export async function readHints(target: ArchiveTarget): Promise<Pointers> {
  let before: string | undefined
  for (;;) {
    const found = new Map<string, string>()
    for (const { name } of publishedTables) {
      const version = (await target.read(hintPath(name)))?.toString().trim()
      if (version !== undefined) found.set(name, `${urlOf(target)}/${metadataFolder(name)}v${version}.metadata.json`)
    }
    const now = [...found.values()].join()
    if (now === before) return found
    before = now
  }
}

/** Moves a table's pointer to other metadata. Throws if another process has moved it since it was read. */
export async function movePointer(
  db: Kysely<Database>,
  { name, from, to }: { readonly name: string; readonly from: string | null; readonly to: string },
): Promise<void> {
  const key = { catalog_name: catalog, table_namespace: namespace, table_name: name }
  const values = { metadata_location: to, previous_metadata_location: from }
  const moved = await db
    .insertInto('iceberg.iceberg_tables')
    .values({ ...key, ...values, iceberg_type: 'TABLE' })
    .onConflict((conflict) =>
      conflict
        .columns(['catalog_name', 'table_namespace', 'table_name'])
        .doUpdateSet(values)
        .where(sql<boolean>`iceberg_tables.metadata_location is not distinct from ${from}`),
    )
    .returning('table_name')
    .execute()
  if (moved.length === 0) {
    throw new Error(`somebody else has just written ${name}: let one archiver write the tables of a database`)
  }
}

/** Returns the URL by which engines find an archive. */
export function urlOf({ name }: ArchiveTarget): string {
  return name.startsWith('s3:') ? name.replace(/\/$/, '') : `file://${name}`
}

export function pathOf(target: ArchiveTarget, url: string): string {
  return url.slice(urlOf(target).length + 1)
}

/** Folder of all tables, named as their namespace. */
export const tablesFolder = `${namespace}/`

export function tableFolder(table: string): string {
  return `${tablesFolder}${table}/`
}

export function metadataFolder(table: string): string {
  return `${tableFolder(table)}metadata/`
}

export function hintPath(table: string): string {
  return `${metadataFolder(table)}version-hint.text`
}

/** Returns the version in the URL of metadata; 0 if there is none. */
export function versionOf(url: string): number {
  return Number(/\/v(\d+)\.metadata\.json$/.exec(url)?.[1] ?? 0)
}

/** Reads the metadata of a table. Throws a `DamagedArchive` if they are not of this archive. */
export async function readMetadata(target: ArchiveTarget, url: string): Promise<TableMetadata> {
  if (!url.startsWith(`${urlOf(target)}/`)) {
    throw new DamagedArchive(`the tables of this database are elsewhere, in ${url}: move the archive back there`)
  }
  const bytes = await readWhole(target, url)
  try {
    const metadata = JSON.parse(bytes.toString('utf8')) as TableMetadata
    currentSnapshot(metadata)
    return metadata
  } catch (error) {
    throw new DamagedArchive(`${url} is damaged: ${messageOf(error)}; ${advice}`, { cause: error })
  }
}

/** Advice for a table whose metadata are lost. */
const advice = 'bring it back from a copy of the archive'

export function readList(target: ArchiveTarget, url: string): Promise<ListedManifest[]> {
  return readRecords(target, url)
}

/** Reads the entries of a manifest, without those of deleted files. */
export async function readEntries(target: ArchiveTarget, url: string): Promise<ManifestEntry[]> {
  const entries = await readRecords<ManifestEntry>(target, url)
  return entries.filter(({ status }) => status !== entryStatus.deleted)
}

async function readRecords<Entry>(target: ArchiveTarget, url: string): Promise<Entry[]> {
  const bytes = await readWhole(target, url)
  try {
    return await readAvro<Entry>(bytes)
  } catch (error) {
    throw new DamagedArchive(`${url} is damaged: ${messageOf(error)}; ${advice}`, { cause: error })
  }
}

async function readWhole(target: ArchiveTarget, url: string): Promise<Buffer> {
  const bytes = await target.read(pathOf(target, url))
  if (bytes === null) throw new DamagedArchive(`${url} is missing; ${advice}`)
  return bytes
}

/** A file that the current snapshot of a table shows. */
export interface ShownFile {
  readonly path: string
  readonly table: string
  readonly divider: string
  /** Null for a table that is archived whole. */
  readonly day: Day | null
  readonly rows: number
  readonly bytes: number
  /** Columns of its table. */
  readonly columns: TableColumns
}

/** Lists the files that a table shows of some days, by path. Resolves to none if the table was never written. */
export async function shownFiles(
  target: ArchiveTarget,
  table: PublishedTable,
  pointers: Pointers,
  range: DayRange = {},
): Promise<ShownFile[]> {
  const url = pointers.get(table.name)
  if (url === undefined) return []
  const found: ShownFile[] = []
  const metadata = await readMetadata(target, url)
  const columns = columnsIn(metadata)
  const { 'manifest-list': list } = currentSnapshot(metadata)
  for (const { manifest_path: manifest } of await readList(target, list)) {
    const month = monthOf(manifest)
    const isBefore = range.from !== undefined && month < range.from.slice(0, 7)
    const isAfter = range.to !== undefined && month > range.to.slice(0, 7)
    if (table.timeColumn !== undefined && (isBefore || isAfter)) continue
    for (const { data_file: file } of await readEntries(target, manifest)) {
      const shown = { ...shownFile(target, table, file), columns }
      if (shown.day === null || isInRange(shown.day, range)) found.push(shown)
    }
  }
  return found.toSorted((a, b) => (a.path < b.path ? -1 : 1))
}

/** Lists the files of a table, and of the proof that is about it. */
export async function shownWithProof(
  target: ArchiveTarget,
  table: string,
  pointers: Pointers,
  range: DayRange = {},
): Promise<ShownFile[]> {
  const found: ShownFile[] = []
  for (const one of publishedTables.filter(({ name, divider }) => name === table || divider === 'stream'))
    found.push(...(await shownFiles(target, one, pointers, range)))
  return found.filter((file) => sourceOf(file) === table)
}

function dayOf(table: PublishedTable, file: DataFile): Day | null {
  try {
    return dayOfFile(table, file)
  } catch (error) {
    throw new DamagedArchive(`${file.file_path} is not of ${table.name}; ${advice}`, { cause: error })
  }
}

function shownFile(target: ArchiveTarget, table: PublishedTable, file: DataFile): Omit<ShownFile, 'columns'> {
  return {
    path: pathOf(target, file.file_path),
    table: table.name,
    divider: String(file.partition[table.divider]),
    day: dayOf(table, file),
    rows: file.record_count,
    bytes: file.file_size_in_bytes,
  }
}

/** Name of the only manifest of a table that is archived whole, as long as that of a month. */
export const wholeTable = 'current'

/** Returns the month of a manifest by its name. A table has one manifest a month. */
export function monthOf(manifest: string): string {
  return manifest.slice(manifest.lastIndexOf('/') + 1).slice(0, 7)
}

/**
 * Lists the paths of all files that the tables need, for every snapshot that readers may still hold. Throws a
 * `DamagedArchive` if a table cannot be read, because it may need any file.
 */
export async function neededFiles(target: ArchiveTarget, pointers: Pointers): Promise<Set<string>> {
  const urls = new Set<string>()
  const paths = new Set<string>()
  for (const [name, pointer] of pointers) {
    const metadata = await readMetadata(target, pointer)
    urls.add(pointer)
    for (const { 'metadata-file': url } of metadata['metadata-log']) urls.add(url)
    for (const { 'manifest-list': list } of metadata.snapshots) {
      urls.add(list)
      for (const { manifest_path: manifest } of await readList(target, list)) {
        if (urls.has(manifest)) continue
        urls.add(manifest)
        for (const { data_file: file } of await readEntries(target, manifest)) urls.add(file.file_path)
      }
    }
    paths.add(hintPath(name))
  }
  for (const url of urls) paths.add(pathOf(target, url))
  return paths
}

function columnsIn(metadata: TableMetadata): TableColumns {
  const first = new Set(metadata.schemas[0]?.fields.map(({ name }) => name))
  const written = JSON.parse(metadata.properties[columnsProperty] ?? '[]') as readonly { readonly name: string }[]
  const required = new Set(written.map(({ name }) => name).filter((name) => first.has(name)))
  return { fields: currentFields(metadata), required }
}
