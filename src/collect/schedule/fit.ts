/**
 * How many of a ranking, from its begin, fit into an allowance.
 *
 * @param costs requests a second of each, in the order of their rank
 */
export function countWithin(costs: readonly number[], allowedPerSecond: number): number {
  let used = 0
  for (const [index, cost] of costs.entries()) {
    used += cost
    if (!isWithin(used, allowedPerSecond)) return index
  }
  return costs.length
}

/** Who has a place keeps it until it is so far behind the last place, as a share of all places. */
const slack = 0.1

/**
 * Gives places to the first of a ranking, and leaves those that have one alone while they are near the end of the places:
 * ranks change all the time, and whoever comes and goes leaves gaps in what is recorded.
 *
 * @param costOf what part of a place one takes
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

/** Sums of quotients differ in the last digits; a billionth over is not over. */
export function isWithin(used: number, bound: number): boolean {
  return used <= bound * (1 + 1e-9)
}
