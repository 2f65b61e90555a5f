import type { Kysely } from 'kysely'
import { intervalMs, seriesText } from '../market/candle.js'
import { normalized, type Ranges, subtract, type TimeRange } from '../market/timeRange.js'
import type { TimeMs } from '../market/values.js'
import { missingCandles } from '../store/history/candleCoverage.js'
import type { NewJob } from '../store/queue.js'
import type { Database } from '../store/db/schema.js'
import { candlesIn, gridOf, withCandles } from '../market/candleGrid.js'
import { type BackfillJob, type BackfillQueue } from './job.js'
import type { RequestedSeries } from './request.js'

/** A requested series and what of it has to be got. */
export interface PlannedSeries extends RequestedSeries {
  readonly missing: readonly TimeRange[]
  /** Review: the end of the stretch that is next. */
  readonly nextTo?: TimeMs
}

/** 200 pages of `history-candles`: some ten seconds of a whole budget, minutes of a shared one. */
const mostCandlesPerJob = 20_000
const leastCandlesPerJob = 2_000
/** So many jobs at least where there is work for them, so that several workers end at about the same time. */
const jobsPerRequest = 128
/** While nobody knows where a series begins, cutting it in jobs makes each of them find out. */
const openJobFactor = 20

/** Whole pages of both operations. */
function jobSize(candles: number): number {
  const share = Math.ceil(candles / jobsPerRequest / 1000) * 1000
  return Math.min(mostCandlesPerJob, Math.max(leastCandlesPerJob, share))
}

export async function planSeries(
  db: Kysely<Database>,
  requested: readonly RequestedSeries[],
  options: { readonly again: boolean },
): Promise<PlannedSeries[]> {
  const known = await missingCandles(db, requested, { leaveOutAskedLately: true })
  return requested.map((request, index) => {
    const { missing = [request.range], oldestKnown = null } = known[index] ?? {}
    const wanted = options.again ? normalized([request.range]) : missing
    return { ...request, missing: withCandles(gridOf(request.series.interval, oldestKnown), wanted) }
  })
}

/**
 * Puts what is missing on the queue, as far as it is not there yet. Resolves to the ids of all jobs that the request waits
 * for: those added now and those that others have added before.
 */
export async function enqueue(
  queue: BackfillQueue,
  planned: readonly PlannedSeries[],
  options: { readonly kind: BackfillJob['kind']; readonly again: boolean },
): Promise<string[]> {
  return queue.alone(async () => {
    const pending = await queue.pending()
    const queued = new Map<string, { readonly id: string; readonly range: TimeRange }[]>()
    for (const { id, data } of pending) {
      if (data.again !== options.again) continue
      const key = seriesText(data.series)
      queued.set(key, [...(queued.get(key) ?? []), { id, range: data.range }])
    }
    const waitFor: string[] = []
    const jobs: NewJob<BackfillJob>[] = []
    const size = jobSize(candlesMissing(planned))
    for (const plan of planned) {
      const others = (queued.get(seriesText(plan.series)) ?? []).filter(({ range }) => overlaps(plan.missing, range))
      waitFor.push(...others.map(({ id }) => id))
      const rest = subtract(plan.missing, normalized(others.map(({ range }) => range)))
      jobs.push(...cutIntoJobs(plan, rest, { ...options, size }))
    }
    return [...waitFor, ...(await queue.add(jobs))]
  })
}

function overlaps(ranges: Ranges, { from, to }: TimeRange): boolean {
  return ranges.some((range) => range.from < to && from < range.to)
}

/** Jobs of at most `size` candles, the newest first. */
export function cutIntoJobs(
  { series, range, isUrgent, hasOpenBeginning, nextTo }: PlannedSeries,
  missing: Ranges,
  { kind, again, size }: { readonly kind: BackfillJob['kind']; readonly again: boolean; readonly size: number },
): NewJob<BackfillJob>[] {
  const lengthMs = intervalMs[series.interval]
  const sizeMs = (hasOpenBeginning ? size * openJobFactor : size) * lengthMs
  const jobs: NewJob<BackfillJob>[] = []
  const add = (from: TimeMs, to: TimeMs) => {
    const data: BackfillJob = {
      kind,
      series,
      range: { from, to },
      floor: range.from,
      again,
      ...(nextTo !== undefined && { nextTo }),
    }
    const key = [kind, seriesText(series), from, to, ...(again ? ['again'] : [])].join(' ')
    jobs.push({ data, priority: priorityOf(kind, isUrgent, to), key })
  }
  let to: TimeMs | null = null
  let from = 0
  let room = sizeMs
  for (const piece of missing.toReversed()) {
    for (let end = piece.to; end > piece.from;) {
      to ??= end
      from = Math.max(piece.from, end - room)
      room -= end - from
      end = from
      if (room > 0) continue
      add(from, to)
      to = null
      room = sizeMs
    }
  }
  if (to !== null) add(from, to)
  return jobs
}

/** Repairs go before backfills and these before reviews, instruments about to be delisted before others, and what is newer before what is older. */
function priorityOf(kind: BackfillJob['kind'], isUrgent: boolean, to: TimeMs): number {
  const minutes = Math.min(Math.floor(to / 60_000), 400_000_000)
  return priorities[kind] + (isUrgent ? 500_000_000 : 0) + minutes
}

const priorities = { repair: 1_000_000_000, backfill: 0, review: -1_000_000_000 } as const

export function candlesMissing(planned: readonly PlannedSeries[]): number {
  return planned.reduce((sum, { series, missing }) => sum + candlesIn(gridOf(series.interval, null), missing), 0)
}
