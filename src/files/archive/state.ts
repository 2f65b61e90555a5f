import { type Kysely, sql } from 'kysely'
import type { Database } from '../../db/schema.js'
import { sha256 } from './digest.js'
import type { Manifest } from './manifest.js'
import type { Day } from './tables.js'

/** What the database knows of a day in the archive. */
export interface ArchivedDay {
  readonly version: number
  readonly proofDigest: string
  readonly isRemoved: boolean
}

export async function readArchivedDays(db: Kysely<Database>, table: string): Promise<Map<Day, ArchivedDay>> {
  const rows = await db
    .selectFrom('recorder.archived_day')
    .select(['version', 'proof_digest', 'removed_at', sql<string>`day::text`.as('day')])
    .where('table_name', '=', table)
    .execute()
  return new Map(
    rows.map(({ day, version, proof_digest, removed_at }) => [
      day,
      { version, proofDigest: proof_digest, isRemoved: removed_at !== null },
    ]),
  )
}

export async function noteArchivedDay(db: Kysely<Database>, manifest: Manifest): Promise<void> {
  const { table, day, version, rows, proofSha256 } = manifest
  const values = { version, rows, digest: dayDigest(manifest), proof_digest: proofSha256 }
  await db
    .insertInto('recorder.archived_day')
    .values({ table_name: table, day, ...values })
    .onConflict((conflict) =>
      conflict.columns(['table_name', 'day']).doUpdateSet({ ...values, archived_at: sql`now()`, removed_at: null }),
    )
    .execute()
}

/** From then on the day is to be archived again, as its next version. */
export async function forgetArchivedDay(db: Kysely<Database>, table: string, day: Day): Promise<void> {
  await sql`delete from recorder.archived_day where table_name = ${table} and day = ${day}::date`.execute(db)
}

/** @param before days that end by then */
export async function noteRemoved(db: Kysely<Database>, table: string, before: Day): Promise<void> {
  await sql`
    update recorder.archived_day set removed_at = now()
    where table_name = ${table} and day < ${before}::date and removed_at is null`.execute(db)
}

/** One digest for all rows of a day. */
function dayDigest({ digests }: Pick<Manifest, 'digests'>): string {
  const sorted = Object.entries(digests).toSorted(([a], [b]) => (a < b ? -1 : 1))
  return sha256(sorted.map(([category, { rows, sha256: digest }]) => `${category} ${rows} ${digest}\n`).join(''))
}
