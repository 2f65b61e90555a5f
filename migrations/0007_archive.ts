import { type Kysely, sql } from 'kysely'
import { createTables } from './relations.js'

const tables = {
  'recorder.archived_day': `
    -- A day of a table that is in the archive, or that is to be written there.
    table_name text not null check (table_name <> '') -- Table of schema market.
    day date not null -- The day, UTC.
    files jsonb not null default '[]'
      -- Its files in the archive, with those of the proof that is about them: path, rows and their SHA-256, and whether
      -- they are final. Files that are not final are replaced when the day changes.
    due_at timestamptz -- When it may be written, because it is new or has changed; NULL while the archive has it.
    archived_at timestamptz -- When it was written last; NULL before.
    removed_at timestamptz -- When rows of it left the database for their age; NULL before.
    primary key (table_name, day)`,
  'recorder.changed_day': `
    -- A day that was written to after it was noted for the archive. The next run of the archive takes the mark.
    id bigint generated always as identity primary key -- Number of the mark.
    table_name text not null -- Table of schema market.
    day date not null -- The day, UTC.`,
  'iceberg.iceberg_tables': `
    -- Tables of the archive for engines that read Apache Iceberg; a row is written with the days that it shows.
    catalog_name varchar(255) not null -- Always recorder.
    table_namespace varchar(255) not null -- Always market.
    table_name varchar(255) not null -- Name of the table, mostly that of one in schema market.
    metadata_location varchar(1000) -- URL of the metadata that count.
    previous_metadata_location varchar(1000) -- URL of the metadata before.
    iceberg_type varchar(5) -- Always TABLE.
    primary key (catalog_name, table_namespace, table_name)`,
  'iceberg.iceberg_namespace_properties': `
    -- Namespaces of the catalog.
    catalog_name varchar(255) not null -- Always recorder.
    namespace varchar(255) not null -- Always market.
    property_key varchar(255) not null -- Name of a property.
    property_value varchar(1000) -- Its value.
    primary key (catalog_name, namespace, property_key)`,
}

/**
 * The days that are in the archive, and the catalog of the archive's Iceberg tables. The catalog has the names, types
 * and schema of Iceberg's JDBC catalog and PyIceberg's SQL catalog, so that engines read it by themselves.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`create schema iceberg`.execute(db)
  await createTables(db, tables)
  await sql`
    create index changed_day_of_table on recorder.changed_day (table_name, day);
    insert into iceberg.iceberg_namespace_properties values ('recorder', 'market', 'exists', 'true')`.execute(db)
}
