import type { Departure, Settlement } from '../../src/exchange/limits/penalty.js'
import { type AcquireOptions, Pacer, type PacerOptions } from '../../src/exchange/limits/pacer.js'
import type { Operation } from '../../src/market/operation.js'
import { createFakeClock, type FakeClock } from './fakeClock.js'
import { limitsOf } from './fakeService.js'
import { createLogger } from '../../src/runtime/logger.js'
import { TestRight } from './rights.js'

export const answered: Settlement = { outcome: 'response' }

/** The highest number of arrivals in any half-open window of exactly `windowMs`. */
export function highestCount(arrivalsMs: readonly number[], windowMs: number): number {
  const sorted = arrivalsMs.toSorted((a, b) => a - b)
  let highest = 0
  let first = 0
  for (const [index, arrival] of sorted.entries()) {
    while ((sorted[first] ?? 0) <= arrival - windowMs) first++
    highest = Math.max(highest, index - first + 1)
  }
  return highest
}

/** Repeatable pseudo-random numbers in [0, 1). */
export function randomFrom(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}

export function setUp(more: Partial<PacerOptions> = {}, clock: FakeClock = createFakeClock()) {
  const pacer = new Pacer({
    limits: limitsOf(10, 6_000),
    latencyJitterMs: 0,
    maxInFlight: Infinity,
    right: new TestRight(),
    clock,
    logger: createLogger('silent'),
    ...more,
  })
  const departures: Departure[] = []
  const send = (
    operation: Operation,
    options?: AcquireOptions,
    settlement: Settlement | null = answered,
    target?: string,
  ) =>
    pacer.acquire(operation, { ...options, target }).then((departure) => {
      departures.push(departure)
      if (settlement !== null) pacer.settle(departure, settlement, 'unknown', target)
      return departure
    })
  return { pacer, clock, departures, send }
}
