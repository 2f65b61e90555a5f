import type { Kysely } from 'kysely'
import { type CandleSeries, intervalMs } from '../market/candle.js'
import type { TimeRange } from '../market/timeRange.js'
import type { TimeMs } from '../market/values.js'
import { type Clock, sleepUntil } from '../runtime/clock.js'
import type { Logger } from '../runtime/logger.js'
import { describeDatabaseError } from '../store/db/databaseError.js'
import { unconfirmedParts } from '../store/history/noTrade.js'
import { seriesToReadAgain } from '../store/history/restatements.js'
import { type DueReview, dueReviews } from '../store/history/reviews.js'
import type { Database } from '../store/db/schema.js'
import type { BackfillQueue, JobOutcome } from './job.js'
import { enqueue, type PlannedSeries } from './plan.js'

export interface ReviewOptions {
  readonly db: Kysely<Database>
  readonly queue: BackfillQueue
  readonly clock: Clock
  readonly logger: Logger
  /** How often it looks for what is due. Default: every ten minutes. */
  readonly everyMs?: number
  /** How long after it was noted silence is looked at once more. Default: a day. */
  readonly silenceAfterMs?: number
  /** How often a stretch of each series is read again. Default: once a week. */
  readonly seriesEveryMs?: number
}

export interface Review {
  stop(): Promise<void>
}

const dayMs = 86_400_000
/** A page of `candles`: all of the daily candles of years, some hours of minutes. */
const stretchCandles = 1_000
/** What is found due is put on the queue in such portions: the rest waits until these are done. */
const mostAtOnce = 200
/** Silences that are nearer to each other are looked at in one go. */
const nearCandles = 100

/**
 * Looks again at the past, with what everything else leaves of the budget: at each silence once, a day after it was noted, and
 * at a stretch of each series once a week, from its newest candles back to its oldest and then anew; at once where an
 * instrument was listed anew.
 */
export function startReview(options: ReviewOptions): Review {
  const { clock, logger, everyMs = 10 * 60_000 } = options
  const stopping = new AbortController()
  const running = (async () => {
    while (await sleepUntil(clock, clock.now() + everyMs, stopping.signal)) {
      try {
        await reviewOnce(options)
      } catch (error) {
        logger.warn(`review: ${describeDatabaseError(error)}`)
      }
    }
  })()
  return {
    async stop() {
      stopping.abort()
      await running
    },
  }
}

/** Puts what is due on the queue; resolves to the ids of the jobs. */
export async function reviewOnce(options: ReviewOptions): Promise<string[]> {
  const { db, queue, clock, silenceAfterMs = dayMs, seriesEveryMs = 7 * dayMs } = options
  const waiting = (await queue.pending()).filter(({ data }) => data.kind === 'review').length
  if (waiting >= mostAtOnce) return []
  const now = clock.now()
  const silent = await unconfirmedParts(db, { before: now - silenceAfterMs, limit: mostAtOnce })
  const due = await dueReviews(db, { before: now - seriesEveryMs, limit: mostAtOnce })
  const planned = [
    ...silent.flatMap(({ series, silent: ranges }) => lookAtSilence(series, ranges)),
    ...due.map((review) => nextStretch(review)),
  ]
  return planned.length === 0 ? [] : enqueue(queue, planned, { kind: 'review', again: true })
}

/** Has the whole past of an instrument read again, because the service has rewritten that of one of its series. */
export async function readAllAgain(
  db: Kysely<Database>,
  queue: BackfillQueue,
  series: CandleSeries,
  restatedBy: NonNullable<JobOutcome['restatedBy']>,
): Promise<void> {
  const factor = { numerator: BigInt(restatedBy.numerator), denominator: BigInt(restatedBy.denominator) }
  const found = await seriesToReadAgain(db, series, factor)
  const planned = found.map(({ series: of, range }) => again(of, range))
  await enqueue(queue, planned, { kind: 'review', again: true })
}

/** Stretches that hold the silent ranges, each with the candles at its ends. */
function lookAtSilence(series: CandleSeries, silent: readonly TimeRange[]): PlannedSeries[] {
  const lengthMs = intervalMs[series.interval]
  const stretches: { from: TimeMs; to: TimeMs }[] = []
  for (const { from, to } of silent) {
    const last = stretches.at(-1)
    if (last !== undefined && from - last.to <= nearCandles * lengthMs) last.to = to + lengthMs
    else stretches.push({ from: from - lengthMs, to: to + lengthMs })
  }
  return stretches.map((range) => again(series, range))
}

function nextStretch({ series, range, nextTo, relistedAt }: DueReview): PlannedSeries {
  const stretchMs = stretchCandles * intervalMs[series.interval]
  // What was before a new listing is what may have been adjusted to it.
  const wanted = relistedAt ?? nextTo ?? range.to
  const to = wanted > range.from && wanted <= range.to ? wanted : range.to
  const from = Math.max(range.from, to - stretchMs)
  return { ...again(series, { from, to }), nextTo: from > range.from ? from : range.to }
}

function again(series: CandleSeries, range: TimeRange): PlannedSeries {
  return { series, range, missing: [range], isUrgent: false, hasOpenBeginning: false }
}
