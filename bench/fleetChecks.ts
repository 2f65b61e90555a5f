import type { Stall } from '../src/simulator/faults.js'
import type { Report } from '../src/simulator/limits.js'
import type { Check } from './figures.js'

export const limitFactor = 0.2
export const everySeconds = 5
export const eight = [1, 2, 3, 4, 5, 6, 7, 8] as const
/** Of the recorders: the same as the simulator has. */
export const limits = {
  overallPerMinute: 1200,
  perSecond: {
    instruments: 4,
    'rpi-symbols': 2,
    tickers: 4,
    orderbook: 4,
    'rpi-orderbook': 2,
    fills: 4,
    candles: 4,
    'history-candles': 4,
    'futures-fills-history': 2,
    'spot-fills-history': 2,
    'history-fund-rate': 4,
    'current-fund-rate': 4,
    liquidations: 2,
  },
} as const

/** Beside all of what is recorded of the market: what decides how much that is are the limits. */
export const recordsAll = {
  exchange: { limits },
  streams: {
    tickers: { watchSeconds: 0 },
    orderBooks: { everySeconds, depth: 5, select: { busiest: 'all' } },
    rpiOrderBooks: { enabled: false },
    fills: { maxPollSeconds: 30 },
    candles: { select: { busiest: 'all' } },
  },
} as const

/** Its longest stalls explain what comes at once at the simulator: what waits meanwhile is counted in one instant. */
export function stallText(stalls: readonly Stall[]): string {
  const lengths = stalls.map(({ fromMs, toMs }) => toMs - fromMs).toSorted((a, b) => b - a)
  return `the simulator stood still ${lengths.length} times for 40 ms or more, at most ${(lengths[0] ?? 0).toFixed(0)} ms`
}

export function rejectedOf(report: Report): number {
  return Object.values(report).reduce((sum, { overall }) => sum + overall.rejected, 0)
}

export function atLeast(what: string, value: number, min: number, of = ''): Check {
  return {
    what,
    measured: `${value.toFixed(3)}${of === '' ? '' : ` (${of})`}`,
    target: `>= ${min}`,
    isMet: value >= min,
  }
}

export function atMost(what: string, value: number, max: number): Check {
  return { what, measured: value.toFixed(Number.isInteger(value) ? 0 : 1), target: `<= ${max}`, isMet: value <= max }
}
