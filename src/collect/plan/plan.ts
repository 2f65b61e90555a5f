import type { Config } from '../../config/resolve.js'
import { type Category, categories } from '../../market/category.js'
import { byOperation, type Operation } from '../../market/operation.js'
import { type StreamName, streamTraits } from '../../market/stream.js'
import { sum } from '../../market/values.js'
import { groupBy } from '../../runtime/groupBy.js'
import { isWithin } from '../schedule/pace.js'
import { type InstrumentDemand, instrumentDemands, type StreamDemand, streamDemand, takesWhatFits } from './demand.js'
import { type AnyStream, enabledStreams, safeRates, watchesPerSecond } from '../streams/streams.js'
import type { PlanUniverse } from '../universe/planUniverse.js'
import { advise, type Advice, planNotes } from './advice.js'

/** Demand for one limit. */
interface LimitUse {
  readonly requestsPerSecond: number
  /** Highest rate that stays inside the limit at any latency: limit / (1 + jitter). */
  readonly safePerSecond: number
  /** Demand divided by the safe rate; 1 uses all of it. */
  readonly share: number
}

export interface Plan {
  readonly fits: boolean
  readonly universe: { readonly kind: PlanUniverse['kind']; readonly instruments: Readonly<Record<Category, number>> }
  readonly streams: readonly StreamDemand[]
  readonly operations: Readonly<Record<Operation, LimitUse>>
  readonly overall: LimitUse
  readonly bytesPerDay: number
  readonly compressedBytesPerDay: number
  /** Streams that demand too much. Empty when it fits. */
  readonly advice: readonly Advice[]
  /** Assumptions behind the figures, and warnings, as sentences. */
  readonly notes: readonly string[]
}

/** Computes the demand of a configuration on the service's limits and on the disk. No request is sent. */
export function planConfig(config: Config, universe: PlanUniverse): Plan {
  const plan = planWith(config, universe)
  if (plan.fits || watchesPerSecond(config) === 0) return plan
  // Tickers that are not recorded take only spare requests: no recorded stream is reduced for them.
  const { streams } = config
  return planWith({ ...config, streams: { ...streams, tickers: { ...streams.tickers, watchSeconds: 0 } } }, universe)
}

function planWith(config: Config, universe: PlanUniverse): Plan {
  const allowed = allowances(config, universe)
  const { streams } = allowed
  const totals = totalsOf(config, streams)
  const uses = [totals.overall, ...Object.values(totals.operations)]
  const fits = uses.every((use) => isWithin(use.requestsPerSecond, use.safePerSecond))
  return {
    fits,
    universe: { kind: universe.kind, instruments: countByCategory(universe) },
    streams,
    ...totals,
    // A stream over its share needs no advice if the whole plan fits: it uses requests that other streams do not need.
    advice: fits ? [] : advise(config, streams, allowed.perSecond),
    notes: planNotes(config, universe, streams),
  }
}

/** Adds up what streams take of the limits and of the disk. */
function totalsOf(config: Config, streams: readonly StreamDemand[]) {
  const safe = safeRates(config)
  const total = (value: (demand: StreamDemand) => number) => sum(streams.map(value))
  const use = (matches: (demand: StreamDemand) => boolean, safePerSecond: number): LimitUse => {
    const requestsPerSecond = total((demand) => (matches(demand) ? demand.requestsPerSecond : 0))
    return { requestsPerSecond, safePerSecond, share: requestsPerSecond / safePerSecond }
  }
  return {
    operations: byOperation((name) => use(({ operation }) => operation === name, safe.perSecond[name])),
    overall: use(() => true, safe.overall),
    bytesPerDay: total(({ bytesPerDay }) => bytesPerDay),
    compressedBytesPerDay: total(({ compressedBytesPerDay }) => compressedBytesPerDay),
  }
}

