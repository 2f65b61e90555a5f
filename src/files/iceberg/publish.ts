import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Kysely } from 'kysely'
import { databaseNow } from '../../db/database.js'
import type { Database } from '../../db/schema.js'
import { random, randomName } from '../../runtime/randomness.js'
import { messageOf } from '../../runtime/text.js'
import type { NarrowDays, Published } from '../archive/run.js'
import { type ArchiveTarget, DamagedArchive } from '../archive/target.js'
import { UnfitDecimal } from '../parquet/decimals.js'
import { FreshFiles, NotUniform } from './freshFiles.js'
import {
  entryStatus,
  type ListedManifest,
  listedManifest,
  listBytes,
  manifestBytes,
  type ManifestEntry,
  summaryOf,
} from './manifests.js'
import * as current from './current.js'
import { currentFields, currentSnapshot, type Field, nextMetadata } from './metadata.js'
import { partitionOf, type PublishedTable, publishedTables } from './tables.js'

interface PublishContext {
  readonly db: Kysely<Database>
  readonly target: ArchiveTarget
  /** Local folder for files that are being written. */
  readonly folder: string
  readonly now: () => number
  /** Days for which superseded snapshots are kept. */
  readonly snapshotDays: number
  /** Ends the publication on abort. */
  readonly signal?: AbortSignal | undefined
}

/**
 * Publishes the archive as snapshots of the tables. Files are written first and pointers are moved last, so a process
 * that is killed leaves files that no snapshot names.
 *
 * @param isAnew writes every manifest again, even if nothing has changed or the tables cannot be read
 */
export async function publishTables(
  context: PublishContext,
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
      const pointer = pointers.get(table.name)
      const plan = await planSnapshot(context, table, pointer, isAnew)
      if (plan !== null) moved.set(table.name, await writeSnapshot(context, table, pointer, plan))
    } catch (error) {
      if (error instanceof NotUniform) narrow.push(error.narrow)
      else if (!(error instanceof DamagedArchive) && !(error instanceof UnfitDecimal)) throw error
      problems.push(`the table ${table.name} was not published: ${messageOf(error)}`)
    }
  }
  await db.transaction().execute(async (transaction) => {
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

/** Contents of the next snapshot of a table. */
interface SnapshotPlan {
  /** Stays below 2⁵³, because it is also a JSON number. */
  readonly id: number
  readonly sequence: number
  /** Metadata that the snapshot is added to; null for the first of a table. */
  readonly base: Awaited<ReturnType<typeof readBase>>
  /** Digest of all parts of the table. */
  readonly hash: string
  readonly fields: readonly Field[]
  /** Manifests of months that are as before. */
  readonly kept: readonly ListedManifest[]
  readonly changed: readonly { readonly name: string; readonly entries: readonly ManifestEntry[] }[]
  /** Short names of months without rows. */
  readonly empty: readonly string[]
}

/**
 * Decides what the next snapshot holds; null if nothing is new. Files are written only of proofs.
 *
 * @param pointer URL of the current metadata
 */
async function planSnapshot(
  context: PublishContext,
  table: PublishedTable,
  pointer: string | undefined,
  isAnew: boolean,
): Promise<SnapshotPlan | null> {
  const { target } = context
  const parts = await current.partsOf(context, table)
  if (parts.length === 0) return null
  const base = pointer === undefined ? null : await readBase(target, pointer, isAnew)
  const before = isAnew ? undefined : base?.metadata
  const shown = before && currentSnapshot(before)
  const hash = current.hashOf(parts)
  if (shown?.summary['manifests-sha256'] === hash) return null

  const listed = shown === undefined ? [] : await current.readList(target, shown['manifest-list'])
  const knownEmpty = new Set((shown?.summary[emptyMonths] ?? '').split(' '))
  const months = monthsOf(parts, listed)
  const own = {
    id: 1 + Math.floor(random() * 2 ** 52),
    sequence: (base?.metadata['last-sequence-number'] ?? 0) + 1,
  }
  const fresh = new FreshFiles(context, table, before === undefined ? [] : currentFields(before))
  const kept: ListedManifest[] = []
  const changed: SnapshotPlan['changed'][number][] = []
  const empty: string[] = []
  for (const { name, parts: wanted, former, same } of months) {
    if (same !== undefined) {
      kept.push(same)
      continue
    }
    const entries = knownEmpty.has(shortName(name)) ? [] : await entriesOf(fresh, wanted, former, own)
    if (entries.length > 0) changed.push({ name, entries })
    else empty.push(shortName(name))
  }
  await fresh.requireUniform(parts)
  return { ...own, base, hash, fields: [...fresh.fields.values()], kept, changed, empty }
}

/** Writes the files of a snapshot. Resolves to the URL of its metadata, which no pointer names yet. */
async function writeSnapshot(
  context: PublishContext,
  table: PublishedTable,
  pointer: string | undefined,
  { id, sequence, base, hash, fields, kept, changed, empty }: SnapshotPlan,
): Promise<string> {
  const { target } = context
  const folder = current.metadataFolder(table.name)
  const put = async (name: string, bytes: Buffer) => {
    await putFile(context, `${folder}${name}`, bytes)
    return `${current.urlOf(target)}/${folder}${name}`
  }
  const partition = partitionOf(table)
  const manifests = [...kept]
  for (const { name, entries } of changed) {
    const bytes = await manifestBytes(entries, fields, partition)
    const path = await put(`${name}-${id}.avro`, bytes)
    manifests.push(listedManifest(entries, { path, bytes: bytes.length, partition, id, sequence }))
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
      ...(empty.length > 0 && { [emptyMonths]: empty.join(' ') }),
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
function monthsOf(parts: readonly current.Part[], listed: readonly ListedManifest[]): Month[] {
  const fileName = ({ manifest_path: path }: ListedManifest) => path.slice(path.lastIndexOf('/') + 1)
  const names = new Set([...parts.map(({ day }) => day.slice(0, 7)), ...listed.map((one) => fileName(one).slice(0, 7))])
  return [...names].toSorted().map((month) => {
    const own = parts.filter(({ day }) => day.startsWith(month))
    const name = `${month}-${current.hashOf(own)}`
    const former = listed.filter((one) => fileName(one).startsWith(month))
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
    for (const entry of await current.readEntries(fresh.place.target, url)) {
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

async function putFile({ target, folder }: PublishContext, path: string, content: Buffer | string): Promise<void> {
  const local = join(folder, `${randomName(8)}.part`)
  try {
    await writeFile(local, content)
    await target.publish(local, path)
  } finally {
    await rm(local, { force: true })
  }
}
