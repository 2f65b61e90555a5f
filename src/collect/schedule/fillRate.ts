import type { TimeMs } from '../../market/values.js'

/**
 * Mean rate of these fills, in fills per millisecond, from the oldest until now. Silence since the newest lowers it.
 */
export function averageRate(newestFirst: readonly { readonly ts: TimeMs }[], now: TimeMs): number {
  const oldest = newestFirst.at(-1)
  return oldest === undefined ? 0 : newestFirst.length / Math.max(1, now - oldest.ts)
}
