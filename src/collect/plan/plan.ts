import type { Config } from '../../config/resolve.js'
import { type Category, categories } from '../../market/category.js'
import { byOperation, type Operation } from '../../market/operation.js'
import type { StreamName } from '../../market/stream.js'
import { sum } from '../../market/values.js'
import { isWithin } from '../schedule/places.js'
import { type StreamDemand, streamDemand, takesWhatFits } from './demand.js'
import { safeRates, watchesPerSecond } from '../streams/rates.js'
import { type AnyStream, enabledStreams } from '../streams/streams.js'
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
