import { type Kysely, sql } from 'kysely'
import type { DatabaseMs } from '../market/values.js'
import { loopback, serviceOf } from './identity.js'
import type { Database } from './schema.js'

/** The service whose data the database holds, if another service is about to be recorded. */
export interface OtherService {
  readonly baseUrl: string
  readonly notedAt: DatabaseMs
  /** True if the new address is on this machine. The new service is then a simulator, which may use any port. */
  readonly isLoopback: boolean
}

/**
 * Compares the service that is about to be recorded with the one whose data the database holds. Resolves to the noted one
 * if it is another one. Resolves to null where nothing is mixed: the same host and path, two simulators, or none noted yet.
 */
export async function compareService(db: Kysely<Database>, baseUrl: string): Promise<OtherService | null> {
  await addRow(db)
  return findOtherService(db, baseUrl)
}

async function addRow(db: Kysely<Database>): Promise<void> {
  await db
    .insertInto('recorder.service')
    .values({ base_url: null })
    .onConflict((conflict) => conflict.doNothing())
    .execute()
}

/** Resolves as `compareService`, and leaves the database as it is. */
export async function findOtherService(db: Kysely<Database>, baseUrl: string): Promise<OtherService | null> {
  const stored = await db
    .selectFrom('recorder.service')
    .select(['base_url as baseUrl', 'noted_at as notedAt'])
    .executeTakeFirst()
  const noted = stored?.baseUrl ?? null
  const service = serviceOf(baseUrl)
  if (stored === undefined || noted === null || serviceOf(noted) === service) return null
  return { baseUrl: noted, notedAt: stored.notedAt, isLoopback: service === loopback }
}

/**
 * Notes the service before its first row is stored. Of two that come at once, one is noted. A note stays for good, so
 * that nobody replaces it beside a recorder. Resolves as `compareService`.
 */
export async function noteService(db: Kysely<Database>, baseUrl: string): Promise<OtherService | null> {
  await addRow(db)
  await db
    .updateTable('recorder.service')
    .set(({ fn }) => ({ base_url: baseUrl, noted_at: fn('now') }))
    .where('base_url', 'is', null)
    .execute()
  return findOtherService(db, baseUrl)
}

/** Replaces the noted service by one that it has moved to. Its former host is kept. */
export async function moveService(db: Kysely<Database>, baseUrl: string): Promise<void> {
  const other = await findOtherService(db, baseUrl)
  if (other === null) return
  await db
    .updateTable('recorder.service')
    .set(({ fn }) => ({
      base_url: baseUrl,
      noted_at: fn('now'),
      former: sql<string[]>`array_append(former, ${serviceOf(other.baseUrl)})`,
    }))
    .where('base_url', '=', other.baseUrl)
    .execute()
}

/** Lists the rights of the login beyond reading the market. Each ends a sentence that begins with the login. */
export async function rightsBeyondReading(db: Kysely<Database>): Promise<string[]> {
  const { rows } = await sql<{ right: string }>`
    select "right" from (values
      (1, 'is a superuser', (select rolsuper from pg_roles where rolname = current_user)),
      (2, 'may write to the tables', exists (
        select from pg_class c join pg_namespace n on n.oid = c.relnamespace
        where n.nspname in ('market', 'recorder') and c.relkind in ('r', 'p')
          and has_table_privilege(c.oid, 'insert, update, delete, truncate'))),
      (3, 'may create temporary tables', has_database_privilege(current_database(), 'temporary')),
      (4, 'may create tables in schema public',
        to_regnamespace('public') is not null and has_schema_privilege(to_regnamespace('public'), 'create')),
      (5, 'may create large objects', exists (
        select from pg_proc
        where pronamespace = 'pg_catalog'::regnamespace and proname in ('lo_creat', 'lo_create', 'lo_from_bytea')
          and has_function_privilege(oid, 'execute'))),
      (6, 'may take any number of advisory locks', has_function_privilege('pg_advisory_lock(bigint)', 'execute'))
    ) as found (place, "right", "isThere") where "isThere" order by place`.execute(db)
  return rows.map(({ right }) => right)
}
