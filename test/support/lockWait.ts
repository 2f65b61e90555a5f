import { type Kysely, sql } from 'kysely'

/**
 * Resolves when a session of this database waits for a lock.
 *
 * @param kinds the kinds of locks that count, as pg_stat_activity names them; default: all
 */
export async function untilSomebodyWaits<Tables>(db: Kysely<Tables>, kinds?: readonly string[]): Promise<void> {
  for (;;) {
    // A transaction remembers the sessions that it saw first.
    await sql`select pg_stat_clear_snapshot()`.execute(db)
    const { rows } = await sql`
      select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'
        and (${kinds ?? null}::text[] is null or wait_event = any(${kinds ?? null}::text[]))`.execute(db)
    if (rows.length > 0) return
  }
}
