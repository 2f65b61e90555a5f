import { type Kysely, sql } from 'kysely'

/** Resolves when a session of this database waits for a lock: what was begun beside an open transaction has come as far as that. */
export async function untilSomebodyWaits<Tables>(db: Kysely<Tables>): Promise<void> {
  for (;;) {
    const { rows } = await sql`
      select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`.execute(db)
    if (rows.length > 0) return
  }
}
