import { type Kysely, sql } from 'kysely'
import { commentOn } from './comments.js'

/** Who sends requests from which IP address. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table recorder.egress (
      egress text primary key check (egress <> ''),
      owner text not null check (owner <> ''),
      held_since timestamptz not null,
      released_at timestamptz
    )`.execute(db)
  await commentOn(db, {
    'recorder.egress': {
      kind: 'table',
      comment: 'Which recorder owns the request budget of an egress IP, or owned it last. An advisory lock decides.',
      columns: {
        egress: 'Name of the IP address that requests leave from (collector.egress).',
        owner: 'The recorder, by its host, process and a random number.',
        held_since: 'When it took the budget.',
        released_at: 'When it gave the budget up; NULL while it has it, and when it ended without doing so.',
      },
    },
  })
}
