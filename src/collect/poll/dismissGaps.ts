import type { Kysely } from 'kysely'
import { addCoverage } from '../../store/proof/coverage.js'
import { emptyFillGaps, removeGap } from '../../store/proof/emptyGaps.js'
import type { Database } from '../../store/db/schema.js'
import { type Clock, sleepUntil } from '../../runtime/clock.js'
import type { PollContext } from './pollContext.js'

const everyMs = 20_000
/** Older ones have been looked at often enough. */
const lookbackMs = 24 * 3_600_000

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
  while (await sleepUntil(clock, clock.now() + everyMs, signal)) {
    // One of all recorders does it.
    if (!isOwn()) continue
    try {
      const dismissed = await dismissEmptyGaps(db, clock)
      if (dismissed > 0) logger.info(`fills: ${dismissed} gap(s) removed: the candles show that nothing was lost`)
    } catch (error) {
      // The database is away, or busy: nothing is lost by looking again later.
      logger.debug(`fills: gaps could not be looked through: ${error instanceof Error ? error.message : String(error)}`)
    }
  }
}

/** Returns how many gaps were none. Their stretches are proven by that. */
async function dismissEmptyGaps(db: Kysely<Database>, clock: Clock): Promise<number> {
  const gaps = await emptyFillGaps(db, clock.now() - lookbackMs)
  for (const { id, category, symbol, range } of gaps) {
    await db.transaction().execute(async (trx) => {
      await removeGap(trx, id)
      await addCoverage(trx, { stream: 'fills', category, symbol, type: null, interval: null }, [range])
    })
  }
  return gaps.length
}
