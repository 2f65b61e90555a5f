import type { Config } from '../../config/resolve.js'
import { byOperation, type Operation } from '../../market/operation.js'
import { streamTraits } from '../../market/stream.js'
import { groupBy, sum } from '../../market/values.js'
import { isWithin } from '../schedule/places.js'
import type { PlanUniverse } from '../universe/planUniverse.js'
import { type InstrumentDemand, instrumentDemands } from './demand.js'
import { type Plan, planConfig } from './plan.js'

/** Chance gives some addresses more than others: hardly any more than the mean and this many standard deviations. */
const deviations = 3.5

/**
 * Plans a configuration for a number of addresses that have the same limits. They are planned as one address with the
 * limits of all. These limits are lowered, because chance gives the busiest address more than a fair share. Figures
 * cover all addresses together.
 */
export function planFleet(config: Config, universe: PlanUniverse, addresses: number): Plan {
  return planConfig(withRoomOf(addresses, config, instrumentDemands(config, universe)), universe)
}

/** Plans as `planFleet`, but for the best case, in which every address has a fair share. */
export function planFairShares(config: Config, universe: PlanUniverse, addresses: number): Plan {
  // Without demands there is no margin for chance.
  return planConfig(withRoomOf(addresses, config, []), universe)
}

/** Finds the smallest number of addresses at which everything fits and the limits leave nothing out. */
export function addressesNeeded(config: Config, universe: PlanUniverse): number {
  const demands = instrumentDemands(config, universe)
  const wanted = [...groupBy(demands, ({ stream }) => stream)]
  return smallestWhere((addresses) => {
    const { fits, streams } = planConfig(withRoomOf(addresses, config, demands), universe)
    const planned = new Map(streams.map(({ stream, requestsPerSecond }) => [stream, requestsPerSecond]))
    return fits && wanted.every(([stream, own]) => isWithin(totalOf(own), planned.get(stream) ?? 0))
  })
}

/** Returns the configuration of a single address that has as much room as these addresses have together. */
function withRoomOf(addresses: number, config: Config, demands: readonly InstrumentDemand[]): Config {
  const { exchange, streams } = config
  // An address that has everything needs no more than its own limits.
  const timesOf = (own: readonly InstrumentDemand[]) => Math.max(1, addresses / (1 + excessOf(own, addresses)))
  const byLimit = groupBy<InstrumentDemand, Operation>(demands, ({ stream }) => streamTraits[stream].operation)
  const limits = {
    overallPerMinute: exchange.limits.overallPerMinute * timesOf(demands),
    perSecond: byOperation((name) => exchange.limits.perSecond[name] * timesOf(byLimit.get(name) ?? [])),
  }
  // Every recorder watches tickers for its own fills. All other requests are shared.
  const watchSeconds = streams.tickers.watchSeconds / addresses
  return {
    ...config,
    exchange: { ...exchange, limits },
    streams: { ...streams, tickers: { ...streams.tickers, watchSeconds } },
  }
}

/**
 * Part by which the demand of the busiest of n addresses exceeds a fair share. Each instrument falls to one address by
 * chance, with all its streams. For k instruments of equal demand, the shares deviate by √(n - 1) / √k of a fair one.
 * Unequal demands count as fewer instruments: a single large one decides where most of the demand is.
 */
function excessOf(demands: readonly InstrumentDemand[], addresses: number): number {
  if (demands.length === 0) return 0
  const ofInstruments = [...groupBy(demands, ({ key }) => key).values()].map(totalOf)
  const deviation = Math.sqrt((addresses - 1) * sum(ofInstruments.map((demand) => demand ** 2))) / sum(ofInstruments)
  return deviations * deviation
}

function totalOf(demands: readonly InstrumentDemand[]): number {
  return sum(demands.map(({ perSecond }) => perSecond))
}

/** Finds the smallest number, from 1 on, that suffices. */
function smallestWhere(suffices: (count: number) => boolean): number {
  let upper = 1
  while (!suffices(upper)) upper *= 2
  let lower = Math.floor(upper / 2)
  while (upper - lower > 1) {
    const middle = Math.floor((lower + upper) / 2)
    if (suffices(middle)) upper = middle
    else lower = middle
  }
  return upper
}
