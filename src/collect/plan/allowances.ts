import type { Config } from '../../config/resolve.js'
import { enabledStreams } from '../../config/streamOptions.js'
import type { Operation, StreamName } from '../../market/stream.js'
import { fairShares, type SafeRates, safeRates } from './planBudget.js'
import { type StreamDemand, streamDemand, takesWhatFits } from './planDemand.js'
import type { PlanUniverse } from '../universe/planUniverse.js'

/** Who may ask how often. */
export interface Allowances {
  /** Demands of the enabled streams; those that take what fits keep to what they are allowed. */
  readonly streams: readonly StreamDemand[]
  /** Requests a second for each: a demand beyond it does not fit. */
  readonly perSecond: ReadonlyMap<StreamName, number>
}

/**
 * How much of its operation's limit a stream that takes what fits fills. Second attempts need room; candles share theirs with
 * repair and backfill; the schedule of fills keeps itself to the rate.
 */
const shareOfLimit: Partial<Record<Operation, number>> = { fills: 1, candles: 0.75 }
const usualShare = 0.9
/** What a stream that takes what fits can count on, as a share of the overall limit, whatever the others ask for. */
const minShare = 0.02
/** The rest of the overall limit is for second attempts, repair and backfill. */
const shareOfOverall = 0.95

/**
 * Divides the limits among the streams. Those whose size the configuration names come first; what they leave is divided fairly
 * among those that take what fits. The plan command and the collector both go by it.
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
  const left = safe.overall * shareOfOverall - taken.reduce((sum, perSecond) => sum + perSecond, 0)
  const more = fairShares(
    fitting.map(({ stream, most, least }) => ({ stream, perSecond: most - least })),
    left,
  )
  for (const [stream, perSecond] of more) shares.set(stream, (shares.get(stream) ?? 0) + perSecond)
  const known = new Map(named.map((demand) => [demand.stream, demand]))
  return {
    streams: enabled.map(
      (stream) => known.get(stream) ?? streamDemand(stream, config, universe, shares.get(stream) ?? 0),
    ),
    perSecond: shares,
  }
}

function wanted(stream: StreamName, config: Config, universe: PlanUniverse, safe: SafeRates) {
  const { operation, requestsPerSecond } = streamDemand(stream, config, universe, Infinity)
  const most = Math.min(requestsPerSecond, safe.perSecond[operation] * (shareOfLimit[operation] ?? usualShare))
  return { stream, most, least: Math.min(most, safe.overall * minShare) }
}
