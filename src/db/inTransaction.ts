import type { Kysely, Transaction } from 'kysely'
import type { Database } from './schema.js'

/** Runs `work` in the transaction that `db` is in already, or in one of its own. */
export async function inTransaction<Result>(
  db: Kysely<Database>,
  work: (trx: Transaction<Database>) => Promise<Result>,
): Promise<Result> {
  return db.isTransaction ? work(db as Transaction<Database>) : db.transaction().execute(work)
}
