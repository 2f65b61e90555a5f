import type { PlanInstrument, PlanUniverse } from '../../src/collect/universe/planUniverse.js'

const unknownBusiness = { turnover24h: null, hasRpi: false, measuredFillsPerSecond: null } as const

/** A market of these instruments, each with what is usual where nothing else is said. */
export function listed(...instruments: Partial<PlanInstrument>[]): PlanUniverse {
  const usual = { category: 'SPOT', symbol: 'BTCUSDT', status: 'online', kind: 'crypto', ...unknownBusiness } as const
  return { kind: 'listed', instruments: instruments.map((instrument) => ({ ...usual, ...instrument })) }
}
