import type { Kysely } from 'kysely'
import { lockNames } from '../db/locks/names.js'
import { countHolders, queryOn } from '../db/locks/sessionLock.js'
import type { Database } from '../db/schema.js'

/** Whether some process owns the budget of an egress at this moment. */
export async function isEgressOwned(db: Kysely<Database>, egress: string): Promise<boolean> {
  return (await countHolders(queryOn(db), lockNames.egress(egress))) > 0
}
