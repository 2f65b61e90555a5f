import type { RecorderDatabase } from '../../db/database.js'
import type { Compression } from '../parquet/zstd.js'
import {
  dayFolder,
  type Manifest,
  type ManifestColumn,
  manifestPath,
  manifestText,
  proofDigest,
  type SeriesProof,
} from './manifest.js'
import { readManifest } from './manifests.js'
import { readBack } from './readBack.js'
import { restoreDay } from './restoreDay.js'
import { withSnapshot } from './snapshot.js'
import { type StagedDay, stageDay } from './stageDay.js'
import { noteArchivedDay } from './state.js'
import type { ArchivedTable, Day } from './tables.js'
import type { ArchiveTarget } from './target.js'

export interface ArchiveContext {
  readonly database: RecorderDatabase
  readonly target: ArchiveTarget
  /** For files in the making. */
  readonly folder: string
  readonly compression: Compression
  readonly isHypertable: boolean
  /** The newest migration. */
  readonly schema: string
  /** Of the program. */
  readonly recorder: string
  readonly now: () => number
  /** Told the rows of the day so far; may throw to end it. */
  readonly onRows?: (rows: number) => void
}

/**
 * Writes a day into the archive as its next version: files first, then, when they were read back and are equal, the manifest that
 * makes them visible. Resolves to null when there is nothing to write, or nothing else than the archive has.
 *
 * @param versions those that the archive has of the day, ascending
 * @param known what earlier days needed for their decimals
 * @param former digests that a table kept as a whole had on the day before
 */
export async function archiveDay(
  context: ArchiveContext,
  table: ArchivedTable,
  day: Day,
  versions: readonly number[],
  known: readonly ManifestColumn[],
  former?: Manifest['digests'],
): Promise<Manifest | null> {
  const { target, database } = context
  const manifests = await Promise.all(versions.map((version) => readManifest(target, table.name, day, version)))
  const previous = manifests.at(-1)
  const stage = () =>
    withSnapshot(database, (snapshot) =>
      stageDay(snapshot, table, day, { ...context, known: previous?.columns ?? known }),
    )
  let staged = await stage()
  if (staged.rows === 0 && staged.proof.length === 0) return null
  if (former !== undefined && isSameRows(staged.digests, former)) return null
  if (previous !== undefined && lacksSome(staged, previous)) {
    // Removed for its age, or another database's: a version must not have less than the one before it.
    await restoreDay(database, target, previous, context)
    staged = await stage()
  }
  const proofSha256 = proofDigest(staged.proof)
  if (previous?.proofSha256 === proofSha256 && isSameRows(staged.digests, previous.digests)) {
    await noteArchivedDay(database.db, previous)
    return null
  }
  await removeOrphans(target, table.name, day, manifests)
  return publish(context, table, day, (versions.at(-1) ?? 0) + 1, staged)
}

async function publish(
  context: ArchiveContext,
  { name }: ArchivedTable,
  day: Day,
  version: number,
  staged: StagedDay,
): Promise<Manifest> {
  const { target } = context
  const files = staged.files.map(({ localPath, number, ...file }) => ({
    localPath,
    path: `${dayFolder(name, day)}category=${file.category}/${name}-v${version}-${number}.parquet`,
    ...file,
  }))
  const manifest: Manifest = {
    format: 1,
    table: name,
    day,
    version,
    recorder: context.recorder,
    schema: context.schema,
    writtenAt: new Date(context.now()).toISOString(),
    columns: [...staged.columns],
    rows: staged.rows,
    digests: staged.digests,
    files: files.map(({ localPath: _, ...file }) => file),
    proofSha256: proofDigest(staged.proof),
    proof: [...staged.proof],
  }
  for (const { localPath, path } of files) await target.publish(localPath, path)
  const problems = await readBack(target, manifest, context)
  if (problems.length > 0) {
    for (const { path } of files) await target.remove(path)
    throw new Error(`${name} of ${day} was not archived: ${problems.join('; ')}`)
  }
  if (!(await target.create(manifestPath(name, day, version), manifestText(manifest)))) {
    throw new Error(
      `somebody else has just written version ${version} of ${name} of ${day} into ${target.name}: let one database write there`,
    )
  }
  await noteArchivedDay(context.database.db, manifest)
  return manifest
}

/** What an archiver that was killed has left: files of the day that no manifest names. */
async function removeOrphans(
  target: ArchiveTarget,
  table: string,
  day: Day,
  manifests: readonly Manifest[],
): Promise<void> {
  const named = new Set(manifests.flatMap(({ files }) => files.map(({ path }) => path)))
  for (const { path } of await target.list(dayFolder(table, day))) {
    if (!named.has(path)) await target.remove(path)
  }
}

function isSameRows(a: Manifest['digests'], b: Manifest['digests']): boolean {
  const text = (digests: Manifest['digests']) =>
    JSON.stringify(Object.entries(digests).toSorted(([x], [y]) => (x < y ? -1 : 1)))
  return text(a) === text(b)
}

/** Whether an earlier version has rows or proof that are not here. */
function lacksSome(staged: StagedDay, { digests, proof }: Manifest): boolean {
  const hasFewer = Object.entries(digests).some(([category, { rows }]) => (staged.digests[category]?.rows ?? 0) < rows)
  if (hasFewer) return true
  const keyOf = ({ category, symbol, type, interval }: SeriesProof) => [category, symbol, type, interval].join('\t')
  const here = new Map(staged.proof.map((one) => [keyOf(one), one.coverage]))
  return proof.some((one) => one.coverage.some((range) => !isWithin(range, here.get(keyOf(one)) ?? [])))
}

type Range = readonly [string, string]

function isWithin([from, to]: Range, ranges: readonly Range[]): boolean {
  return ranges.some((range) => Date.parse(range[0]) <= Date.parse(from) && Date.parse(to) <= Date.parse(range[1]))
}
