import type { Category, TradedCategory } from '../../market/category.js'
import { categories, isTradedCategory } from '../../market/category.js'
import type { Candidate, Select } from '../select.js'
import { selectInstruments } from '../select.js'

/** An instrument as far as planning needs to know it. */
export interface PlanInstrument extends Candidate {
  readonly hasRpi: boolean
}

/** The market to plan for: as the service listed it, or as it was last known to be in size. */
export interface PlanUniverse {
  readonly kind: 'listed' | 'assumed'
  readonly instruments: readonly PlanInstrument[]
}

/** How many instruments the live service has been seen to list. */
const assumedCounts: Readonly<Record<Category, number>> = {
  SPOT: 3400,
  MARGIN: 320,
  'USDT-FUTURES': 800,
  'COIN-FUTURES': 25,
  'USDC-FUTURES': 50,
}

/** Average size of a fill, in quote coin: turns a ticker's turnover into a number of fills. Assumed, not measured. */
export const assumedFillTurnover = 500

/** Fills a second of the busiest instrument; the one at rank r has an r-th of that. Assumed, not measured. */
export const assumedBusiestFillsPerSecond = 20

/** Instruments without names, for when nobody can be asked. The busiest are spread over the categories by their size. */
export function assumedUniverse(counts: Readonly<Record<Category, number>> = assumedCounts): PlanUniverse {
  const instruments = categories
    .flatMap((category) =>
      Array.from({ length: counts[category] }, (_, index) => ({
        category,
        index,
        place: (index + 1) / counts[category],
      })),
    )
    .sort((a, b) => a.place - b.place)
    .map(({ category, index }, rank) => ({
      category,
      symbol: `${category}-${index}`,
      status: 'online',
      turnover24h: String(Math.round((assumedBusiestFillsPerSecond / (rank + 1)) * 86_400 * assumedFillTurnover)),
      // Nothing is known of how many have RPI quotes: all is the upper bound.
      hasRpi: isTradedCategory(category),
    }))
  return { kind: 'assumed', instruments }
}

/** The instruments a selection covers, the busiest first. For an assumed market: at least as many as it could be. */
export function coveredInstruments(universe: PlanUniverse, select: Select): PlanInstrument[] {
  if (universe.kind === 'listed') return selectInstruments(universe.instruments, select)
  // Names and turnovers are made up, so only a list of plain names says something about the number.
  const isNamed = select.symbols.every((symbol) => /^[A-Za-z0-9_]+$/.test(symbol))
  const most = isNamed ? select.symbols.length * select.categories.length : Infinity
  return selectInstruments(universe.instruments, {
    categories: select.categories,
    symbols: ['*'],
    exclude: [],
    busiest: Math.min(most, select.busiest),
  })
}

export function tradedCount(universe: PlanUniverse, among: readonly TradedCategory[]): number {
  const wanted = new Set<Category>(among)
  return universe.instruments.filter((instrument) => wanted.has(instrument.category)).length
}

/** Fills a second to expect of an instrument; 0 where it did not trade in 24 hours. */
export function expectedFillsPerSecond(instrument: PlanInstrument): number {
  return Number(instrument.turnover24h ?? 0) / assumedFillTurnover / 86_400
}
