import type { Ranges } from '../market/timeRange.js'
import { addMs, earlierOf, type ServiceMs } from '../market/values.js'
import type { FetchTask } from './fetchRange.js'
import type { Reach } from './reach.js'
import { candleSources, pagePlaces, type PageRequest, type PageResponse, type Source } from './sources.js'

export interface LaunchContext {
  /** Requests a page and has its rows stored. Rejects when the service gives no response. */
  readonly ask: (request: PageRequest) => Promise<PageResponse>
  /** Returns the time of the service's clock. */
  readonly now: () => ServiceMs
  readonly reach: Reach
}

/** Number of responses that must show candles from the launch on, and none before it. */
const agreeingResponses = 2

/**
 * Asks for pages across the listed launch. The list may name a later listing, so it is only believed when two responses
 * agree with it. Resolves to the time before the launch if they do, and else to nothing. A search of all that time would
 * take far more requests.
 *
 * @param launch no candle opens before it if the list is right
 */
export async function lookBelowLaunch(
  { floor, lengthMs }: FetchTask,
  launch: ServiceMs,
  { ask, now, reach }: LaunchContext,
): Promise<Ranges> {
  const ageMs = reach.ageMs()
  const isUseful = ({ hasReach }: Source) => !hasReach || ageMs === null || now() - launch < ageMs
  const useful = new Set<Source>(candleSources.filter(isUseful))
  for (let agreeing = 0, round = 1; round <= agreeingResponses; round++) {
    for (const source of useful) {
      const halfMs = Math.ceil(pagePlaces(source, lengthMs) / 2) * lengthMs
      const window = { from: addMs(launch, -halfMs), to: earlierOf(addMs(launch, halfMs), now()) }
      const { openTimes, lack } = await ask({ operation: source.operation, window })
      if (openTimes.some((time) => time < launch)) return []
      if (openTimes.length === 0) useful.delete(source)
      else if (lack === 'shown') agreeing += 1
      if (agreeing === agreeingResponses) return [{ from: floor, to: launch }]
    }
  }
  return []
}
