import { type Kysely, sql } from 'kysely'
import type { Database } from '../../db/schema.js'
import { messageOf } from '../../runtime/text.js'
import { listNewest, type ManifestPlace, readManifest, sha256 } from '../archive/manifest.js'
import { readArchivedDays } from '../archive/state.js'
import { type ArchiveTarget, DamagedArchive } from '../archive/target.js'
import { entryStatus, type ListedManifest, type ManifestEntry, readAvro } from './manifests.js'
import { currentSnapshot, type TableMetadata } from './metadata.js'
import { type PublishedTable, publishedTables } from './tables.js'

/** Catalog and namespace by which engines find the tables, as in `recorder.market.fills`. */
const catalog = 'recorder'
const namespace = 'market'

/** Reads the URL of each table's current metadata, by table. */
export async function readPointers(db: Kysely<Database>): Promise<Map<string, string>> {
  const rows = await db
    .selectFrom('iceberg.iceberg_tables')
    .select(['table_name', 'metadata_location'])
    .where('catalog_name', '=', catalog)
    .where('table_namespace', '=', namespace)
    .execute()
  return new Map(rows.map(({ table_name, metadata_location }) => [table_name, metadata_location ?? '']))
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
    throw new Error(`somebody else has just published ${name}: let one archiver publish the tables of a database`)
  }
}

/** The newest version of a day of an archived table. A published table consists of such parts. */
export interface Part extends ManifestPlace {
  /** SHA-256 of the part's manifest. */
  readonly sha256: string
}

/** Advice for a table whose metadata are lost. */
const advice = 'market-recorder archive rebuild-tables makes it anew'

/** Returns the URL by which engines find an archive. */
export function urlOf({ name }: ArchiveTarget): string {
  return name.startsWith('s3:') ? name.replace(/\/$/, '') : `file://${name}`
}

export function metadataFolder(table: string): string {
  return `iceberg/${table}/metadata/`
}

/** Returns the version in the URL of metadata; 0 if there is none. */
export function versionOf(url: string): number {
  return Number(/\/v(\d+)\.metadata\.json$/.exec(url)?.[1] ?? 0)
}

/** Returns the key of the part that a file belongs to. */
export function partOfFile(url: string): string {
  const archived = /\/table=([a-z_]+)\/day=([\d-]{10})\/.*-v(\d+)-\d+\.parquet$/.exec(url)
  const found = archived ?? /\/data\/([a-z_]+)\/([\d-]{10})-v(\d+)\.parquet$/.exec(url)
  return found?.slice(1).join(' ') ?? url
}

export function keyOf({ table, day, version }: ManifestPlace): string {
  return `${table} ${day} ${version}`
}

export function hashOf(parts: readonly Part[]): string {
  const lines = parts.map((part) => `${keyOf(part)} ${part.sha256}\n`)
  return sha256(lines.toSorted().join(''))
}

/** Lists the parts that a table must show, by the manifests of the archive. */
export async function partsOf(
  { db, target }: { readonly db: Kysely<Database> | null; readonly target: ArchiveTarget },
  { sources, timeColumn }: PublishedTable,
): Promise<Part[]> {
  const parts: Part[] = []
  for (const source of sources) {
    const digests = new Map<string, string>()
    const archived = db === null ? [] : await readArchivedDays(db, source)
    for (const [day, { version, digest }] of archived) digests.set(keyOf({ table: source, day, version }), digest)
    for (const place of await listNewest(target, source, { isWhole: timeColumn === undefined })) {
      const digest = digests.get(keyOf(place)) ?? (await readManifest(target, place)).sha256
      parts.push({ ...place, sha256: digest })
    }
  }
  return parts
}

/** Reads the metadata of a table. Throws a `DamagedArchive` if they are not of this archive. */
export async function readBase(target: ArchiveTarget, url: string) {
  if (!url.startsWith(`${urlOf(target)}/`)) throw new DamagedArchive(`it is published elsewhere, ${url}; ${advice}`)
  const bytes = await readWhole(target, url)
  try {
    const metadata = JSON.parse(bytes.toString('utf8')) as TableMetadata
    currentSnapshot(metadata)
    return { url, metadata }
  } catch (error) {
    throw new DamagedArchive(`${url} is damaged: ${messageOf(error)}; ${advice}`, { cause: error })
  }
}

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

function pathOf(target: ArchiveTarget, url: string): string {
  return url.slice(urlOf(target).length + 1)
}

async function readWhole(target: ArchiveTarget, url: string): Promise<Buffer> {
  const bytes = await target.read(pathOf(target, url))
  if (bytes === null) throw new DamagedArchive(`${url} is missing; ${advice}`)
  return bytes
}

/**
 * Lists the paths of all files that the tables need, for every snapshot that readers may still hold. Resolves to null
 * if nothing was ever published. Throws a `DamagedArchive` if a table cannot be read, because it may need any file.
 */
export async function neededFiles(db: Kysely<Database>, target: ArchiveTarget): Promise<Set<string> | null> {
  const pointers = await readPointers(db)
  const urls = new Set<string>()
  const paths = new Set<string>()
  for (const [name, pointer] of pointers) {
    const { metadata } = await readBase(target, pointer)
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
    paths.add(`${metadataFolder(name)}version-hint.text`)
  }
  for (const url of urls) paths.add(pathOf(target, url))
  return pointers.size === 0 ? null : paths
}

/** Compares each table with the manifests of the archive. Yields one line per difference. */
export async function* verifyTables(
  db: Kysely<Database>,
  target: ArchiveTarget,
): AsyncIterable<{ readonly table: string; readonly problem: string }> {
  const pointers = await readPointers(db)
  for (const table of publishedTables) {
    const pointer = pointers.get(table.name)
    if (pointer === undefined) continue
    try {
      const snapshot = currentSnapshot((await readBase(target, pointer)).metadata)
      const parts = await partsOf({ db: null, target }, table)
      const shown = new Set<string>()
      for (const { manifest_path: manifest } of await readList(target, snapshot['manifest-list'])) {
        for (const { data_file: file } of await readEntries(target, manifest)) {
          shown.add(fileKey(pathOf(target, file.file_path), file.record_count, file.file_size_in_bytes))
        }
      }
      const files = new Set<string>()
      for (const part of table.proof === undefined ? parts : []) {
        const manifest = await readManifest(target, part)
        for (const { path, rows, bytes } of manifest.files) files.add(fileKey(path, rows, bytes))
      }
      const isSame =
        table.proof !== undefined || (files.size === shown.size && [...files].every((key) => shown.has(key)))
      if (isSame && snapshot.summary['manifests-sha256'] === hashOf(parts)) continue
      yield {
        table: table.name,
        problem: `the table shows something else than ${pointer} was made of: run market-recorder archive`,
      }
    } catch (error) {
      if (!(error instanceof DamagedArchive)) throw error
      yield { table: table.name, problem: error.message }
    }
  }
}

function fileKey(path: string, rows: number, bytes: number): string {
  return `${path} ${rows} ${bytes}`
}
