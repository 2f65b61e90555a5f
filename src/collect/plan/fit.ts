/**
 * How many of a ranking, from its begin, fit into an allowance.
 *
 * @param costs requests a second of each, in the order of their rank
 */
export function countWithin(costs: readonly number[], allowedPerSecond: number): number {
  let used = 0
  for (const [index, cost] of costs.entries()) {
    used += cost
    // Sums of quotients differ in the last digits.
    if (used > allowedPerSecond * (1 + 1e-9)) return index
  }
  return costs.length
}
