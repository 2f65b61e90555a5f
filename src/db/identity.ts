import { CompiledQuery, type Kysely, sql } from 'kysely'
import type pg from 'pg'
import { isLoopback, withoutBrackets } from '../runtime/process.js'
import type { DatabasePool } from './pool.js'
import type { Database } from './schema.js'
import type { DatabaseMs } from '../market/values.js'

/** The database that something belongs to: its id, and the place that it had then. A copy has another place. */
export interface DatabaseIdentity {
  readonly id: string
  /** System identifier of the server and oid of the database. */
  readonly place: string
}

/** The service and the database that something on a disk belongs to. */
export interface Identity {
  /** Name of the service, by `serviceOf`. */
  readonly service: string
  /** Null if it was written before any database was known. */
  readonly database: DatabaseIdentity | null
}

/** A database as it knows itself. */
export interface OwnDatabase extends DatabaseIdentity {
  /** Places of this database so far. What was kept for a database of its id in one of them is its own. */
  readonly places: readonly string[]
}

/**
 * Keeps the connections of a recorder to one database. Where that is dropped and made anew, the name leads to another
 * one, which perhaps holds another service.
 */
export class SameDatabase {
  #id: string | null = null
  readonly #onOther: (error: Error) => void

  /** @param onOther called when a connection leads to another database */
  constructor(onOther: (error: Error) => void = () => undefined) {
    this.#onOther = onOther
  }

  /** Refuses connections to databases with another id from now on. */
  require(id: string): void {
    this.#id = id
  }

  /** Checks a new connection before it is used. Rejects if it leads to another database. */
  async check(client: pg.ClientBase): Promise<void> {
    if (this.#id === null) return
    const found = await client
      .query<{ id: string }>('select id::text from recorder.service')
      .then(({ rows }) => rows[0]?.id)
      .catch((error: unknown) => {
        if (['3F000', '42P01', '42703'].includes(String((error as { readonly code?: unknown }).code))) return undefined
        throw error
      })
    if (found === this.#id) return
    const error = new Error('the database was replaced by another one while it was recorded into; start again')
    this.#onOther(error)
    throw error
  }
}

/** The service of every simulator on this machine. */
export const loopback = 'loopback'

/**
 * Names a service by its host, by its port if that is not the default one, and by its path, because several services may
 * stand behind one host. All services of this machine are one.
 */
export function serviceOf(baseUrl: string): string {
  const { host, hostname, pathname } = new URL(baseUrl)
  return isLoopback(withoutBrackets(hostname)) ? loopback : `${host}${pathname.replace(/\/+$/, '')}`
}

/** Returns true if what is kept for a database is this database's own. */
export function belongsTo(kept: DatabaseIdentity, own: OwnDatabase): boolean {
  if (kept.id !== own.id) return false
  return kept.place === own.place || (own.places.includes(own.place) && own.places.includes(kept.place))
}

/**
 * Reads how the database knows itself. The row of recorder.service must exist. A database that notes no place yet is
 * no copy, so its place is noted.
 *
 * @param options.becomesHeir true to make a copy the heir of the database that it was copied from
 */
export async function readIdentity(
  db: Kysely<Database>,
  { becomesHeir = false }: { readonly becomesHeir?: boolean } = {},
): Promise<OwnDatabase> {
  const place = await placeOf((text) => db.executeQuery(CompiledQuery.raw(text)))
  await db
    .updateTable('recorder.service')
    .set({ places: sql<string[]>`array_append(places, ${place})` })
    .where(({ eb, or }) => or([eb('places', '=', sql<string[]>`'{}'`), ...(becomesHeir ? [eb.lit(true)] : [])]))
    .where(sql<boolean>`not ${place} = any (places)`)
    .execute()
  const { id, places } = await db.selectFrom('recorder.service').select(['id', 'places']).executeTakeFirstOrThrow()
  return { id, place, places }
}

/** Reads how the database knows itself, for a login that only reads. Null if no recorder has named the database. */
export async function readReadersIdentity({ pool }: DatabasePool): Promise<OwnDatabase | null> {
  const known = await pool.query<{ id: string; places: string[] }>(
    'select id::text, places from recorder_page.database',
  )
  const row = known.rows[0]
  return row === undefined ? null : { ...row, place: await placeOf(async (text) => pool.query(text)) }
}

type Query = (text: string) => Promise<{ readonly rows: readonly unknown[] }>

async function placeOf(query: Query): Promise<string> {
  const { rows } = await query(`
    select oid::text, has_function_privilege('pg_control_system()', 'execute') as readable
    from pg_database where datname = current_database()`)
  const { oid, readable } = rows[0] as { oid: string; readable: boolean }
  if (!readable) return `unknown-${oid}`
  const system = await query('select system_identifier::text as id from pg_control_system()')
  return `${(system.rows[0] as { id: string }).id}-${oid}`
}

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