function countByCategory(universe: PlanUniverse): Record<Category, number> {
  const counts = Object.fromEntries(categories.map((category) => [category, 0])) as Record<Category, number>
  for (const { category } of universe.instruments) counts[category] += 1
  return counts
}

/** Rates that the limits leave for each enabled stream. */
interface Allowances {
  /** Demands of the enabled streams. A stream with `busiest: fit` demands no more than it is allowed. */
  readonly streams: readonly StreamDemand[]
  /** Allowed requests per second of each stream. A demand beyond it does not fit. */
  readonly perSecond: ReadonlyMap<StreamName, number>
}

/**
 * Largest share of its operation's limit that a stream with `busiest: fit` may fill. The rest is for retries and, of
 * candles, also for repair and backfill. Fills need no rest, because their schedule keeps to the rate by itself.
 */
const shareOfLimit: Partial<Record<Operation, number>> = { fills: 1, candles: 0.75 }
const usualShare = 0.9
/**
 * Share of the overall limit that is reserved for each stream with `busiest: fit`, even if other streams demand more.
 */
const minShare = 0.02
/** Share of the overall limit that streams may fill. The rest is for retries, repair and backfill. */
const shareOfOverall = 0.95

/**
 * Divides the limits among the streams. Streams whose size the configuration names come first. The rest is divided
 * fairly among streams with `busiest: fit`. The plan command and the collector both use these allowances.
 */
export function allowances(config: Config, universe: PlanUniverse): Allowances {
  const safe = safeRates(config)
  const enabled = enabledStreams(config)
  const named = enabled
    .filter((stream) => !takesWhatFits(config, stream))
    .map((stream) => streamDemand(stream, config, universe, Infinity))
  const fitting = enabled
    .filter((stream) => takesWhatFits(config, stream))
    .map((stream) => wanted(stream, config, universe, safe))

  const shares = fairShares(
    [
      ...named.map(({ stream, operation, requestsPerSecond }) => ({
        stream,
        perSecond: Math.min(requestsPerSecond, safe.perSecond[operation]),
      })),
      ...fitting.map(({ stream, least }) => ({ stream, perSecond: least })),
    ],
    safe.overall,
  )
  const taken = [...named.map(({ requestsPerSecond }) => requestsPerSecond), ...fitting.map(({ least }) => least)]
  const left = safe.overall * shareOfOverall - sum(taken)
  const more = fairShares(
    fitting.map(({ stream, most, least }) => ({ stream, perSecond: most - least })),
    left,
  )
  for (const [stream, perSecond] of more) shares.set(stream, (shares.get(stream) ?? 0) + perSecond)
  const demands = new Map(named.map((demand) => [demand.stream, demand]))
  return {
    streams: enabled.map(
      (stream) => demands.get(stream.name) ?? streamDemand(stream, config, universe, shares.get(stream.name) ?? 0),
    ),
    perSecond: shares,
  }
}

function wanted(stream: AnyStream, config: Config, universe: PlanUniverse, safe: ReturnType<typeof safeRates>) {
  const { operation, requestsPerSecond } = streamDemand(stream, config, universe, Infinity)
  const most = Math.min(requestsPerSecond, safe.perSecond[operation] * (shareOfLimit[operation] ?? usualShare))
  return { stream: stream.name, most, least: Math.min(most, safe.overall * minShare) }
}

interface Wanted {
  readonly stream: StreamName
  readonly perSecond: number
}

/** Divides a rate max-min fairly. A demand below an equal part is met, and the rest is divided among the others. */
function fairShares(wanted: readonly Wanted[], available: number): Map<StreamName, number> {
  const result = new Map<StreamName, number>()
  const ascending = wanted.toSorted((a, b) => a.perSecond - b.perSecond)
  let left = Math.max(0, available)
  for (const [index, { stream, perSecond }] of ascending.entries()) {
    const share = Math.min(perSecond, left / (ascending.length - index))
    result.set(stream, share)
    left -= share
  }
  return result
}

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
