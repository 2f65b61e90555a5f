import type { WorldInstrument, WorldPlan } from './worldPlan.js'

export interface MarketOptions {
  readonly instruments: number
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
  { instruments, busiestPerHour, booksEverySeconds }: MarketOptions,
): WorldPlan {
  const listed = Array.from({ length: instruments }, (_, place): WorldInstrument => {
    const category = place % 3 === 2 ? 'SPOT' : 'USDT-FUTURES'
    const fillsPerHour = Math.max(6, Math.round(busiestPerHour / (place + 1) ** 0.95))
    return { category, symbol: `M${place + 1}USDT`, fillsPerHour, hasRpi: place % 4 === 0 }
  })
  const everyNth = Math.ceil(base.faults.length / ((faultsPerHour * minutes) / 60))
  return {
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
}
