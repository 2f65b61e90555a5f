import { type Kysely, sql } from 'kysely'
import type { Database } from '../../db/schema.js'

/** Names by which engines find the tables: `recorder.market.fills`. */
const catalog = 'recorder'
const namespace = 'market'

/** Where the metadata of each table are that count, by table. */
export async function readPointers(db: Kysely<Database>): Promise<Map<string, string>> {
  const rows = await db
    .selectFrom('iceberg.iceberg_tables')
    .select(['table_name', 'metadata_location'])
    .where('catalog_name', '=', catalog)
    .where('table_namespace', '=', namespace)
    .execute()
  return new Map(rows.map(({ table_name, metadata_location }) => [table_name, metadata_location ?? '']))
}

/** Has a table begin at other metadata. Throws when somebody else has moved it since it was read. */
export async function movePointer(
  db: Kysely<Database>,
  { name, from, to }: { readonly name: string; readonly from: string | null; readonly to: string },
): Promise<void> {
  const key = { catalog_name: catalog, table_namespace: namespace, table_name: name }
  const values = { metadata_location: to, previous_metadata_location: from }
  const moved = await db
    .insertInto('iceberg.iceberg_tables')
    .values({ ...key, ...values, iceberg_type: 'TABLE' })
    .onConflict((conflict) =>
      conflict
        .columns(['catalog_name', 'table_namespace', 'table_name'])
        .doUpdateSet(values)
        .where(sql<boolean>`iceberg_tables.metadata_location is not distinct from ${from}`),
    )
    .returning('table_name')
    .execute()
  if (moved.length === 0) {
    throw new Error(`somebody else has just published ${name}: let one archiver publish the tables of a database`)
  }
}
