import type { Config } from '../../config/resolve.js'
import { type Operation, operations, type StreamName } from '../../market/stream.js'

export interface SafeRates {
  readonly perSecond: Readonly<Record<Operation, number>>
  readonly overall: number
}

/**
 * Rates that keep inside the limits. The service counts arrivals, and only departures can be controlled. Requests that
 * leave evenly over 1 + J seconds can arrive within one second. The overall limit has the same problem with a minute.
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

interface Wanted {
  readonly stream: StreamName
  readonly perSecond: number
}

/** Divides a rate max-min fairly. A demand below an equal part is met, and the rest is divided among the others. */
export function fairShares(wanted: readonly Wanted[], available: number): Map<StreamName, number> {
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
