import type { RecorderDatabase } from '../../db/database.js'
import { messageOf } from '../../runtime/text.js'
import { type ArchiveReader, checkDay, readCheckedDay } from './checkDay.js'
import {
  createManifest,
  dayFolder,
  type Digests,
  filePath,
  type Manifest,
  type ManifestColumn,
  type ManifestPlace,
  proofDigest,
  sealManifest,
  type SeriesProof,
} from './manifest.js'
import { mergeProof, readProof } from './proof.js'
import { type Snapshot, withSnapshot } from './rows.js'
import { type StagedDay, stageDay } from './stageDay.js'
import { type ArchivedDay, noteNextVersion } from './state.js'
import type { ArchivedTable, Day } from './tables.js'
import { DamagedArchive } from './target.js'

interface ArchiveContext extends ArchiveReader {
  readonly database: RecorderDatabase
  /** Local folder for files that are being written. */
  readonly folder: string
  /** Name of the newest migration of the database. */
  readonly schema: string
  /** Version of the program. */
  readonly recorder: string
  readonly now: () => number
  /** Called with the number of rows of the day written so far. Throwing an error ends the work. */
  readonly onRows?: (rows: number) => void
}

export interface DueDay {
  readonly table: ArchivedTable
  readonly day: Day
  /** Numbers of the archived versions of the day, ascending. */
  readonly versions: readonly number[]
  /** Record of the archived day in the database; undefined if the database has none. */
  readonly noted: ArchivedDay | undefined
  /** Columns of earlier days, with the digits that their decimals needed. */
  readonly columns: readonly ManifestColumn[]
  /** True if a long candle of a removed day may reach into this day. The database has lost its proof. Default false. */
  readonly isReached?: boolean
  /** True if files with other columns must be written, even if the rows are the same. Default false. */
  readonly isReshaped?: boolean
  /** Digests of the day before. Only tables that are archived whole have them. */
  readonly dayBefore?: Digests | undefined
}

/** The newest version of a day, which has all rows of the database. */
interface CurrentDay {
  readonly manifest: Manifest
  /** SHA-256 of the proof in the database. The archive may have more proof. */
  readonly proofDigest: string
  /** False if this version was there already. */
  readonly isNew: boolean
}

/**
 * Archives a day as its next version, with all rows of the version before it. Files are written first, read back and
 * compared. The manifest comes last and makes them visible. Resolves to null if there is nothing to archive. Throws a
 * `DamagedArchive` if the version before is needed and damaged.
 */
export async function archiveDay(context: ArchiveContext, due: DueDay): Promise<CurrentDay | null> {
  const { table, day, versions, noted } = due
  const former = await formerVersion(context, due)
  const merging = former === null ? undefined : { reader: context, manifest: former }
  const write = async (snapshot: Snapshot) => {
    const options = {
      ...context,
      earlier: due.isReshaped === true ? due.columns : (former?.columns ?? due.columns),
      former: merging,
    }
    return { staged: await stageDay(snapshot, table, day, options), own: await readProof(snapshot, table, day) }
  }
  const { staged, own } = await withSnapshot(context.database, write, { table })
  // If the database lacks a part of the day, its proof is added to that of the former version. Otherwise it replaces
  // the old proof, because the database may have withdrawn claims since.
  const isPart =
    former !== null && (noted === undefined || noted.isRemoved || due.isReached === true || staged.rowsOnlyArchived > 0)
  const proof = isPart ? mergeProof(former.proof, own) : own
  const isFirst = versions.length === 0
  if (isFirst && staged.rows === 0 && proof.length === 0) return null
  if (isFirst && due.dayBefore !== undefined && isSameRows(staged.digests, due.dayBefore)) return null
  if (former === null && noted !== undefined && staged.rows < noted.rows) {
    throw new DamagedArchive(
      `${table.name} of ${day} is damaged in the archive, which had ${noted.rows} rows, and the database has only ${staged.rows} of them: bring the day back from a copy of the archive`,
    )
  }
  const isSame = former?.proofSha256 === proofDigest(proof) && isSameRows(staged.digests, former.digests)
  const isNew = !isSame || due.isReshaped === true
  const manifest = isNew ? await publish(context, due, { staged, proof, former }) : former
  return { manifest, proofDigest: proofDigest(own), isNew }

  /** Reads the newest version, whose rows the next one must contain. Resolves to null if none can be trusted. */
  async function formerVersion(reader: ArchiveReader, { table: { name, timeColumn } }: DueDay) {
    const newest = versions.at(-1)
    if (newest === undefined) {
      if (noted?.isRemoved === true) throw needed(`${name} of ${day} is not in the archive`)
      return null
    }
    try {
      const manifest = await readCheckedDay(reader, { table: name, day, version: newest }, noted)
      return timeColumn === undefined ? null : manifest
    } catch (error) {
      if (!(error instanceof DamagedArchive)) throw error
      // A day that this database archived can be archived again while its rows are in the database.
      if (noted === undefined || noted.isRemoved) throw needed(error.message)
      return null
    }
  }
}

function needed(problem: string): DamagedArchive {
  return new DamagedArchive(
    `${problem}, and its rows are not in the database: bring the day back from a copy of the archive`,
  )
}

async function publish(
  context: ArchiveContext,
  { table: { name }, day, versions }: DueDay,
  next: { readonly staged: StagedDay; readonly proof: readonly SeriesProof[]; readonly former: Manifest | null },
): Promise<Manifest> {
  const { staged, proof, former } = next
  const { target } = context
  const version = (versions.at(-1) ?? 0) + 1
  const files = staged.files.map(({ localPath, number, ...file }) => ({
    localPath,
    path: filePath({ table: name, day, version }, file.category, number),
    ...file,
  }))
  const manifest = sealManifest({
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
    proofSha256: proofDigest(proof),
    proof: [...proof],
  })
  await removeOrphans(context, manifest)
  for (const { localPath, path } of files) await target.publish(localPath, path)
  try {
    await checkDay(context, manifest)
  } catch (error) {
    if (!(error instanceof DamagedArchive)) throw error
    for (const { path } of files) await target.remove(path)
    throw new Error(`${name} of ${day} was not archived: ${messageOf(error)}`, { cause: error })
  }
  await noteNextVersion(context.database.db, manifest, former)
  if (!(await createManifest(target, manifest))) {
    throw new Error(
      `somebody else has just written version ${version} of ${name} of ${day} into ${target.name}: let one database write there`,
    )
  }
  return manifest
}

/**
 * Removes files of a version that has no manifest yet. A killed archiver leaves such files. Files of older versions stay
 * even without a manifest, because a snapshot of a published table may need them.
 */
async function removeOrphans({ target }: ArchiveContext, { table, day, version }: ManifestPlace) {
  for (const { path } of await target.list(dayFolder(table, day))) {
    if (Number(/-v(\d+)-\d+\.parquet$/.exec(path)?.[1]) >= version) await target.remove(path)
  }
}

function isSameRows(a: Digests, b: Digests): boolean {
  const text = (digests: Digests) => JSON.stringify(Object.entries(digests).toSorted(([x], [y]) => (x < y ? -1 : 1)))
  return text(a) === text(b)
}
