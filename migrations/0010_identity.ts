import { type Kysely, sql } from 'kysely'

/**
 * Tells this database from others, so that nothing that belongs to one gets into another. A file of its own, because
 * databases exist that have the table without these columns.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    alter table recorder.service
      add column id uuid not null default gen_random_uuid(),
      add column places text[] not null default '{}',
      add column former text[] not null default '{}',
      alter column base_url drop not null`.execute(db)
  await sql`comment on column recorder.service.base_url is
    'Its address, as configured; NULL until it has responded. Recording from another host is refused unless that is accepted.'`.execute(
    db,
  )
  await sql`comment on column recorder.service.former is
    'Hosts that the service had before --accept-new-url, oldest first.'`.execute(db)
  await sql`comment on column recorder.service.id is
    'Names the database on what is kept elsewhere: waiting responses, archives, exports. A copy has the same one.'`.execute(
    db,
  )
  await sql`comment on column recorder.service.places is
    'Where the database has been: system identifier of the server and oid, oldest first. A copy is elsewhere, until --adopt makes it the heir.'`.execute(
    db,
  )
  // Logins that only read stamp exports with it.
  await sql`create view recorder_page.database as select id, places from recorder.service`.execute(db)
  await sql`
    do $$ begin
      if exists (select from pg_roles where rolname = 'market_reader') then
        grant select on recorder_page.database to market_reader;
      end if;
      if exists (select from pg_roles where rolname = 'recorder_writer') then
        grant select on recorder_page.database to recorder_writer;
      end if;
    end $$`.execute(db)
}
