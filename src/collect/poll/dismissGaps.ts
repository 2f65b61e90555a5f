import type { Kysely } from 'kysely'
import { addCoverage } from '../../ledger/proof/coverage.js'
import { judgeFillGaps, removeGap } from '../../ledger/proof/emptyGaps.js'
import type { Database } from '../../db/schema.js'
import { dayMs, type TimeMs } from '../../market/values.js'
import { sleepFor } from '../../runtime/clock.js'
import type { PollContext } from './pollAndStore.js'
import { messageOf } from '../../runtime/messageOf.js'

const everyMs = 20_000
/** Older ones have waited for their candles for long enough. */
const lookbackMs = dayMs
/** Few enough that the database has judged them long before it gives up a statement. */
const gapsPerLook = 500

/** Goes through the gaps in fills from time to time and takes back those in which nothing was lost, until `signal` aborts. */
export async function keepDismissingGaps(
  db: Kysely<Database>,
  {
    clock,
    logger,
    signal,
    isOwn,
  }: Pick<PollContext, 'clock' | 'logger' | 'signal'> & { readonly isOwn: () => boolean },
): Promise<void> {
  let after = 0
  while (await sleepFor(clock, everyMs, signal)) {
    // One of all recorders does it.
    if (!isOwn()) continue
    try {
      const { dismissed, last } = await dismissEmptyGaps(db, { since: clock.now() - lookbackMs, after })
      // After the last one it begins again: gaps wait for their candles.
      after = last ?? 0
      if (dismissed > 0) logger.info(`fills: ${dismissed} gap(s) removed: the candles show that nothing was lost`)
    } catch (error) {
      // The database is away, or busy: nothing is lost by looking again later.
      logger.debug(`fills: gaps could not be looked through: ${messageOf(error)}`)
    }
  }
}

/** Goes through the next gaps. Those that were none are taken back, and their stretches are proven by that. */
export async function dismissEmptyGaps(
  db: Kysely<Database>,
  { since, after }: { readonly since: TimeMs; readonly after: number },
): Promise<{ readonly dismissed: number; readonly last: number | null }> {
  const { empty, last } = await judgeFillGaps(db, { since, after, limit: gapsPerLook })
  for (const gap of empty) {
    const { category, symbol, range } = gap
    await db.transaction().execute(async (trx) => {
      // The coverage first, as those do that store fills: in another order two transactions could wait for each other.
      await addCoverage(trx, { stream: 'fills', category, symbol, type: null, interval: null }, [range])
      await removeGap(trx, gap)
    })
  }
  return { dismissed: empty.length, last }
}
