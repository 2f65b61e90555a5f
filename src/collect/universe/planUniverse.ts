import { categories, type Category, isTradedCategory, type TradedCategory } from '../../market/category.js'
import type { InstrumentKind } from '../../market/instrument.js'
import type { Ownership } from './ownership.js'
import { type Candidate, rankInstruments, type Ranking, type Select } from './select.js'

/** An instrument as far as planning needs to know it. */
export interface PlanInstrument extends Candidate {
  readonly hasRpi: boolean
  /** Fills a second as they were recorded lately; null where none were. */
  readonly measuredFillsPerSecond: number | null
}

/** The market to plan for: as the service listed it, or as it was last known to be in size. */
export interface PlanUniverse {
  readonly kind: 'listed' | 'assumed'
  readonly instruments: readonly PlanInstrument[]
  /** What of it is asked for from one address; without it everything. */
  readonly ownership?: Ownership
}

/** How many instruments the live service has been seen to list. */
const assumedCounts: Readonly<Record<Category, number>> = {
  SPOT: 3393,
  MARGIN: 320,
  'USDT-FUTURES': 804,
  'COIN-FUTURES': 25,
  'USDC-FUTURES': 50,
}

/** Of 3,393 spot instruments 2,813 were tokenised stocks and 2 metal. How many futures are RWA perpetuals is not known. */
const assumedTokenShare = 2813 / 3393
const assumedMetals = 2

/** Average size of a fill, in quote coin: turns a ticker's turnover into a number of fills. Assumed, not measured. */
export const assumedFillTurnover = 500

/** The average size may be so many times as large, or as small: what an estimate from turnover is uncertain by. */
export const fillTurnoverFactor = 4

/** Fills a second of the busiest instrument; the one at rank r has an r-th of that. Assumed, not measured. */
export const assumedBusiestFillsPerSecond = 20

/**
 * Instruments without names, for when nobody can be asked. The busiest are spread over the categories by their size, those
 * whose market is elsewhere come last.
 */
export function assumedUniverse(counts: Readonly<Record<Category, number>> = assumedCounts): PlanUniverse {
  const instruments = categories
    .flatMap((category) => {
      const tokens = category === 'SPOT' ? Math.round(counts.SPOT * assumedTokenShare) : 0
      const others = counts[category] - tokens
      const kindAt = (index: number): InstrumentKind => {
        if (index >= others) return 'tokenised_stock'
        return category === 'SPOT' && index >= others - assumedMetals ? 'metal' : 'crypto'
      }
      return Array.from({ length: counts[category] }, (_, index) => ({
        category,
        index,
        kind: kindAt(index),
        place: index < others ? (index + 1) / others : 2,
      }))
    })
    .sort((a, b) => a.place - b.place)
    .map(({ category, index, kind }, rank) => ({
      category,
      symbol: `${category}-${index}`,
      status: 'online',
      kind,
      turnover24h: kind === 'tokenised_stock' ? '0' : assumedTurnover(rank),
      // Nothing is known of how many have RPI quotes: all is the upper bound.
      hasRpi: isTradedCategory(category),
      measuredFillsPerSecond: null,
    }))
  return { kind: 'assumed', instruments }
}

function assumedTurnover(rank: number): string {
  return String(Math.round((assumedBusiestFillsPerSecond / (rank + 1)) * 86_400 * assumedFillTurnover))
}

/** The instruments that a selection allows, the busiest first. For an assumed market: at least as many as it could be. */
export function rankForPlan(universe: PlanUniverse, select: Select): Ranking<PlanInstrument> {
  if (universe.kind === 'listed') return rankInstruments(universe.instruments, select)
  // Names and turnovers are made up, so only a list of plain names says something about the number.
  const isNamed = select.symbols.every((symbol) => /^[A-Za-z0-9_]+$/.test(symbol))
  const most = isNamed ? select.symbols.length * select.categories.length : Infinity
  const { categories: among, kinds } = select
  const { ranked, leftOut } = rankInstruments(universe.instruments, {
    categories: among,
    kinds,
    symbols: ['*'],
    exclude: [],
  })
  return { ranked: ranked.slice(0, most), leftOut }
}

export function tradedCount(universe: PlanUniverse, among: readonly TradedCategory[]): number {
  const wanted = new Set<Category>(among)
  return universe.instruments.filter((instrument) => wanted.has(instrument.category)).length
}

/** Fills a second to expect of an instrument: as recorded lately, else from its turnover; 0 where it did not trade. */
export function expectedFillsPerSecond({ measuredFillsPerSecond, turnover24h }: PlanInstrument): number {
  return measuredFillsPerSecond ?? Number(turnover24h ?? 0) / assumedFillTurnover / 86_400
}
