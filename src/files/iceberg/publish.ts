import { rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Kysely } from 'kysely'
import { databaseNow } from '../../db/database.js'
import type { Database } from '../../db/schema.js'
import type { TimeMs } from '../../market/values.js'
import { random, randomName } from '../../runtime/randomness.js'
import { messageOf } from '../../runtime/text.js'
import { type Manifest, type ManifestColumn, readManifest } from '../archive/manifest.js'
import { byBytes } from '../archive/rows.js'
import { parquetColumns } from '../archive/rowText.js'
import { noteArchivedDay, type NotedDay } from '../archive/state.js'
import type { Day } from '../archive/tables.js'
import { type ArchiveTarget, DamagedArchive } from '../archive/target.js'
import { UnfitDecimal, widen } from '../parquet/decimals.js'
import { createParquetFile } from '../parquet/file.js'
import {
  type DataFile,
  entryStatus,
  type ListedManifest,
  listedManifest,
  listBytes,
  manifestBytes,
  type ManifestEntry,
  summaryOf,
} from './manifests.js'
import * as current from './current.js'
import { currentFields, currentSnapshot, type Field, fieldOf, nextMetadata } from './metadata.js'
import { dataFile, partitionOf, type PublishedTable, publishedTables } from './tables.js'

interface PublishContext {
  readonly db: Kysely<Database>
  readonly target: ArchiveTarget
  /** Local folder for files that are being written. */
  readonly folder: string
  readonly now: () => TimeMs
  /** Days for which superseded snapshots are kept. */
  readonly snapshotDays: number
  /** Ends the publication on abort. */
  readonly signal?: AbortSignal | undefined
}

/** Days of an archived table whose files have too few digits for the decimals of other days. */
interface NarrowDays {
  readonly table: string
  readonly days: readonly Day[]
  /** Columns with enough digits for the values of all days. */
  readonly columns: readonly ManifestColumn[]
}

/** Thrown if files of a table have a decimal column with different types. No engine reads them as one column. */
class NotUniform extends Error {
  constructor(readonly narrow: NarrowDays) {
    super(`${narrow.days.length} days of ${narrow.table} have to be written again with more room for decimals`)
  }
}

interface Published {
  /** Days that have to be written again before their tables can be published. */
  readonly narrow: readonly NarrowDays[]
  /** Why tables were not published, one line each. */
  readonly problems: readonly string[]
}

/**
 * Publishes the archive as snapshots of the tables. Records archived days in the transaction that moves the pointers.
 * Files are written first, so a process that is killed leaves files that no snapshot names.
 *
 * @param isAnew writes every manifest again, even if nothing has changed or the tables cannot be read
 */
export async function publishTables(
  context: PublishContext,
  noted: readonly NotedDay[],
  { isAnew = false }: { readonly isAnew?: boolean } = {},
): Promise<Published> {
  const { db, target } = context
  const pointers = await current.readPointers(db)
  const moved = new Map<string, string>()
  const narrow: NarrowDays[] = []
  const problems: string[] = []
  for (const table of publishedTables) {
    context.signal?.throwIfAborted()
    try {
      const url = await writeSnapshot(context, table, { pointer: pointers.get(table.name), noted, isAnew })
      if (url !== null) moved.set(table.name, url)
    } catch (error) {
      if (error instanceof NotUniform) narrow.push(error.narrow)
      else if (!(error instanceof DamagedArchive) && !(error instanceof UnfitDecimal)) throw error
      problems.push(`the table ${table.name} was not published: ${messageOf(error)}`)
    }
  }
  await db.transaction().execute(async (transaction) => {
    for (const day of noted) await noteArchivedDay(transaction, day)
    for (const [name, to] of moved)
      await current.movePointer(transaction, { name, from: pointers.get(name) ?? null, to })
  })
  for (const [name, url] of new Map([...pointers, ...moved])) {
    // Readers by path follow this hint. It is written after the pointer moved, so that it never names other metadata.
    const hint = `${current.metadataFolder(name)}version-hint.text`
    const version = String(current.versionOf(url))
    if ((await target.read(hint))?.toString() !== version) await putFile(context, hint, version)
  }
  return { narrow, problems }
}

interface From {
  /** URL of the current metadata. */
  readonly pointer: string | undefined
  readonly noted: readonly NotedDay[]
  readonly isAnew: boolean
}

