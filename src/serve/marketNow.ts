import type { RecorderDatabase } from '../db/database.js'
import { newestKnown } from '../ledger/read/overview.js'
import { asIfService, type ServiceMs } from '../market/values.js'
import type { Clock } from '../runtime/clock.js'
import { readNowAndThen } from './nowAndThen.js'
import type { RecorderSource } from './source.js'

const everyMs = 10_000

/**
 * Returns a function that tells the time of the market, from which the page looks back. The service's clock tells it.
 * Before the first response the newest recorded time does, and this machine's clock only in an empty database. A clock
 * that is wrong by hours would otherwise empty the page.
 */
export function marketTime(
  { serviceNow }: Pick<RecorderSource, 'serviceNow'>,
  { db }: RecorderDatabase,
  clock: Clock,
): () => Promise<ServiceMs> {
  const known = readNowAndThen(clock, everyMs, null, () => newestKnown(db))
  return async () => serviceNow() ?? (await known()) ?? asIfService(clock.now())
}
