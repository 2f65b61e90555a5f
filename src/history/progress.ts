import type { Kysely } from 'kysely'
import { type CandleSeries, seriesText } from '../market/candle.js'
import { type TimeRange, normalized, subtract } from '../market/timeRange.js'
import type { TimeMs } from '../market/values.js'
import { rangeOutcomes, type WantCounts, wantStates } from '../ledger/history/candleWants.js'
import type { Database } from '../db/schema.js'
import { candlesMissing, type PlannedSeries, planSeries } from './plan.js'

export interface Progress {
  /** Candles still to get. */
  readonly left: number
  /** Everything newer is done. Null when nothing is left. */
  readonly reachedAt: TimeMs | null
  readonly wants: number
  readonly wantsEnded: number
}

/** How far wants have come, whoever works on them: the coverage tells. They are done when all have ended. */
export async function readProgress(db: Kysely<Database>, ids: readonly number[]): Promise<Progress> {
  const states = await wantStates(db, { ids })
  const reached = states.flatMap(({ reachedAt }) => (reachedAt === null ? [] : [reachedAt]))
  return {
    left: states.reduce((sum, { left }) => sum + left, 0),
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
  /** Pages that did not have to be asked for, because what they hold was there; whoever planned the request counts them. */
  readonly pagesSaved: number
  readonly empty: readonly NamedRange[]
  /** Sparse candles: no response shows one on both sides, so that nothing is claimed of these. */
  readonly unanswered: readonly NamedRange[]
  readonly failed: readonly (NamedRange & { readonly reason: string })[]
  /** Candles that were asked for and are not there. */
  readonly left: number
}

export interface NamedRange extends TimeRange {
  readonly series: CandleSeries
}

/**
 * What became of what was planned, from its wants, the coverage and the gaps.
 *
 * @param options.isStopped what was not asked for yet has not failed
 */
export async function summarize(
  db: Kysely<Database>,
  planned: readonly PlannedSeries[],
  ids: readonly number[],
  options: { readonly isStopped?: boolean } = {},
): Promise<Summary> {
  const states = await wantStates(db, { ids })
  const sum = (count: keyof WantCounts) => states.reduce((total, state) => total + state[count], 0)
  const reasons = new Map(states.map(({ series, failure, problem }) => [seriesText(series), failure ?? problem]))
  const outcomes = await rangeOutcomes(db, planned)
  const after = await planSeries(db, planned, { again: false })
  const empty: NamedRange[] = []
  const unanswered: NamedRange[] = []
  const failed: (NamedRange & { reason: string })[] = []
  for (const [index, { series, missing }] of planned.entries()) {
    const known = outcomes[index] ?? []
    for (const { what, reason, from, to } of known) {
      if (what === 'empty') empty.push({ series, from, to })
      else if (what === 'unanswered') unanswered.push({ series, from, to })
      else failed.push({ series, from, to, reason: reason ?? '' })
    }
    // What is missing and was not even asked for: the service refused it, or the work was stopped.
    const rest = subtract(after[index]?.missing ?? [], normalized(known))
    const reason = reasons.get(seriesText(series)) ?? null
    if (reason === null && options.isStopped === true) continue
    failed.push(
      ...rest
        .filter((range) => subtract([range], missing).length === 0)
        .map((range) => ({ series, ...range, reason: reason ?? 'not done' })),
    )
  }
  const [requests, rows] = [sum('requests'), sum('candles')]
  const [inserted, updated] = [sum('inserted'), sum('updated')]
  return { rows, inserted, updated, requests, pagesSaved: 0, empty, unanswered, failed, left: candlesMissing(after) }
}
