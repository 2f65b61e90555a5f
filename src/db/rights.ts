import { type Kysely, sql } from 'kysely'
import type { Database } from './schema.js'

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
          and has_function_privilege(oid, 'execute')))
    ) as found (place, "right", "isThere") where "isThere" order by place`.execute(db)
  return rows.map(({ right }) => right)
}
