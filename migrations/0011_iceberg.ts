import { type Kysely, sql } from 'kysely'
import { commentOn } from './comments.js'

/**
 * The catalog of the archive's Iceberg tables, as Iceberg's JDBC catalog and PyIceberg's SQL catalog have it. Names, types and
 * schema are theirs, so that engines read it by themselves.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
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

    do $$
    begin
      if exists (select from pg_roles where rolname = 'market_reader') then
        grant usage on schema iceberg to market_reader;
        grant select on all tables in schema iceberg to market_reader;
      end if;
      if exists (select from pg_roles where rolname = 'recorder_writer') then
        grant usage on schema iceberg to recorder_writer;
        grant select on all tables in schema iceberg to recorder_writer;
        grant insert, update, delete on iceberg.iceberg_tables to recorder_writer;
      end if;
    end
    $$`.execute(db)
  await commentOn(db, {
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
