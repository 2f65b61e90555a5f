import { type Category, type InstrumentKey, instrumentText } from '../../market/category.js'
import type { StreamName } from '../../market/stream.js'
import type { Config } from '../../config/resolve.js'
import { type InstrumentKind, symbolMatcher } from '../../market/instrument.js'
import type { Decimal } from '../../market/values.js'

export type Select = Config['streams']['fills']['select']

export interface Candidate extends InstrumentKey {
  readonly status: string | null
  readonly kind: InstrumentKind
  /** Turnover on this service in the last 24 hours, in quote coin; null without a ticker. */
  readonly turnover24h: Decimal | null
}

/** Instruments that a selection allows, the busiest first, and the numbers that it leaves out for each reason. */
export interface Ranking<C> {
  readonly ranked: readonly C[]
  readonly leftOut: { readonly kind: number; readonly turnover: number }
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

/**
 * Ranks the instruments that a selection allows by category, glob, kind and turnover. The caller applies `busiest`,
 * because it knows the cost of an instrument. Turnover is compared as a double. It decides coverage and never reaches
 * the database.
 */
export function rankInstruments<C extends Candidate>(
  candidates: Iterable<C>,
  select: Omit<Select, 'busiest'>,
): Ranking<C> {
  const categories = new Set<Category>(select.categories)
  const kinds = new Set<InstrumentKind>(select.kinds)
  const included = symbolMatcher(select.symbols)
  const excluded = symbolMatcher(select.exclude)
  const least = select.minTurnover24h === undefined ? -Infinity : Number(select.minTurnover24h)
  const leftOut = { kind: 0, turnover: 0 }
  const allowed: { readonly candidate: C; readonly turnover: number }[] = []
  for (const candidate of candidates) {
    const isMeant =
      categories.has(candidate.category) &&
      !withoutMarket.has(candidate.status ?? '') &&
      included(candidate.symbol) &&
      !excluded(candidate.symbol)
    if (!isMeant) continue
    const turnover = Number(candidate.turnover24h ?? 0)
    if (!kinds.has(candidate.kind)) leftOut.kind++
    else if (turnover < least) leftOut.turnover++
    else allowed.push({ candidate, turnover })
  }
  allowed.sort(
    (a, b) => b.turnover - a.turnover || (instrumentText(a.candidate) < instrumentText(b.candidate) ? -1 : 1),
  )
  return { ranked: allowed.map(({ candidate }) => candidate), leftOut }
}

/** Part of the work that this recorder does if several recorders share a database. */
export interface Ownership {
  /** Returns true if this recorder asks for a stream of an instrument. */
  hasInstrument(stream: StreamName, key: InstrumentKey): boolean
  /** Returns true if this recorder asks for the list of a category. `category` is null for a stream's only list. */
  hasList(stream: StreamName, category: Category | null): boolean
  /** Returns true if the recorder that asked for the stream is gone, and no other asks for it. */
  isOrphan(stream: StreamName, key: InstrumentKey): boolean
}

/** Ownership of a recorder that shares with no other. */
export const ownsEverything: Ownership = { hasInstrument: () => true, hasList: () => true, isOrphan: () => false }
