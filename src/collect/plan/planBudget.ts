import type { Config } from '../../config.js'
import { type Operation, operations } from '../../market/operation.js'
import type { StreamName } from '../../market/stream.js'
import type { StreamDemand } from './planDemand.js'

interface SafeRates {
  readonly perSecond: Readonly<Record<Operation, number>>
  readonly overall: number
}

/**
 * The service counts arrivals, departures are what can be controlled: requests that leave evenly over 1 + J seconds can
 * arrive within one. The same holds for the minute of the overall limit.
 */
export function safeRates({ exchange: { limits, latencyJitterMs } }: Config): SafeRates {
  const jitterSeconds = latencyJitterMs / 1000
  return {
    perSecond: Object.fromEntries(
      operations.map((operation) => [operation, limits.perSecond[operation] / (1 + jitterSeconds)]),
    ) as Record<Operation, number>,
    overall: limits.overallPerMinute / (60 + jitterSeconds),
  }
}

/**
 * Requests a second that each stream may have: its operation's, and a fair share of what all may have together. Shares
 * are max-min fair: who asks for less than an equal part keeps it, and what it leaves is divided among the others.
 */
export function budgets(streams: readonly StreamDemand[], safe: SafeRates): Map<StreamName, number> {
  const result = new Map<StreamName, number>()
  const ascending = streams
    .map(({ stream, operation, requestsPerSecond }) => ({
      stream,
      wanted: Math.min(requestsPerSecond, safe.perSecond[operation]),
    }))
    .sort((a, b) => a.wanted - b.wanted)
  let left = safe.overall
  for (const [index, { stream, wanted }] of ascending.entries()) {
    const budget = Math.min(wanted, left / (ascending.length - index))
    result.set(stream, budget)
    left -= budget
  }
  return result
}

/** Sums of quotients differ in the last digits; a billionth over is not over. */
export function isWithin(requestsPerSecond: number, bound: number): boolean {
  return requestsPerSecond <= bound * (1 + 1e-9)
}
