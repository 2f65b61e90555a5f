import { categories, type Category, isTradedCategory } from '../../market/category.js'
import type { InstrumentKind } from '../../market/instrument.js'
import { type Candidate, type Ownership, type Ranking, rankInstruments, type Select } from './select.js'

/** Properties of an instrument that planning needs. */
export interface PlanInstrument extends Candidate {
  readonly hasRpi: boolean
  /** Fills per second as recorded lately; null when none were recorded. */
  readonly measuredFillsPerSecond: number | null
}

/** The market to plan for: as listed by the service, or assumed from earlier counts. */
export interface PlanUniverse {
  readonly kind: 'listed' | 'assumed'
  readonly instruments: readonly PlanInstrument[]
  /** Part of the market that one address asks for; without it everything. */
  readonly ownership?: Ownership
}

/** Numbers of instruments that the live service was seen to list. */
const assumedCounts: Readonly<Record<Category, number>> = {
  SPOT: 3393,
  MARGIN: 320,
  'USDT-FUTURES': 804,
  'COIN-FUTURES': 25,
  'USDC-FUTURES': 50,
}

/**
 * Of 3,393 spot instruments, 2,813 were tokenised stocks and 2 were metals. The number of RWA perpetuals is not known.
 */
const assumedTokenShare = 2813 / 3393

const assumedMetals = 2

/** Average size of a fill, in quote coin. It turns a turnover into a number of fills. Assumed, not measured. */
export const assumedFillTurnover = 500

/** Uncertainty of the average size: it may be this many times as large or as small. */
export const fillTurnoverFactor = 4

/** Fills per second of the busiest instrument; the instrument at rank r has an r-th of that. Assumed, not measured. */
export const assumedBusiestFillsPerSecond = 20

/**
 * Instruments with made-up names, for planning without the service. The busiest are spread over the categories in
 * proportion to their sizes. Tokenised stocks, whose market is elsewhere, come last.
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
      // The number of instruments with RPI quotes is not known, so the upper bound is taken.
      hasRpi: isTradedCategory(category),
      measuredFillsPerSecond: null,
    }))
  return { kind: 'assumed', instruments }
}

function assumedTurnover(rank: number): string {
  return String(Math.round((assumedBusiestFillsPerSecond / (rank + 1)) * 86_400 * assumedFillTurnover))
}

/** Instruments that a selection allows, the busiest first. For an assumed market their number is an upper bound. */
export function rankForPlan(universe: PlanUniverse, select: Select): Ranking<PlanInstrument> {
  if (universe.kind === 'listed') return rankInstruments(universe.instruments, select)
  // Names and turnovers are made up, so only a list of plain names bounds the number.
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

/** Expected fills per second of an instrument: as recorded lately, else from its turnover; 0 without either. */
export function expectedFillsPerSecond({ measuredFillsPerSecond, turnover24h }: PlanInstrument): number {
  return measuredFillsPerSecond ?? Number(turnover24h ?? 0) / assumedFillTurnover / 86_400
}
