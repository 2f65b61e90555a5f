import { createRandom, mix } from '../../src/simulator/world/hash.js'
import { type PlannedFault, planFaults } from './faultPlan.js'

/** What a seed makes of a world, before anything happens in it. */
export interface WorldPlan {
  readonly epochMs: number
  readonly machines: readonly string[]
  /** How much the time from departure to arrival varies at most. */
  readonly jitterMs: number
  /** Tight enough that recorders are at their limits most of the time. */
  readonly limits: { readonly perSecond: Readonly<Record<string, number>>; readonly perMinute: number }
  readonly booksEverySeconds: number
  /** Of the busiest instrument, on average: what lasts for seconds costs some of its fills. */
  readonly fillsPerHour: number
  readonly poolSize: number
  readonly faults: readonly PlannedFault[]
}

export const settleMs = 2_000

export function planWorld(seed: number, minutes: number): WorldPlan {
  const random = createRandom(mix(seed, 2))
  const between = (least: number, most: number) => least + Math.floor(random() * (most - least + 1))
  // Any time of any day: openings, nights, weekends, quarters of an hour.
  const epochMs = Date.UTC(2026, 0, 1) + between(0, 300) * 86_400_000 + between(0, 86_399) * 1_000
  const machines = random() < 0.35 ? ['one', 'two'] : ['one']
  const untilMs = minutes * 60_000
  return {
    epochMs,
    machines,
    jitterMs: between(5, 150),
    limits: {
      perSecond: {
        fills: between(1, 6),
        orderbook: between(2, 8),
        candles: between(2, 8),
        'history-candles': between(1, 4),
      },
      perMinute: between(400, 2_000),
    },
    booksEverySeconds: between(5, 30),
    poolSize: between(2, 5),
    faults: planFaults({
      random: createRandom(mix(seed, 3)),
      fromMs: 5_000,
      untilMs,
      meanGapMs: 1_500 + random() * 25_000,
      machines: machines.length,
    }),
    fillsPerHour: between(4_000, 40_000),
  }
}

/** The configuration of the recorders. */
export function settingsOf({
  jitterMs,
  limits,
  booksEverySeconds,
  poolSize,
}: WorldPlan): Readonly<Record<string, unknown>> {
  return {
    database: { dataDir: '/data', poolSize },
    exchange: {
      latencyJitterMs: jitterMs,
      timeoutMs: 6_000,
      retry: { attempts: 3, totalMs: 10_000, maxDelayMs: 1_000 },
      limits: { perSecond: limits.perSecond, overallPerMinute: limits.perMinute },
    },
    collector: { egress: 'simulated', allowOverload: true },
    streams: {
      instruments: { schedule: '*/30 * * * * *' },
      rpiSymbols: { schedule: '7,37 * * * * *' },
      tickers: { schedule: '*/10 * * * * *' },
      orderBooks: { everySeconds: booksEverySeconds, depth: 10, select: { busiest: 6 } },
      rpiOrderBooks: { everySeconds: booksEverySeconds * 2, depth: 10, select: { busiest: 3 } },
      fills: { maxPollSeconds: 60 },
      candles: { settleMs, types: ['market'], intervals: ['1m'], select: { busiest: 'all' } },
    },
    serve: { enabled: false },
  }
}
