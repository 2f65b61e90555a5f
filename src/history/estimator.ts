import type { Clock } from '../runtime/clock.js'

export interface Speed {
  readonly perSecond: number
  readonly etaMs: number
}

/** Limits change, and so does what else needs them: the speed is that of the last minutes. */
const overMs = 120_000
/** What is done in a shorter time says nothing yet: candles come by pages, and pages by slices. */
const minMs = 5_000

/**
 * Tells how fast what is left gets less, and how long the rest takes; null until that can be told. The wait for a beginning does not
 * count: behind other work it may be long.
 */
export function createEstimator(clock: Pick<Clock, 'monotonicMs'>): (left: number) => Speed | null {
  const samples: { readonly atMs: number; readonly left: number }[] = []
  return (left) => {
    const atMs = clock.monotonicMs()
    if (samples.every((sample) => sample.left === left)) samples.length = 0
    samples.push({ atMs, left })
    while (samples.length > 2 && atMs - (samples[1]?.atMs ?? atMs) >= overMs) samples.shift()
    const first = samples[0] ?? { atMs, left }
    const done = first.left - left
    const tookMs = atMs - first.atMs
    if (done <= 0 || tookMs < minMs) return null
    return { perSecond: (done * 1000) / tookMs, etaMs: (left * tookMs) / done }
  }
}
