import type { Config } from '../../config/resolve.js'
import { categories, type Category, type InstrumentKey, isTradedCategory } from '../../market/category.js'
import { hasWildcard, type InstrumentKind, symbolMatcher } from '../../market/instrument.js'
import type { StreamName } from '../../market/stream.js'
import { type Decimal, secondsPerDay } from '../../market/values.js'

export type Select = Config['streams']['fills']['select']

/** Properties of an instrument that decide whether it is covered, and what that takes. */
export interface PlanInstrument extends InstrumentKey {
  readonly status: string | null
  readonly kind: InstrumentKind
  /** Turnover on this service in the last 24 hours, in quote coin; null without a ticker. */
  readonly turnover24h: Decimal | null
  readonly hasRpi: boolean
  /** Fills per second as recorded lately; null when none were recorded. */
  readonly measuredFillsPerSecond: number | null
}

/** Part of the work that this recorder does if several recorders share a database. */
export interface Ownership {
  /** Returns true if this recorder requests all streams of an instrument. */
  hasInstrument(key: InstrumentKey): boolean
  /** Returns true if this recorder requests the list of a category. `category` is null for a stream's only list. */
  hasList(stream: StreamName, category: Category | null): boolean
  /** Returns true if the recorder that requested the instrument before is gone. */
  isOrphan(key: InstrumentKey): boolean
}

/** Ownership of a recorder that shares with no other. */
export const ownsEverything: Ownership = { hasInstrument: () => true, hasList: () => true, isOrphan: () => false }

/** The market to plan for: as listed by the service, or assumed from earlier counts. */
export interface PlanUniverse {
  readonly kind: 'listed' | 'assumed'
  readonly instruments: readonly PlanInstrument[]
  /** Part of the market that one address asks for; without it everything. */
  readonly ownership?: Ownership
}

/** Numbers of instruments that a stream could cover and does not, by the reason. */
export interface LeftOut {
  /** Instruments of kinds that the selection does not name. */
  readonly kind: number
  /** Instruments with less turnover than the selection demands. */
  readonly turnover: number
  /** Instruments beyond the number that the selection names. */
  readonly number: number
  /** Instruments for which the limits leave no room. */
  readonly limits: number
}

/** Instruments in these states have no market to record. */
const withoutMarket = new Set(['listed', 'offline'])

export function hasMarket(status: string | null | undefined): boolean {
  return !withoutMarket.has(status ?? '')
}

/** Instruments that a selection allows, the busiest first, and the numbers that it leaves out for each reason. */
interface Ranking {
  readonly ranked: readonly PlanInstrument[]
  readonly leftOut: Pick<LeftOut, 'kind' | 'turnover'>
}

/**
 * Ranks the instruments that a selection allows by category, glob, kind and turnover. For an assumed market their
 * number is an upper bound. The caller applies `busiest`, because it knows the cost of an instrument.
 */
export function rankInstruments({ kind, instruments }: PlanUniverse, select: Omit<Select, 'busiest'>): Ranking {
  if (kind === 'listed') return rankListed(instruments, select)
  // Names and turnovers are made up, so only a list of plain names bounds the number.
  const isNamed = !select.symbols.some(hasWildcard)
  const most = isNamed ? select.symbols.length * select.categories.length : Infinity
  const { categories: among, kinds } = select
  const { ranked, leftOut } = rankListed(instruments, { categories: among, kinds, symbols: ['*'], exclude: [] })
  return { ranked: ranked.slice(0, most), leftOut }
}

/** Sorts by category and symbol, without a text for each comparison of tens of thousands of instruments. */
function compareKeys(one: InstrumentKey, other: InstrumentKey): number {
  if (one.category !== other.category) return one.category < other.category ? -1 : 1
  return one.symbol < other.symbol ? -1 : 1
}

/** Compares turnover as a double, because it decides coverage and never reaches the database. */
function rankListed(instruments: readonly PlanInstrument[], select: Omit<Select, 'busiest'>): Ranking {
  const among = new Set<Category>(select.categories)
  const kinds = new Set<InstrumentKind>(select.kinds)
  const included = symbolMatcher(select.symbols)
  const excluded = symbolMatcher(select.exclude)
  const least = select.minTurnover24h === undefined ? -Infinity : Number(select.minTurnover24h)
  const leftOut = { kind: 0, turnover: 0 }
  const allowed: { readonly instrument: PlanInstrument; readonly turnover: number }[] = []
  for (const instrument of instruments) {
    const { category, symbol, status, kind } = instrument
    if (!among.has(category) || !hasMarket(status) || !included(symbol) || excluded(symbol)) continue
    const turnover = Number(instrument.turnover24h ?? 0)
    if (!kinds.has(kind)) leftOut.kind++
    else if (turnover < least) leftOut.turnover++
    else allowed.push({ instrument, turnover })
  }
  allowed.sort((a, b) => b.turnover - a.turnover || compareKeys(a.instrument, b.instrument))
  return { ranked: allowed.map(({ instrument }) => instrument), leftOut }
}

/** Numbers of instruments that the live service was seen to list. */
const assumedCounts: Readonly<Record<Category, number>> = {
  SPOT: 3393,
  MARGIN: 320,
  'USDT-FUTURES': 804,
  'COIN-FUTURES': 25,
  'USDC-FUTURES': 50,
}

/** The service listed 2,813 tokenised stocks and 2 metals as spot instruments. RWA perpetuals were not counted. */
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
export function assumedUniverse(): PlanUniverse {
  const instruments = categories
    .flatMap((category) => {
      const tokens = category === 'SPOT' ? Math.round(assumedCounts.SPOT * assumedTokenShare) : 0
      const others = assumedCounts[category] - tokens
      const kindAt = (index: number): InstrumentKind => {
        if (index >= others) return 'tokenised_stock'
        return category === 'SPOT' && index >= others - assumedMetals ? 'metal' : 'crypto'
      }
      return Array.from({ length: assumedCounts[category] }, (_, index) => ({
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
  return String(Math.round((assumedBusiestFillsPerSecond / (rank + 1)) * secondsPerDay * assumedFillTurnover))
}

/** Expected fills per second of an instrument: as recorded lately, else from its turnover; 0 without either. */
export function expectedFillsPerSecond({ measuredFillsPerSecond, turnover24h }: PlanInstrument): number {
  return measuredFillsPerSecond ?? Number(turnover24h ?? 0) / assumedFillTurnover / secondsPerDay
}
