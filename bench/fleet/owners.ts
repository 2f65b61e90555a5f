import type { ServedResponse } from '../../src/simulator/control.js'

export interface Asked {
  readonly atMs: number
  readonly source: string
}

/** The requests for the order book of each instrument, ascending by time. */
export function askedBooks(journal: readonly ServedResponse[]): Map<string, Asked[]> {
  const byKey = new Map<string, Asked[]>()
  for (const { atMs, source, operation, parameters } of journal) {
    if (operation !== 'orderbook') continue
    const key = `${parameters['category']} ${parameters['symbol']}`
    const asked = byKey.get(key)
    if (asked === undefined) byKey.set(key, [{ atMs, source }])
    else asked.push({ atMs, source })
  }
  for (const asked of byKey.values()) asked.sort((a, b) => a.atMs - b.atMs)
  return byKey
}

/**
 * The longest time for which two recorders asked for one instrument: from the first request of the second to the last
 * one of the first. A recorder that asks again within `idleMs` had it meanwhile, too.
 */
export function longestOverlapMs(books: ReadonlyMap<string, readonly Asked[]>, idleMs: number): number {
  let longest = 0
  for (const asked of books.values()) {
    const stretches: { readonly source: string; readonly from: number; to: number }[] = []
    for (const { atMs, source } of asked) {
      const last = stretches.findLast((stretch) => stretch.source === source)
      if (last !== undefined && atMs - last.to <= idleMs) last.to = atMs
      else stretches.push({ source, from: atMs, to: atMs })
    }
    for (const one of stretches)
      for (const other of stretches)
        if (one.source < other.source)
          longest = Math.max(longest, Math.min(one.to, other.to) - Math.max(one.from, other.from))
  }
  return longest
}

/** The longest time without a living owner of the order books whose owners went at a moment. */
export function longestWithoutOwnerMs(
  books: ReadonlyMap<string, readonly Asked[]>,
  gone: ReadonlySet<string>,
  atMs: number,
): { readonly longestMs: number; readonly count: number } {
  let longestMs = 0
  let count = 0
  for (const asked of books.values()) {
    const last = asked.findLast((before) => before.atMs <= atMs)
    if (last === undefined || !gone.has(last.source)) continue
    count++
    const next = asked.find((after) => after.atMs > atMs && !gone.has(after.source))
    longestMs = Math.max(longestMs, (next?.atMs ?? Infinity) - atMs)
  }
  return { longestMs, count }
}
