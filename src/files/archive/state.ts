import { type Kysely, sql } from 'kysely'
import { lockNames, withSessionLock } from '../../db/locks.js'
import type { Database } from '../../db/schema.js'
import type { Manifest } from './manifest.js'
import type { Day } from './tables.js'

/** Runs `work` as the only archiver of a database. The lock ends with its session, also after a crash. */
export async function withArchiveLock<Result>(db: Kysely<Database>, work: () => Promise<Result>): Promise<Result> {
  const refusal = () => new Error('another archiver of this database is at work: wait until it has ended')
  return withSessionLock(db, lockNames.archive, work, refusal)
}

/** Record that the database keeps of a day in the archive. */
export interface ArchivedDay {
  readonly version: number
  readonly rows: number
  /** SHA-256 of the manifest of this version. */
  readonly digest: string
  /** SHA-256 of the manifest of a later version. A killed archiver may have written it. */
  readonly nextDigest: string | null
  /** SHA-256 of the proof in the database when the day was archived. Empty if the day must be archived again. */
  readonly proofDigest: string
  readonly isRemoved: boolean
}

export async function readArchivedDays(db: Kysely<Database>, table: string): Promise<Map<Day, ArchivedDay>> {
  const rows = await db
    .selectFrom('recorder.archived_day')
    .select([
      'version',
      'rows',
      'digest',
      'next_digest',
      'proof_digest',
      'removed_at',
      sql<string>`day::text`.as('day'),
    ])
    .where('table_name', '=', table)
    .orderBy('recorder.archived_day.day')
    .execute()
  return new Map(
    rows.map(({ day, version, rows: count, digest, next_digest, proof_digest, removed_at }) => [
      day,
      {
        version,
        rows: count,
        digest,
        nextDigest: next_digest,
        proofDigest: proof_digest,
        isRemoved: removed_at !== null,
      },
    ]),
  )
}

export async function noteArchivedDay(
  db: Kysely<Database>,
  { manifest, proofDigest }: { readonly manifest: Manifest; readonly proofDigest: string },
): Promise<void> {
  const { table, day, version, rows, sha256 } = manifest
  const values = { version, rows, digest: sha256, next_digest: null, proof_digest: proofDigest }
  await db
    .insertInto('recorder.archived_day')
    .values({ table_name: table, day, ...values })
    .onConflict((conflict) =>
      conflict.columns(['table_name', 'day']).doUpdateSet({ ...values, archived_at: sql`now()`, removed_at: null }),
    )
    .execute()
}

/**
 * Notes the manifest of a later version before it is written, so that it is known after a kill. Has no effect on a day
 * that is not noted. The former version is noted too, because a killed archiver may have written it.
 */
export async function noteNextVersion(db: Kysely<Database>, next: Manifest, former: Manifest | null): Promise<void> {
  const known = former && { version: former.version, rows: former.rows, digest: former.sha256 }
  await db
    .updateTable('recorder.archived_day')
    .set({ ...known, next_digest: next.sha256 })
    .where('table_name', '=', next.table)
    .where('day', '=', sql<string>`${next.day}::date`)
    .execute()
}

/** Marks a day to be archived again as its next version. This has no effect if its rows have left the database. */
export async function markDayDue(db: Kysely<Database>, table: string, day: Day): Promise<void> {
  await db
    .updateTable('recorder.archived_day')
    .set({ proof_digest: '' })
    .where('table_name', '=', table)
    .where('day', '=', sql<string>`${day}::date`)
    .execute()
}

/** Records that the rows of the days before `before` have left the database. */
export async function noteRemoved(db: Kysely<Database>, table: string, before: Day): Promise<void> {
  await db
    .updateTable('recorder.archived_day')
    .set({ removed_at: sql`now()` })
    .where('table_name', '=', table)
    .where('day', '<', sql<string>`${before}::date`)
    .where('removed_at', 'is', null)
    .execute()
}

/** Returns why a manifest is not the one that this database noted. Null if it is, or if no manifest is noted. */
export function whyForeign({ table, day, version, sha256 }: Manifest, noted: ArchivedDay | undefined): string | null {
  if (noted === undefined || noted.digest === sha256 || noted.nextDigest === sha256) return null
  const has = noted.version === version ? 'another content' : `version ${version}`
  return `${table} of ${day} has ${has} in the archive, and this database noted version ${noted.version}, ${noted.digest.slice(0, 8)}`
}
