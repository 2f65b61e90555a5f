import { Kysely, PostgresDialect, type Transaction } from 'kysely'
import type pg from 'pg'
import { SameDatabase } from './identity.js'
import { type DatabaseOptions, type DatabasePool, openPool } from './pool.js'
import type { Database } from './schema.js'
import type { DatabaseMs } from '../market/values.js'

/** An open database. Close it once; every query after that fails. */
export interface RecorderDatabase extends DatabasePool {
  readonly db: Kysely<Database>
  /** Holds the connections to this database once its id is known. */
  readonly same: SameDatabase
}

/** Sends a statement to the database. */
export type RunQuery = (text: string, values: readonly unknown[]) => Promise<{ readonly rows: readonly unknown[] }>

/**
 * Makes the session remember all logins. To look at one takes a lock. Where sessions of others leave no room for that, they
 * can be ended only by a session that remembers them.
 */
const rememberLogins = "select count(pg_get_userbyid(oid)), count(pg_has_role(oid, 'usage')) from pg_roles"

/**
 * Opens a pool with the query builder on it. Connects at the first query. Throws on a malformed URL.
 *
 * @param options.same shared by pools that must lead to one database
 */
export function openDatabase(
  options: Omit<DatabaseOptions, 'check'> & { readonly same?: SameDatabase },
): RecorderDatabase {
  const { same = new SameDatabase(), ...rest } = options
  const check = async (client: pg.ClientBase) => {
    await same.check(client)
    if (rest.isReadOnly !== true) await client.query(rememberLogins)
  }
  const pool = openPool({ ...rest, check })
  const db = new Kysely<Database>({ dialect: new PostgresDialect({ pool }) })
  return {
    db,
    pool,
    same,
    async close() {
      await db.destroy()
      // A Kysely without any query leaves the pool open. Its idle connections would keep the process alive.
      if (!pool.ending) await pool.end()
    },
  }
}

/** Runs `work` in the transaction that `db` is in already, or in one of its own. */
export async function inTransaction<Result>(
  db: Kysely<Database>,
  work: (trx: Transaction<Database>) => Promise<Result>,
): Promise<Result> {
  return db.isTransaction ? work(db as Transaction<Database>) : db.transaction().execute(work)
}

/** Calls a function of the database. The server infers the types of the values from the function's parameters. */
export async function callFunction<Result>(
  db: Kysely<Database>,
  name: string,
  ...values: readonly unknown[]
): Promise<Result> {
  const { result } = await db
    .selectNoFrom((eb) =>
      eb
        .fn<Result>(
          name,
          values.map((value) => eb.val(value)),
        )
        .as('result'),
    )
    .executeTakeFirstOrThrow()
  return result as Result
}

/** Reads the database's clock, in epoch milliseconds. In a transaction this is the time of its beginning. */
export async function databaseNow(db: Kysely<Database>): Promise<DatabaseMs> {
  return callFunction(db, 'now')
}
