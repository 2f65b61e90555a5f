/**
 * Returns how many entries fit into an allowance, counted from the top of a ranking.
 *
 * @param costs requests per second of each entry, in the order of the ranking
 */
export function countWithin(costs: readonly number[], allowedPerSecond: number): number {
  let used = 0
  for (const [index, cost] of costs.entries()) {
    used += cost
    if (!isWithin(used, allowedPerSecond)) return index
  }
  return costs.length
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
