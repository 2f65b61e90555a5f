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

/** How much of a limit is asked for. */
export interface LimitUse {
  readonly requestsPerSecond: number
  /** The highest rate that stays inside the limit whatever the latency does: limit / (1 + jitter). */
  readonly safePerSecond: number
  /** Requests over what is safe; 1 is all of it. */
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
  /** What to change so that everything fits: one alternative of each. Empty when it fits. */
  readonly advice: readonly Advice[]
  /** What the figures rest on, and what to know about them. */
  readonly notes: readonly string[]
}

/** What a configuration asks of the service's limits and of the disk. Pure arithmetic: nothing is asked of anybody. */
export function planConfig(config: Config, universe: PlanUniverse): Plan {
  const plan = planWith(config, universe)
  if (plan.fits || watchesPerSecond(config) === 0) return plan
  // Looks at tickers take what is left: nothing that is recorded is given up for them.
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
