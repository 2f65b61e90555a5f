import { type Kysely, sql } from 'kysely'
import { commentOn } from './comments.js'

/** Of a rejected row only the start is kept, with the digest and the length of the whole. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    alter table recorder.rejected_row
      add column raw_sha256 text,
      add column raw_bytes bigint;
    update recorder.rejected_row
      set raw_sha256 = encode(sha256(convert_to(raw, 'UTF8')), 'hex'), raw_bytes = octet_length(raw);
    update recorder.rejected_row
      set raw = left(raw, 1024) where raw_bytes > 4096;
    alter table recorder.rejected_row
      alter column raw_sha256 set not null,
      alter column raw_bytes set not null;
    create index rejected_row_first_seen on recorder.rejected_row (operation, first_seen_at);
    -- The role is missing where the migrating user may not create roles.
    do $$ begin
      if exists (select from pg_roles where rolname = 'recorder_writer') then
        grant delete on recorder.rejected_row to recorder_writer;
      end if;
    end $$;
  `.execute(db)
  await commentOn(db, {
    'recorder.rejected_row': {
      kind: 'table',
      comment:
        'A row of a response that could not be understood, or of which a part was left out. The other rows of the response ' +
        'were stored. At most 5,000 new ones of an operation are kept in an hour.',
      columns: {
        digest: 'SHA-256 of operation, parameters, reason and raw_sha256: the same row is kept once.',
        raw: 'The start of its text as it was sent, at most 4,096 bytes.',
        raw_sha256: 'SHA-256 of its whole text, in hexadecimal digits.',
        raw_bytes: 'Length of its whole text.',
      },
    },
  })
}
