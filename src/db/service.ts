import { type Kysely, sql } from 'kysely'
import { streamNames } from '../market/stream.js'
import type { DatabaseMs } from '../market/values.js'
import { loopback, serviceOf } from './identity.js'
import type { Database } from './schema.js'

/** The service whose data the database holds, if another service is about to be recorded. */
interface OtherService {
  readonly baseUrl: string
  readonly notedAt: DatabaseMs
  /** True if the new address is on this machine. The new service is then a simulator, which may use any port. */
  readonly isLoopback: boolean
}

/**
 * Notes the service whose data the database is about to hold. Resolves to the noted service if it is of another host
 * and has recorded data. Resolves to null where nothing is mixed: the same host, two simulators, or nothing recorded
 * yet. With `accept` the new service replaces the noted one.
 */
export async function noteService(
  db: Kysely<Database>,
  baseUrl: string,
  { accept = false }: { readonly accept?: boolean } = {},
): Promise<OtherService | null> {
  await db
    .insertInto('recorder.service')
    .values({ base_url: baseUrl })
    .onConflict((conflict) => conflict.doNothing())
    .execute()
  const stored = await db
    .selectFrom('recorder.service')
    .select(['base_url as baseUrl', 'noted_at as notedAt'])
    .executeTakeFirstOrThrow()
  const service = serviceOf(baseUrl)
  if (serviceOf(stored.baseUrl) === service) return null
  if (accept || !(await hasRecorded(db))) {
    await db
      .updateTable('recorder.service')
      .set(({ fn }) => ({ base_url: baseUrl, noted_at: fn('now') }))
      .execute()
    return null
  }
  return { ...stored, isLoopback: service === loopback }
}

async function hasRecorded(db: Kysely<Database>): Promise<boolean> {
  const tables = streamNames.map((name) => `market.${name}` as const)
  const { found } = await db
    .selectNoFrom((eb) =>
      eb.or(tables.map((table) => eb.exists(eb.selectFrom(table).select(eb.lit(1).as('one'))))).as('found'),
    )
    .executeTakeFirstOrThrow()
  return found === true
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
