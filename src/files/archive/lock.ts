import type { Kysely } from 'kysely'
import { lockNames } from '../../db/locks/names.js'
import { withSessionLockNow } from '../../db/locks/sessionLock.js'
import type { Database } from '../../db/schema.js'

/** One archiver of a database at a time; the lock ends with its session, however that ends. */
export async function withArchiveLock<Result>(db: Kysely<Database>, work: () => Promise<Result>): Promise<Result> {
  const refusal = () => new Error('another archiver of this database is at work: wait until it has ended')
  return withSessionLockNow(db, lockNames.archive, refusal, work)
}
