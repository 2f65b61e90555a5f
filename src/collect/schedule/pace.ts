/**
 * How often something is worth asking for, going by what its responses bring. Nothing here knows what is asked for: an order
 * book that is empty, one that has not changed and a candle series without a trade are all responses that bring nothing.
 */
export interface Pace {
  /** Responses in a row that brought nothing. */
  readonly fruitless: number
  /** Of those since the last that brought something: how many were asked for because a ticker claimed that there was news. */
  readonly misled: number
}

export interface PaceLimits {
  /** Time between two requests while every response brings something. */
  readonly everyMs: number
  /** Longest time between two requests: after it, something that has been silent for good is looked at once more. */
  readonly maxMs: number
}

/** How soon a list or a book is asked for again whose request failed, whoever is to blame. */
export const retrySoon = { minMs: 10_000, maxMs: 60_000 }

export const fullPace: Pace = { fruitless: 0, misled: 0 }

/** @param response `brought`: whether it held anything new; `claimed`: whether a ticker had said that it would */
export function afterResponse(
  pace: Pace,
  { brought, claimed }: { readonly brought: boolean; readonly claimed: boolean },
): Pace {
  if (brought) return fullPace
  return { fruitless: pace.fruitless + 1, misled: pace.misled + (claimed ? 1 : 0) }
}

/**
 * Time to wait after the last response, doubled by each one that brought nothing: news is found at the latest after as long
 * as there was none before.
 */
export function waitMs({ fruitless }: Pace, { everyMs, maxMs }: PaceLimits): number {
  return doubled(everyMs, fruitless, maxMs)
}

/**
 * The same while a ticker claims that there is news: nothing but the claims counts that turned out to be wrong, so that one
 * that is always wrong is believed no more often than what it talks about is asked for anyway.
 */
export function waitWhenClaimedMs(pace: Pace, limits: PaceLimits): number {
  return Math.min(waitMs(pace, limits), doubled(limits.everyMs, pace.misled, limits.maxMs))
}

function doubled(everyMs: number, times: number, maxMs: number): number {
  return Math.max(everyMs, Math.min(maxMs, everyMs * 2 ** Math.min(times, 30)))
}
