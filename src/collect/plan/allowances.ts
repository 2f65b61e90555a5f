import type { Config } from '../../config/resolve.js'
import { enabledStreams } from '../../config/streamOptions.js'
import type { Operation, StreamName } from '../../market/stream.js'
import { fairShares, type SafeRates, safeRates } from './planBudget.js'
import { type StreamDemand, streamDemand, takesWhatFits } from './planDemand.js'
import type { PlanUniverse } from '../universe/planUniverse.js'

/** Rates that the limits leave for each enabled stream. */
export interface Allowances {
  /** Demands of the enabled streams. A stream that takes what fits demands no more than it is allowed. */
  readonly streams: readonly StreamDemand[]
  /** Allowed requests per second of each stream. A demand beyond it does not fit. */
  readonly perSecond: ReadonlyMap<StreamName, number>
}

/**
 * Largest share of its operation's limit that a stream that takes what fits may fill. The rest is for second attempts,
 * and in the case of candles for repair and backfill. The schedule of fills keeps to the rate by itself.
 */
const shareOfLimit: Partial<Record<Operation, number>> = { fills: 1, candles: 0.75 }
const usualShare = 0.9
/** Share of the overall limit that is reserved for each stream that takes what fits, whatever the others demand. */
const minShare = 0.02
/** The rest of the overall limit is for second attempts, repair and backfill. */
const shareOfOverall = 0.95

/**
 * Divides the limits among the streams. Streams whose size the configuration names come first. The rest is divided
 * fairly among those that take what fits. The plan command and the collector both use these allowances.
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
