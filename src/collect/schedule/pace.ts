/**
 * Decides how often something is worth asking for, by what its responses bring. It does not depend on the kind of data.
 * An empty order book, an unchanged one and a candle series without a trade are all responses that bring nothing.
 */
export interface Pace {
  /** Responses in a row that brought nothing. */
  readonly fruitless: number
  /** Fruitless responses that were asked for because a ticker claimed that there was news. */
  readonly misled: number
}

export interface PaceLimits {
  /** Time between two requests while every response brings something. */
  readonly everyMs: number
  /** Longest time between two requests, even for something that has always been silent. */
  readonly maxMs: number
}

/** Backoff after a failed request for a list or a book, whatever the cause of the failure. */
export const retrySoon = { minMs: 10_000, maxMs: 60_000 }

export const fullPace: Pace = { fruitless: 0, misled: 0 }

/** @param response `brought`: it held something new; `claimed`: a ticker had said that it would */
export function afterResponse(
  pace: Pace,
  { brought, claimed }: { readonly brought: boolean; readonly claimed: boolean },
): Pace {
  if (brought) return fullPace
  return { fruitless: pace.fruitless + 1, misled: pace.misled + (claimed ? 1 : 0) }
}

/**
 * Time to wait after the last response. Each response that brought nothing doubles it. News is thus found after no more
 * time than the silence before it.
 */
export function waitMs({ fruitless }: Pace, { everyMs, maxMs }: PaceLimits): number {
  return doubled(everyMs, fruitless, maxMs)
}

/**
 * Time to wait after the last response while a ticker claims that there is news. Only claims that turned out to be
 * wrong double it. A ticker that is always wrong causes no more requests than there would be without it.
 */
export function waitWhenClaimedMs(pace: Pace, limits: PaceLimits): number {
  return Math.min(waitMs(pace, limits), doubled(limits.everyMs, pace.misled, limits.maxMs))
}

function doubled(everyMs: number, times: number, maxMs: number): number {
  return Math.max(everyMs, Math.min(maxMs, everyMs * 2 ** Math.min(times, 30)))
}
