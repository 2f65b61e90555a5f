import { type Kysely, sql } from 'kysely'
import type { TimeMs } from '../market/values.js'
import type { Database } from './schema.js'

/** Reads the database's clock, in epoch milliseconds. In a transaction this is the time of its beginning. */
export async function databaseNow(db: Kysely<Database>): Promise<TimeMs> {
  const { rows } = await sql<{ now: TimeMs }>`select now() as now`.execute(db)
  const [row] = rows
  if (row === undefined) throw new Error('the database did not tell its time')
  return row.now
}
