import type { Kysely } from 'kysely'
import { normalized, subtract, type TimeRange } from '../market/timeRange.js'
import { sum, type TimeMs } from '../market/values.js'
import { rangeOutcomes, type WantCounts, type WantState, wantStates } from '../ledger/wants.js'
import type { Database } from '../db/schema.js'
import { type Series, streamText } from '../db/series.js'
import { type PlannedSeries, planSeries, rowsMissing } from './request.js'
import type { Clock } from '../runtime/clock.js'

export interface Progress {
  /** Number of candles still to get, and of minutes if rows have times of their own. */
  readonly left: number
  /** Time above which everything is done; null if nothing is left. */
  readonly reachedAt: TimeMs | null
  readonly wants: number
  readonly wantsEnded: number
}

/** Reads from the coverage how far any process has come with these wants. The work is done when all have ended. */
export async function readProgress(db: Kysely<Database>, ids: readonly number[]): Promise<Progress> {
  const states = await wantStates(db, { ids })
  const reached = states.flatMap(({ reachedAt }) => (reachedAt === null ? [] : [reachedAt]))
  return {
    left: sum(states.map(({ left }) => left)),
    reachedAt: reached.length === 0 ? null : Math.max(...reached),
    wants: states.length,
    wantsEnded: states.filter(({ isEnded }) => isEnded).length,
  }
}

export interface Summary {
  readonly rows: number
  readonly inserted: number
  readonly updated: number
  readonly requests: number
  readonly empty: readonly NamedRange[]
  /** Ranges of sparse series for which no response shows a candle on both sides. Nothing is claimed about them. */
  readonly unanswered: readonly NamedRange[]
  readonly failed: readonly (NamedRange & { readonly reason: string })[]
  /** Number of requested candles still missing, and of minutes if rows have times of their own. */
  readonly left: number
}

export interface NamedRange extends TimeRange {
  readonly series: Series
}

/**
 * Summarizes the results of planned series from their wants, the coverage and the gaps.
 *
 * @param options.earlier states of the wants before this work, whose counts are subtracted
 * @param options.isStopped true when ranges that were not requested yet do not count as failed
 */
export async function summarize(
  db: Kysely<Database>,
  planned: readonly PlannedSeries[],
  ids: readonly number[],
  options: { readonly isStopped?: boolean; readonly earlier?: readonly WantState[] } = {},
): Promise<Summary> {
  const states = await wantStates(db, { ids })
  const total = (wants: readonly WantState[], count: keyof WantCounts) => sum(wants.map((want) => want[count]))
  const growthOf = (count: keyof WantCounts) => total(states, count) - total(options.earlier ?? [], count)
  const reasons = new Map(states.map(({ series, failure, problem }) => [streamText(series), failure ?? problem]))
  const outcomes = await rangeOutcomes(db, planned)
  const after = await planSeries(db, planned, { again: false })
  const empty: NamedRange[] = []
  const unanswered: NamedRange[] = []
  const failed: (NamedRange & { reason: string })[] = []
  for (const [index, { series, missing }] of planned.entries()) {
    const known = outcomes[index] ?? []
    for (const { verdict, reason, from, to } of known) {
      if (verdict === 'before the beginning') empty.push({ series, from, to })
      else if (verdict === 'unanswered') unanswered.push({ series, from, to })
      else failed.push({ series, from, to, reason: reason ?? '' })
    }
    // These ranges are missing and were never requested: the service refused the series, or the work was stopped.
    const rest = subtract(after[index]?.missing ?? [], normalized(known))
    const reason = reasons.get(streamText(series)) ?? null
    if (reason === null && options.isStopped === true) continue
    failed.push(
      ...rest
        .filter((range) => subtract([range], missing).length === 0)
        .map((range) => ({ series, ...range, reason: reason ?? 'not done' })),
    )
  }
  const [requests, rows] = [growthOf('requests'), growthOf('received')]
  const [inserted, updated] = [growthOf('inserted'), growthOf('updated')]
  return { rows, inserted, updated, requests, empty, unanswered, failed, left: rowsMissing(after) }
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
