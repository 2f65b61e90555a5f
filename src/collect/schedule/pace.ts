import { type InstrumentKey, instrumentText } from '../../market/category.js'

/**
 * How much the latest responses of a target have brought. The less they brought, the less often the target is
 * requested. A response brings nothing if its order book is empty or unchanged, or if its candles show no new trade.
 */
export interface Pace {
  /** Responses in a row that brought nothing. */
  readonly fruitless: number
  /** Fruitless responses that were requested because a ticker claimed that there was news. */
  readonly misled: number
}

interface PaceLimits {
  /** Time between two requests while every response brings something. */
  readonly everyMs: number
  /** Longest time between two requests, even for a target that has always been silent. */
  readonly maxMs: number
}

/** Backoff after a failed request for a list or a book, whatever the cause of the failure. */
export const retrySoon = { minMs: 10_000, maxMs: 60_000 }

/** Time allowed for a response to arrive and to be stored. */
export const graceMs = 30_000

export const fullPace: Pace = { fruitless: 0, misled: 0 }

/**
 * Returns the pace after a response.
 *
 * @param response `brought`: it held something new; `claimed`: a ticker had said that it would
 */
export function afterResponse(
  pace: Pace,
  { brought, claimed }: { readonly brought: boolean; readonly claimed: boolean },
): Pace {
  if (brought) return fullPace
  return { fruitless: pace.fruitless + 1, misled: pace.misled + (claimed ? 1 : 0) }
}

/**
 * Time to wait after the last response. Each response that brought nothing doubles it. After an hour of silence, news
 * is thus found about an hour late at most.
 */
export function waitMs({ fruitless }: Pace, { everyMs, maxMs }: PaceLimits): number {
  return doubled(everyMs, fruitless, maxMs)
}

/**
 * Time to wait after the last response while a ticker claims that there is news. Each claim that turned out to be wrong
 * doubles it. A ticker that is always wrong thus soon causes no more requests.
 */
export function waitWhenClaimedMs(pace: Pace, limits: PaceLimits): number {
  return Math.min(waitMs(pace, limits), doubled(limits.everyMs, pace.misled, limits.maxMs))
}

function doubled(everyMs: number, times: number, maxMs: number): number {
  return Math.max(everyMs, Math.min(maxMs, everyMs * 2 ** Math.min(times, 30)))
}

/** A number in [0, 1) that is the same for an instrument in every process. */
export function stablePhase(key: InstrumentKey): number {
  return hashOf(instrumentText(key)) / 2 ** 32
}

/** Hash of 32 bits that is the same in every process (FNV-1a). */
export function hashOf(text: string): number {
  let hash = 0x811c9dc5
  for (let index = 0; index < text.length; index++) hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193)
  return hash >>> 0
}

/**
 * The first moment after `nowMs` that lies at `phase` of a cycle of `periodMs`. Cycles are counted from the epoch, so
 * that a restart keeps every instrument's place in the cycle.
 */
export function nextPlace(nowMs: number, periodMs: number, phase: number): number {
  const offset = phase * periodMs
  return (Math.floor((nowMs - offset) / periodMs) + 1) * periodMs + offset
}

/** Share of all places by which an entry may fall below the last place and still keep its own. */
const slack = 0.1

/**
 * Gives places to the first entries of a ranking. With 100 places, an entry that has one keeps it down to rank 110.
 * Ranks change often, and each change of the covered instruments would leave gaps in the records.
 *
 * @param costOf part of a place that an entry takes
 */
export function keepSteady<T>(
  ranked: readonly T[],
  costOf: (one: T) => number,
  places: number,
  hasPlace: (one: T) => boolean,
): T[] {
  const staying: T[] = []
  const coming: T[] = []
  let reached = 0
  for (const one of ranked) {
    reached += costOf(one)
    if (hasPlace(one) && isWithin(reached, places * (1 + slack))) staying.push(one)
    else if (isWithin(reached, places)) coming.push(one)
  }
  let used = 0
  const kept = new Set<T>()
  for (const one of [...staying, ...coming]) {
    const cost = costOf(one)
    if (!isWithin(used + cost, places)) continue
    used += cost
    kept.add(one)
  }
  return ranked.filter((one) => kept.has(one))
}

/** Returns true if `used` is within `bound`. A billionth more is tolerated: sums of quotients differ in last digits. */
export function isWithin(used: number, bound: number): boolean {
  return used <= bound * (1 + 1e-9)
}
