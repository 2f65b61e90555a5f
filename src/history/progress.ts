import type { Kysely } from 'kysely'
import { intervalMs } from '../market/candle.js'
import type { TimeRange } from '../market/timeRange.js'
import type { TimeMs } from '../market/values.js'
import type { Database } from '../store/db/schema.js'
import { candlesIn } from '../market/candleGrid.js'
import type { BackfillJob, BackfillQueue, JobOutcome } from './job.js'
import { candlesMissing, type PlannedSeries, planSeries } from './plan.js'

export interface Progress {
  /** Candles still to get. */
  readonly left: number
  /** Everything newer is done. Null when nothing is left. */
  readonly reachedAt: TimeMs | null
  readonly jobs: number
  readonly jobsDone: number
  /** Nobody will do more about it by himself. */
  readonly isOver: boolean
}

/** How far a request has come, whoever works on it: the coverage tells. */
export async function readProgress(
  db: Kysely<Database>,
  queue: BackfillQueue,
  planned: readonly PlannedSeries[],
  jobIds: readonly string[],
  options: { readonly again: boolean },
): Promise<Progress> {
  const statuses = await queue.statuses(jobIds)
  const waiting = statuses.filter(({ state }) => state === 'created' || state === 'retry' || state === 'active')
  const open = options.again
    ? waiting.map(({ data }) => ({ range: data.range, left: candlesOfJob(data) }))
    : (await planSeries(db, planned, options)).map((series) => ({
        range: series.missing.at(-1),
        left: candlesMissing([series]),
      }))
  const tops = open.flatMap(({ range }) => (range === undefined ? [] : [range.to]))
  return {
    left: open.reduce((sum, { left }) => sum + left, 0),
    reachedAt: tops.length === 0 ? null : Math.max(...tops),
    jobs: statuses.length,
    jobsDone: statuses.length - waiting.length,
    isOver: waiting.length === 0,
  }
}

function candlesOfJob({ series, range }: BackfillJob): number {
  return candlesIn({ lengthMs: intervalMs[series.interval] }, [range])
}

export interface Summary {
  readonly rows: number
  readonly inserted: number
  readonly updated: number
  readonly requests: number
  /** Pages that did not have to be asked for, because what they hold was there; whoever planned the request counts them. */
  readonly pagesSaved: number
  readonly empty: readonly NamedRange[]
  /** Sparse candles: no answer shows one on both sides, so that nothing is claimed of these. */
  readonly unanswered: readonly NamedRange[]
  readonly failed: readonly (NamedRange & { readonly reason: string })[]
  /** Candles that were asked for and are not there. */
  readonly left: number
}

export interface NamedRange extends TimeRange {
  readonly series: PlannedSeries['series']
}

/** What became of a request, from what its jobs left behind and from the coverage. */
export async function summarize(
  db: Kysely<Database>,
  queue: BackfillQueue,
  planned: readonly PlannedSeries[],
  jobIds: readonly string[],
): Promise<Summary> {
  const statuses = await queue.statuses(jobIds)
  const totals = { rows: 0, inserted: 0, updated: 0, requests: 0 }
  const empty: NamedRange[] = []
  const unanswered: NamedRange[] = []
  const failed: (NamedRange & { reason: string })[] = []
  for (const { state, data, output } of statuses) {
    const { series, range } = data
    if (state !== 'completed' || output === null) {
      failed.push({ series, ...range, reason: reasonOf(output) })
      continue
    }
    totals.rows += output.rows
    totals.inserted += output.inserted
    totals.updated += output.updated
    totals.requests += output.requests
    empty.push(...output.empty.map((part) => ({ series, ...part })))
    unanswered.push(...output.unanswered.map((part) => ({ series, ...part })))
    failed.push(...output.unresolved.map((part) => ({ series, ...part })))
    if (output.status === 'failed') failed.push({ series, ...range, reason: output.failure ?? 'unknown' })
  }
  const left = candlesMissing(await planSeries(db, planned, { again: false }))
  return { ...totals, pagesSaved: 0, empty, unanswered, failed, left }
}

/** What a job that was given back says is not an outcome, but why. */
function reasonOf(output: JobOutcome | null): string {
  const given = (output as { readonly reason?: unknown } | null)?.reason
  return typeof given === 'string' ? given : 'not done'
}
