import type { Kysely } from 'kysely'
import { z } from 'zod'
import { belongsTo, type Identity, type OwnDatabase, readIdentity, serviceOf } from '../../db/identity.js'
import type { Database } from '../../db/schema.js'
import { type Pointers, readHints, versionOf } from '../iceberg/catalog.js'
import { putFile } from '../iceberg/commit.js'
import { type ArchiveTarget, DamagedArchive } from '../layout/target.js'

/** File that says whose the archive is: an `Identity`. */
const ownerPath = 'owner.json'
const ownerSchema = z.object({
  service: z.string(),
  database: z.object({ id: z.string(), place: z.string() }).nullable(),
})

/**
 * Throws unless the archive is that of this database, and has no snapshot that the database does not know. Otherwise the
 * database was brought back from a dump, or is another one. Nobody but a person knows which of both is right.
 */
export async function requireOwnArchive(
  db: Kysely<Database>,
  target: ArchiveTarget,
  pointers: Pointers,
): Promise<void> {
  const [kept, own] = [await readOwner(target), await readOwn(db)]
  if (kept !== null && !isOwn(kept, own)) {
    const whose = kept.service === own?.service ? 'another database' : `another database, of ${kept.service}`
    throw new Error(
      `the archive in ${target.name} belongs to ${whose}: archive adopt takes it over; or name another place for the archive of this database`,
    )
  }
  for (const [name, hint] of await readHints(target)) {
    if (versionOf(hint) <= versionOf(pointers.get(name) ?? '')) continue
    throw new Error(
      `the archive in ${target.name} knows more than this database: archive adopt makes final what the archive has; or name another place for the archive of this database`,
    )
  }
}

/** Notes on a new archive whose it is. */
export async function noteOwner(db: Kysely<Database>, target: ArchiveTarget, pointers: Pointers): Promise<void> {
  const own = await readOwn(db)
  if (own === null || (await readOwner(target)) !== null) return
  if (await target.create(ownerPath, textOf(own))) return
  // Another database has just begun an archive at the same place.
  await requireOwnArchive(db, target, pointers)
}

/** Throws if an archive holds what another service sent. */
export async function requireSameService(db: Kysely<Database>, target: ArchiveTarget): Promise<void> {
  const [kept, own] = [await readOwner(target), await readOwn(db)]
  if (kept === null || own === null || kept.service === own.service || isOwn(kept, own)) return
  throw new Error(
    `the archive in ${target.name} holds what ${kept.service} sent, and this database what ${own.service} sent: name another place for the archive of this database`,
  )
}

/** Makes an archive that of this database. A copy becomes the heir of the database that it was copied from. */
export async function takeOwnership(db: Kysely<Database>, target: ArchiveTarget): Promise<void> {
  const own = await readOwn(db, { becomesHeir: true })
  if (own === null) return
  await putFile({ target, folder: await target.stagingFolder() }, ownerPath, textOf(own))
}

type Own = Identity & { readonly database: OwnDatabase }

/** Resolves to null for a database that no recorder has ever recorded into. */
async function readOwn(db: Kysely<Database>, options: { readonly becomesHeir?: boolean } = {}): Promise<Own | null> {
  const row = await db.selectFrom('recorder.service').select('base_url').executeTakeFirst()
  if (row === undefined || row.base_url === null) return null
  return { service: serviceOf(row.base_url), database: await readIdentity(db, options) }
}

/** Resolves to whose an archive is; to null for one that nobody has written to. */
export async function readOwner(target: ArchiveTarget): Promise<Identity | null> {
  const bytes = await target.read(ownerPath)
  if (bytes === null) return null
  try {
    return ownerSchema.parse(JSON.parse(bytes.toString()))
  } catch (error) {
    throw new DamagedArchive(`${ownerPath} is damaged: bring it back from a copy of the archive`, { cause: error })
  }
}

/** Returns true if an archive is that of this database, whose service may have another address since. */
function isOwn(kept: Identity, own: Own | null): boolean {
  return own !== null && kept.database !== null && belongsTo(kept.database, own.database)
}

function textOf({ service, database: { id, place } }: Own): string {
  return `${JSON.stringify({ service, database: { id, place } } satisfies Identity)}\n`
}