/** Writes the files of a snapshot. Resolves to the URL of its unpublished metadata; null if nothing is new. */
async function writeSnapshot(context: PublishContext, table: PublishedTable, from: From): Promise<string | null> {
  const { target } = context
  const { pointer, isAnew } = from
  const parts = await current.partsOf(context, table, from.noted)
  if (parts.length === 0) return null
  const base = pointer === undefined ? null : await readBase(target, pointer, isAnew)
  const before = isAnew ? undefined : base?.metadata
  const shown = before && currentSnapshot(before)
  const hash = current.hashOf(parts)
  if (shown?.summary['manifests-sha256'] === hash) return null

  const known = shown === undefined ? [] : await current.readList(target, shown['manifest-list'])
  const empty = (shown?.summary[emptyMonths] ?? '').split(' ')
  const months = monthsOf(parts, known).filter(({ name }) => !empty.includes(shortName(name)))
  const kept = months.flatMap(({ same }) => same ?? [])
  const fresh = new FreshFiles(context, table, before === undefined ? [] : currentFields(before))
  // The id stays below 2⁵³, because it is also a JSON number.
  const id = 1 + Math.floor(random() * 2 ** 52)
  const own = { id, sequence: (base?.metadata['last-sequence-number'] ?? 0) + 1 }
  const changed: { readonly name: string; readonly entries: readonly ManifestEntry[] }[] = []
  const stillEmpty = monthsOf(parts, [])
    .map(({ name }) => shortName(name))
    .filter((name) => empty.includes(name))
  for (const { name, parts: wanted, former, same } of months) {
    if (same !== undefined) continue
    const entries = await entriesOf(fresh, wanted, former, own)
    if (entries.length > 0) changed.push({ name, entries })
    else stillEmpty.push(shortName(name))
  }
  await fresh.requireUniform(parts)

  const folder = current.metadataFolder(table.name)
  const put = async (name: string, bytes: Buffer) => {
    await putFile(context, `${folder}${name}`, bytes)
    return `${current.urlOf(target)}/${folder}${name}`
  }
  const partition = partitionOf(table)
  const fields = [...fresh.fields.values()]
  const manifests = [...kept]
  for (const { name, entries } of changed) {
    const bytes = await manifestBytes(entries, fields, partition)
    const path = await put(`${name}-${id}.avro`, bytes)
    manifests.push(listedManifest(entries, { path, bytes: bytes.length, partition, ...own }))
  }
  const metadata = nextMetadata(base, {
    id,
    now: Math.min(context.now(), await databaseNow(context.db)),
    location: `${current.urlOf(target)}/iceberg/${table.name}`,
    fields,
    partition,
    manifestList: await put(`snap-${id}.avro`, await listBytes(manifests)),
    summary: {
      ...summaryOf(manifests, id),
      'manifests-sha256': hash,
      ...(stillEmpty.length > 0 && { [emptyMonths]: stillEmpty.join(' ') }),
    },
    snapshotDays: context.snapshotDays,
  })
  // The number may be taken by metadata of a killed process, or of another archiver at this moment.
  for (let version = current.versionOf(pointer ?? '') + 1; ; version++) {
    const path = `${folder}v${version}.metadata.json`
    if (await target.create(path, `${JSON.stringify(metadata)}\n`)) return `${current.urlOf(target)}/${path}`
  }
}

async function readBase(target: ArchiveTarget, pointer: string, isAnew: boolean) {
  try {
    return await current.readBase(target, pointer)
  } catch (error) {
    if (isAnew && error instanceof DamagedArchive) return null
    throw error
  }
}

/** Name of the list of months without rows of a table. They have no manifest, and their days need not be read again. */
const emptyMonths = 'empty-months'

function shortName(name: string): string {
  return name.slice(0, 24)
}

interface Month {
  /** Beginning of the name of the month's manifest. */
  readonly name: string
  readonly parts: readonly current.Part[]
  /** The existing manifest that has exactly these parts. */
  readonly same: ListedManifest | undefined
  readonly former: readonly ListedManifest[]
}

/** Groups parts by month. Each month has one manifest, so that a publication only writes the months that changed. */
function monthsOf(parts: readonly current.Part[], known: readonly ListedManifest[]): Month[] {
  const fileName = ({ manifest_path: path }: ListedManifest) => path.slice(path.lastIndexOf('/') + 1)
  const names = new Set([...parts.map(({ day }) => day.slice(0, 7)), ...known.map((one) => fileName(one).slice(0, 7))])
  return [...names].toSorted().map((month) => {
    const own = parts.filter(({ day }) => day.startsWith(month))
    const name = `${month}-${current.hashOf(own)}`
    const former = known.filter((one) => fileName(one).startsWith(month))
    return { name, parts: own, former, same: former.find((one) => fileName(one).startsWith(name)) }
  })
}

