import picomatch from 'picomatch'
import type { Config } from '../config.js'
import type { Category, InstrumentKey } from '../market/category.js'
import type { Decimal } from '../market/values.js'

export type Select = Config['streams']['fills']['select']

export interface Candidate extends InstrumentKey {
  readonly status: string | null
  /** Turnover of the last 24 hours in quote coin; null where the instrument has no ticker. */
  readonly turnover24h: Decimal | null
}

/** Instruments in these states have no market to record. */
const withoutMarket = new Set(['listed', 'offline'])

/**
 * The instruments that a stream covers: by category, glob and turnover, the busiest first.
 * Turnover is compared as a double here, which decides about coverage but never reaches the database.
 */
export function selectInstruments<C extends Candidate>(candidates: Iterable<C>, select: Select): C[] {
  const categories = new Set<Category>(select.categories)
  const included = picomatch(select.symbols)
  const excluded = select.exclude.length > 0 ? picomatch(select.exclude) : () => false
  const least = select.minTurnover24h === undefined ? null : Number(select.minTurnover24h)
  const chosen = [...candidates].filter(
    (candidate) =>
      categories.has(candidate.category) &&
      !withoutMarket.has(candidate.status ?? '') &&
      included(candidate.symbol) &&
      !excluded(candidate.symbol) &&
      (least === null || turnoverOf(candidate) >= least),
  )
  chosen.sort((a, b) => turnoverOf(b) - turnoverOf(a) || compareKeys(a, b))
  return chosen.slice(0, select.busiest)
}

function turnoverOf(candidate: Candidate): number {
  return Number(candidate.turnover24h ?? 0)
}

function compareKeys(a: InstrumentKey, b: InstrumentKey): number {
  return a.category < b.category ? -1 : a.category > b.category ? 1 : a.symbol < b.symbol ? -1 : 1
}
