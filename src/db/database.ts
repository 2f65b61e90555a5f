import { Kysely, PostgresAdapter, PostgresDialect } from 'kysely'
import { type DatabaseOptions, type DatabasePool, openPool } from './pool.js'
import type { Database } from './schema.js'

/** An open database. Close it once; every query after that fails. */
export interface RecorderDatabase extends DatabasePool {
  readonly db: Kysely<Database>
}

/** Opens a pool with the query builder on it. Connects at the first query. Throws on a malformed URL. */
export function openDatabase(options: DatabaseOptions): RecorderDatabase {
  const pool = openPool(options)
  const db = new Kysely<Database>({ dialect: new Dialect({ pool }) })
  return {
    db,
    pool,
    async close() {
      await db.destroy()
      // A Kysely that was never asked anything leaves the pool open, and its idle connections keep the process alive.
      if (!pool.ending) await pool.end()
    },
  }
}

class Dialect extends PostgresDialect {
  override createAdapter(): PostgresAdapter {
    return new Adapter()
  }
}

/** Leaves out the migrator's advisory lock, which any login could hold. `migrate.ts` takes a lock of its own. */
class Adapter extends PostgresAdapter {
  override async acquireMigrationLock(): Promise<void> {
    // The lock was taken before.
  }

  override async releaseMigrationLock(): Promise<void> {
    // The lock ends with the transaction.
  }
}