/** Returns the entries of a changed month. An existing file keeps the snapshot that added it. */
async function entriesOf(
  fresh: FreshFiles,
  parts: readonly current.Part[],
  former: readonly ListedManifest[],
  { id, sequence }: { readonly id: number; readonly sequence: number },
): Promise<ManifestEntry[]> {
  const wanted = new Set(parts.map(current.keyOf))
  const there = new Set<string>()
  const entries: ManifestEntry[] = []
  for (const { manifest_path: url } of former) {
    for (const entry of await current.readEntries(fresh.context.target, url)) {
      const part = current.partOfFile(entry.data_file.file_path)
      const isKept = wanted.has(part)
      if (isKept) there.add(part)
      entries.push({
        ...entry,
        ...(isKept ? { status: entryStatus.existing } : { status: entryStatus.deleted, snapshot_id: id }),
      })
    }
  }
  const added = {
    status: entryStatus.added,
    snapshot_id: id,
    sequence_number: sequence,
    file_sequence_number: sequence,
  }
  for (const part of parts.filter((one) => !there.has(current.keyOf(one)))) {
    for (const file of await fresh.filesOf(part)) entries.push({ ...added, data_file: file })
  }
  return entries
}

/** Collects files of days that the table does not show yet, and the columns of the table with these files. */
class FreshFiles {
  readonly fields: Map<string, Field>
  #isUniform = true

  constructor(
    readonly context: PublishContext,
    private readonly table: PublishedTable,
    fields: readonly Field[],
  ) {
    this.fields = new Map(fields.map((field) => [field.name, field]))
  }

  /** Returns the files of a day by its manifest. For a table of proofs, it first writes the proof as a file. */
  async filesOf(part: current.Part): Promise<DataFile[]> {
    const { target } = this.context
    const manifest = await readManifest(target, part)
    const { proof } = this.table
    for (const field of fieldsOf(proof?.columns ?? (manifest.rows > 0 ? manifest.columns : []))) {
      this.#isUniform &&= (this.fields.get(field.name)?.id ?? field.id) === field.id
      this.fields.set(field.name, field)
    }
    if (proof !== undefined) return this.#proofFile(manifest, proof)
    return manifest.files.map(({ path, category, rows, bytes, first, last }) =>
      dataFile(this.table, {
        url: `${current.urlOf(target)}/${path}`,
        day: part.day,
        dividedBy: category,
        rows,
        bytes,
        symbols: [first.symbol, last.symbol],
      }),
    )
  }

  async #proofFile(manifest: Manifest, { columns, rowsOf }: NonNullable<PublishedTable['proof']>): Promise<DataFile[]> {
    const { target, folder } = this.context
    const { table, day, version } = manifest
    const rows = rowsOf(manifest)
    if (rows.length === 0) return []
    const local = join(folder, `${this.table.name}-${randomName(4)}.parquet`)
    const file = await createParquetFile(local, parquetColumns(columns))
    await file.write(rows)
    await file.close()
    const { size } = await stat(local)
    const path = `iceberg/${this.table.name}/data/${table}/${day}-v${version}.parquet`
    await target.publish(local, path)
    const symbols = rows.map((row) => row[1] ?? '').toSorted(byBytes)
    const placed = {
      url: `${current.urlOf(target)}/${path}`,
      day,
      dividedBy: manifest.proof[0]?.stream ?? '',
      rows: rows.length,
      bytes: size,
      symbols: [symbols[0] ?? '', symbols.at(-1) ?? ''] as const,
    }
    return [dataFile(this.table, placed)]
  }

  /** Throws a `NotUniform` if files have a decimal column with different types. */
  async requireUniform(parts: readonly current.Part[]): Promise<void> {
    if (this.#isUniform) return
    const found = new Map<Day, readonly ManifestColumn[]>()
    const widest = new Map<string, ManifestColumn>()
    for (const part of parts) {
      const { columns, rows } = await readManifest(this.context.target, part)
      if (rows > 0) found.set(part.day, columns)
      for (const column of rows > 0 ? columns : []) {
        const { digits = 0, scale = 0 } = widest.get(column.name) ?? {}
        const room = widen({ digits: column.digits ?? 0, scale: column.scale ?? 0 }, { digits, scale })
        widest.set(column.name, column.digits === undefined ? column : { ...column, ...room })
      }
    }
    const columns = [...widest.values()]
    const ids = new Map(fieldsOf(columns).map((field) => [field.name, field.id]))
    const isNarrow = (own: readonly ManifestColumn[]) => fieldsOf(own).some(({ name, id }) => ids.get(name) !== id)
    const days = [...found].filter(([, own]) => isNarrow(own)).map(([day]) => day)
    if (days.length > 0) throw new NotUniform({ table: this.table.name, days, columns })
    for (const field of fieldsOf(columns)) this.fields.set(field.name, field)
  }
}

function fieldsOf(columns: readonly ManifestColumn[]): Field[] {
  return parquetColumns(columns).map(fieldOf)
}

async function putFile({ target, folder }: PublishContext, path: string, content: Buffer | string): Promise<void> {
  const local = join(folder, `${randomName(8)}.part`)
  try {
    await writeFile(local, content)
    await target.publish(local, path)
  } finally {
    await rm(local, { force: true })
  }
}
