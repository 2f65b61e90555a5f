import type { PollContext } from './pollAndStore.js'
import type { TradedCategory } from '../../market/category.js'
import type { TickerWatch } from '../streams/rates.js'
import { sleepFor } from '../../runtime/clock.js'
import { messageOf } from '../../runtime/text.js'

export interface WatchOptions extends TickerWatch {
  /** How much a look at a category is worth, so long after its newest tickers came: from 1 on it is made. */
  readonly worthOf: (category: TradedCategory, sinceMs: number) => number
  /** Called when the tickers of a look are known to the universe. */
  readonly onLooked: () => void
}

/**
 * Looks at the tickers of whole categories between those that are recorded, until the signal aborts: from the volumes the schedule
 * of fills learns where trades happen, and bursts are over before the next recorded ticker comes. One look at a time is begun, at
 * the category where it is worth most. Nothing of it is stored, and what fails is left out: whoever records the tickers tells of it.
 */
export async function watchTickers(
  { client, clock, universe, logger, signal }: Pick<PollContext, 'client' | 'clock' | 'universe' | 'logger' | 'signal'>,
  { categories, minMs, gapMs, worthOf, onLooked }: WatchOptions,
): Promise<void> {
  const looking = new Map<TradedCategory, Promise<void>>()
  const lookedMs = new Map<TradedCategory, number>()
  const look = async (category: TradedCategory) => {
    try {
      const deadline = clock.monotonicMs() + minMs
      // Behind all that is recorded.
      const { rows } = await client.tickers({ category }, { signal, deadline, priority: 'repair' })
      universe.setTickers(rows)
      onLooked()
    } catch (error) {
      logger.debug(`tickers: ${messageOf(error)}`)
    }
  }
  const worthALook = (): TradedCategory | undefined => {
    let [best, maxWorth]: [TradedCategory | undefined, number] = [undefined, 1]
    for (const category of categories) {
      if (clock.monotonicMs() - (lookedMs.get(category) ?? -Infinity) < minMs) continue
      const sinceMs = Math.max(0, clock.now() - (universe.tickersAt(category) ?? 0))
      const worth = sinceMs < minMs ? 0 : worthOf(category, sinceMs)
      if (worth >= maxWorth) [best, maxWorth] = [category, worth]
    }
    return best
  }
  while (await sleepFor(clock, gapMs, signal)) {
    const category = worthALook()
    if (category === undefined || looking.has(category)) continue
    looking.set(
      category,
      look(category).finally(() => looking.delete(category)),
    )
    lookedMs.set(category, clock.monotonicMs())
  }
  await Promise.all(looking.values())
}
