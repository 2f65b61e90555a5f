import { type Kysely, sql } from 'kysely'
import type { Database } from '../schema.js'

/** Takes a lock that other transactions wait for. It ends with the transaction that `db` is in. */
export async function lockInTransaction(db: Kysely<Database>, name: string): Promise<void> {
  const lockRow = () => sql`select from recorder.lock where name = ${name} and place = '' for update`.execute(db)
  const { rows } = await lockRow()
  if (rows.length > 0) return
  await sql`insert into recorder.lock (name) values (${name}) on conflict do nothing`.execute(db)
  await lockRow()
}
