import type { Config } from '../../config/resolve.js'
import { type Category, categories } from '../../market/category.js'
import { type Operation, operations } from '../../market/stream.js'
import { advise, type Advice } from './planAdvice.js'
import { allowances } from './allowances.js'
import { isWithin } from '../schedule/fit.js'
import { safeRates } from './planBudget.js'
import type { StreamDemand } from './planDemand.js'
import { planNotes } from './planNotes.js'
import { watchesPerSecond } from './tickerWatch.js'
import type { PlanUniverse } from '../universe/planUniverse.js'

/** Demand for one limit. */
export interface LimitUse {
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
  /** Streams that demand too much. One alternative of each makes everything fit. Empty when it fits. */
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
  const safe = safeRates(config)
  const operationUse = (operation: Operation) =>
    limitUse(
      streams
        .filter((stream) => stream.operation === operation)
        .reduce((sum, stream) => sum + stream.requestsPerSecond, 0),
      safe.perSecond[operation],
    )
  const overall = limitUse(
    streams.reduce((sum, stream) => sum + stream.requestsPerSecond, 0),
    safe.overall,
  )
  const perOperation = Object.fromEntries(
    operations.map((operation) => [operation, operationUse(operation)]),
  ) as Record<Operation, LimitUse>
  return {
    fits: [overall, ...Object.values(perOperation)].every((use) => isWithin(use.requestsPerSecond, use.safePerSecond)),
    universe: { kind: universe.kind, instruments: countByCategory(universe) },
    streams,
    operations: perOperation,
    overall,
    bytesPerDay: streams.reduce((sum, stream) => sum + stream.bytesPerDay, 0),
    compressedBytesPerDay: streams.reduce((sum, stream) => sum + stream.compressedBytesPerDay, 0),
    advice: advise(config, universe, allowed),
    notes: planNotes(config, universe, streams),
  }
}

function limitUse(requestsPerSecond: number, safePerSecond: number): LimitUse {
  return { requestsPerSecond, safePerSecond, share: requestsPerSecond / safePerSecond }
}

function countByCategory(universe: PlanUniverse): Record<Category, number> {
  const counts = Object.fromEntries(categories.map((category) => [category, 0])) as Record<Category, number>
  for (const { category } of universe.instruments) counts[category] += 1
  return counts
}
