import type { Kysely } from 'kysely'
import { largest, sum, type ServiceMs } from '../market/values.js'
import { wantStates } from '../ledger/wants.js'
import type { Database } from '../db/schema.js'
import type { Clock } from '../runtime/clock.js'

export interface Progress {
  /** Number of candles still to get, and of minutes if rows have times of their own. */
  readonly left: number
  /** Time above which everything is done; null if nothing is left. */
  readonly reachedAt: ServiceMs | null
  readonly wants: number
  readonly wantsEnded: number
}

/** Reads from the coverage how far any process has come with these wants. The work is done when all have ended. */
export async function readProgress(db: Kysely<Database>, ids: readonly number[]): Promise<Progress> {
  const states = await wantStates(db, { ids })
  const reached = states.flatMap(({ reachedAt }) => (reachedAt === null ? [] : [reachedAt]))
  return {
    left: sum(states.map(({ left }) => left)),
    reachedAt: reached.length === 0 ? null : largest(reached),
    wants: states.length,
    wantsEnded: states.filter(({ isEnded }) => isEnded).length,
  }
}

interface Speed {
  readonly perSecond: number
  readonly etaMs: number
}

/** The speed is measured over the last minutes, because the limits and the share of other requests change. */
const overMs = 120_000
/** The shortest time that shows a speed. Candles arrive by pages, and pages by slices. */
const minMs = 5_000

/**
 * Returns a function that takes the number of candles left and returns the speed and the time for the rest. It returns
 * null until both can be measured. The wait before the first progress does not count, because other work may cause it.
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
