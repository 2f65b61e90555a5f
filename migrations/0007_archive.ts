import { type Kysely, sql } from 'kysely'
import { commentOn } from './comments.js'

/**
 * The days that are in the archive, and the catalog of the archive's Iceberg tables. The catalog has the names, types
 * and schema of Iceberg's JDBC catalog and PyIceberg's SQL catalog, so that engines read it by themselves.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table recorder.archived_day (
      table_name text not null check (table_name <> ''),
      day date not null,
      version integer not null check (version > 0),
      rows bigint not null,
      digest text not null,
      proof_digest text not null,
      archived_at timestamptz not null default now(),
      removed_at timestamptz,
      primary key (table_name, day)
    );

    create schema iceberg;

    create table iceberg.iceberg_tables (
      catalog_name varchar(255) not null,
      table_namespace varchar(255) not null,
      table_name varchar(255) not null,
      metadata_location varchar(1000),
      previous_metadata_location varchar(1000),
      iceberg_type varchar(5),
      primary key (catalog_name, table_namespace, table_name)
    );

    create table iceberg.iceberg_namespace_properties (
      catalog_name varchar(255) not null,
      namespace varchar(255) not null,
      property_key varchar(255) not null,
      property_value varchar(1000),
      primary key (catalog_name, namespace, property_key)
    );
    insert into iceberg.iceberg_namespace_properties values ('recorder', 'market', 'exists', 'true');
  `.execute(db)
  await commentOn(db, {
    'recorder.archived_day': {
      kind: 'table',
      comment:
        'A day of a table that is in the archive, read back and found equal. The archive itself has the whole proof.',
      columns: {
        table_name: 'Table of schema market.',
        day: 'The day, UTC.',
        version: 'Version of the day in the archive, from 1.',
        rows: 'Rows that it has.',
        digest: 'SHA-256 that the manifest of this version has.',
        proof_digest:
          'SHA-256 of what the database had proven of the day then; empty when the day has to be written again.',
        archived_at: 'When this version was written.',
        removed_at: 'When its rows were removed from the database for their age; NULL while they are here.',
      },
    },
    'iceberg.iceberg_tables': {
      kind: 'table',
      comment:
        'Tables of the archive for engines that read Apache Iceberg; a row is written with the days that it shows.',
      columns: {
        catalog_name: 'Always recorder.',
        table_namespace: 'Always market.',
        table_name: 'Name of the table, mostly that of one in schema market.',
        metadata_location: 'URL of the metadata that count.',
        previous_metadata_location: 'URL of the metadata before.',
        iceberg_type: 'Always TABLE.',
      },
    },
    'iceberg.iceberg_namespace_properties': {
      kind: 'table',
      comment: 'Namespaces of the catalog.',
      columns: {
        catalog_name: 'Always recorder.',
        namespace: 'Always market.',
        property_key: 'Name of a property.',
        property_value: 'Its value.',
      },
    },
  })
}
