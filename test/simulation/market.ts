import { operations, specifiedPerSecond } from '../../src/market/operation.js'
import { dayMs, hourMs, minuteMs } from '../../src/market/values.js'
import { tokenRequest } from '../../src/simulator/world/tokens.js'
import type { PlannedFault } from './faultPlan.js'
import type { WorldInstrument, WorldPlan } from './worldPlan.js'

export interface MarketOptions {
  readonly instruments: number
  /** Tokenised stocks, most of which are silent. A market that has some has a tenth of the live limits. */
  readonly tokens: number
  /** Fills of the busiest instrument. The n-th busiest has nearly 1/n of them. */
  readonly busiestPerHour: number
  /** Order books take most of all requests. */
  readonly booksEverySeconds: number
}

const faultsPerHour = 2

/** A market of some size, with the limits of the live service and the rhythm that a recorder has by default. */
export function planMarket(
  base: WorldPlan,
  minutes: number,
  { instruments, tokens, busiestPerHour, booksEverySeconds }: MarketOptions,
): WorldPlan {
  const listed = Array.from({ length: instruments }, (_, place): WorldInstrument => {
    const category = place % 3 === 2 ? 'SPOT' : 'USDT-FUTURES'
    const fillsPerHour = Math.max(6, Math.round(busiestPerHour / (place + 1) ** 0.95))
    return { category, symbol: `M${place + 1}USDT`, fillsPerHour, hasRpi: place % 4 === 0 }
  })
  const everyNth = Math.ceil(base.faults.length / ((faultsPerHour * minutes) / 60))
  const plan: WorldPlan = {
    ...base,
    faults: base.faults
      .filter((_, place) => place % everyNth === everyNth - 1)
      .map((fault) => ({ ...fault, machine: 0 })),
    machines: ['one'],
    jitterMs: 50,
    limits: { perSecond: {}, perMinute: 6_000 },
    instruments: listed,
    launchedBeforeMs: 7_200_000,
    rhythm: {
      tickersEverySeconds: 10,
      watchSeconds: 0,
      listsEveryMinutes: 5,
      booksEverySeconds,
      fillsMaxSeconds: 600,
    },
  }
  return tokens === 0 ? plan : withTokens(plan, minutes, tokens)
}

/** A Monday. */
const thinEpochMs = Date.UTC(2026, 9, 5)
/** As far back as the service gives minutes in pages of a thousand. */
const launchedBeforeMs = 30 * dayMs
const tenth = 0.1

/** Adds tokens to a market, which has a tenth of the live limits, slow snapshots, and a restart in the middle of each day. */
function withTokens(plan: WorldPlan, minutes: number, tokens: number): WorldPlan {
  const thin = Array.from({ length: tokens }, (_, place): WorldInstrument => {
    const { fillsPerHour = 0, ...request } = tokenRequest(place + 1)
    return { ...request, category: 'SPOT', fillsPerHour, hasRpi: false, splits: [] }
  })
  const restarts = Array.from({ length: Math.ceil((minutes * minuteMs) / dayMs) }, (_, day): PlannedFault => {
    return { atMs: day * dayMs + 14 * hourMs, forMs: 10 * minuteMs, what: 'restart', size: 0, machine: 0 }
  })
  const perSecond = Object.fromEntries(
    operations.map((operation) => [operation, Math.max(1, specifiedPerSecond[operation] * tenth)]),
  )
  return {
    ...plan,
    epochMs: thinEpochMs,
    faults: restarts.filter(({ atMs }) => atMs < minutes * minuteMs),
    limits: { perSecond, perMinute: plan.limits.perMinute * tenth },
    instruments: [...plan.instruments, ...thin],
    launchedBeforeMs,
    rhythm: { ...plan.rhythm, tickersEverySeconds: 60, listsEveryMinutes: 10 },
  }
}
