import { type Kysely, sql } from 'kysely'
import { createTables } from './relations.js'

const tables = {
  'recorder.archived_day': `
    -- A day of a table that is in the archive, read back and found equal. The archive itself has the whole proof.
    table_name text not null check (table_name <> '') -- Table of schema market.
    day date not null -- The day, UTC.
    version integer not null check (version > 0) -- Version of the day in the archive, from 1.
    rows bigint not null -- Rows that it has.
    digest text not null -- SHA-256 that the manifest of this version has.
    next_digest text -- SHA-256 of the manifest of a later version that may have been written; NULL once it is noted.
    proof_digest text not null
      -- SHA-256 of what the database had proven of the day then; empty when the day has to be written again.
    archived_at timestamptz not null default now() -- When this version was written.
    removed_at timestamptz -- When its rows were removed from the database for their age; NULL while they are here.
    primary key (table_name, day)`,
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
  await sql`insert into iceberg.iceberg_namespace_properties values ('recorder', 'market', 'exists', 'true')`.execute(
    db,
  )
}
