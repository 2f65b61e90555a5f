import { Exclusive } from './poller.js'
import type { PollContext } from './pollAndStore.js'
import type { TradedCategory } from '../../market/category.js'
import { sleepUntil } from '../../runtime/clock.js'
import { messageOf } from '../../runtime/messageOf.js'

/** Tickers this much younger than the time between two looks need no look. */
const recentShare = 0.4

export interface WatchOptions {
  readonly categories: readonly TradedCategory[]
  readonly everyMs: number
  /** Asked before each look: false while the recorded tickers suffice. */
  readonly isWorthwhile: () => boolean
}

/**
 * Looks at the tickers of whole categories between those that are recorded, until the signal aborts: from the volumes the schedule
 * of fills learns where trades happen, and bursts are over before the next recorded ticker comes. Nothing of it is stored, and
 * what fails is left out: whoever records the tickers tells of it.
 */
export async function watchTickers(
  { client, clock, universe, logger, signal }: Pick<PollContext, 'client' | 'clock' | 'universe' | 'logger' | 'signal'>,
  { categories, everyMs, isWorthwhile }: WatchOptions,
): Promise<void> {
  const exclusive = new Exclusive()
  const look = async (category: TradedCategory) => {
    try {
      const deadline = clock.monotonicMs() + everyMs
      // Behind all that is recorded.
      const { rows } = await client.tickers({ category }, { signal, deadline, priority: 'repair' })
      universe.setTickers(rows)
    } catch (error) {
      logger.debug(`tickers: ${messageOf(error)}`)
    }
  }
  // Recorded tickers are mostly asked for at the beginning of a second: a little later it is known whether they came.
  const afterMs = everyMs / 4
  const nextAfter = (time: number) => (Math.floor((time - afterMs) / everyMs) + 1) * everyMs + afterMs
  while (await sleepUntil(clock, nextAfter(clock.now()), signal)) {
    if (!isWorthwhile()) continue
    for (const category of categories) {
      const isRecent = clock.now() - (universe.tickersAt(category) ?? -Infinity) < everyMs * recentShare
      if (!isRecent) exclusive.run(category, () => look(category))
    }
  }
  await exclusive.idle()
}
