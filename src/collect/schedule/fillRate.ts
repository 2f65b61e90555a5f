import type { TimeMs } from '../../market/values.js'

/** Fills per millisecond from the oldest of these, newest first, until now: silence since the newest one lowers it. */
export function averageRate(newestFirst: readonly { readonly ts: TimeMs }[], now: TimeMs): number {
  const oldest = newestFirst.at(-1)
  return oldest === undefined ? 0 : newestFirst.length / Math.max(1, now - oldest.ts)
}
