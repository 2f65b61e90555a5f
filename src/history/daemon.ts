import type { Kysely } from 'kysely'
import type { Config } from '../config.js'
import type { ExchangeClient } from '../exchange/client.js'
import { type CandleSeries, intervalMs, seriesText } from '../market/candle.js'
import type { TimeMs } from '../market/values.js'
import type { Clock } from '../runtime/clock.js'
import type { Logger } from '../runtime/logger.js'
import { describeDatabaseError } from '../store/db/databaseError.js'
import type { JobStatus } from '../store/queue.js'
import type { Database } from '../store/db/schema.js'
import { startRepair } from './repair.js'
import { candlesIn } from '../market/candleGrid.js'
import { type BackfillJob, type BackfillQueue, type JobOutcome, openBackfillQueue } from './job.js'
import { startReview } from './review.js'
import { startBackfillWorker } from './worker.js'

export interface BackfillingOptions {
  readonly config: Config
  readonly db: Kysely<Database>
  /** Connection string of the same database: the queue has connections of its own. */
  readonly url: string
  readonly client: ExchangeClient
  /** The candles that are being recorded now. */
  readonly series: () => readonly CandleSeries[]
  /** When the last live response for one of them came. */
  readonly answeredAt: (series: CandleSeries) => TimeMs | undefined
  readonly clock: Clock
  readonly logger: Logger
}

/** A series that is being backfilled or repaired, or could not be. */
export interface BackfillReport {
  readonly id: string
  readonly what: string
  readonly state: 'waiting' | 'running' | 'failed'
  readonly doneShare: number | null
  readonly reachedAt: TimeMs | null
  readonly etaMs: number | null
  readonly message: string | null
}

export interface Backfilling {
  reports(): Promise<BackfillReport[]>
  stop(): Promise<void>
}

const retryAfterMs = 30_000
/** A database that does not answer must not keep the recorder from ending. */
const stopWithinMs = 5_000

/**
 * The daemon's part: works on the queue with what the live streams leave of the budget, and looks for holes itself. When
 * there is no queue to be had, the live streams go on without it, and it is tried again.
 */
export function startBackfilling(options: BackfillingOptions): Backfilling {
  const { clock } = options
  const stopping = new AbortController()
  const estimates = new Map<string, Estimator>()
  let parts: Parts | null = null
  const opening = (async () => {
    while (!stopping.signal.aborted && parts === null) {
      parts = await openParts(options)
      if (parts === null) await clock.sleep(retryAfterMs, stopping.signal).catch(() => undefined)
    }
  })()
  return {
    async reports() {
      if (parts === null) return []
      const groups = groupBy((await parts.queue.recent(mostJobs)).filter(isOfInterest), groupOf)
      for (const id of estimates.keys()) if (!groups.has(id)) estimates.delete(id)
      return [...groups].flatMap(([id, jobs]) => {
        const estimator = estimates.get(id) ?? createEstimator(clock)
        estimates.set(id, estimator)
        const report = reportOf(id, jobs, estimator)
        return report === null ? [] : [report]
      })
    },
    async stop() {
      stopping.abort()
      const ended = new AbortController()
      const stopped = opening.then(() => parts?.stop()).finally(() => ended.abort())
      await Promise.race([stopped, clock.sleep(stopWithinMs, ended.signal).catch(() => undefined)])
    },
  }
}

interface Parts {
  readonly queue: BackfillQueue
  stop(): Promise<void>
}

async function openParts(options: BackfillingOptions): Promise<Parts | null> {
  const { config, db, url, series, answeredAt, clock, logger } = options
  const { settleMs } = config.streams.candles
  try {
    const queue = await openBackfillQueue(db, { url, logger })
    const worker = startBackfillWorker({ ...options, queue, settleMs })
    const repair = config.streams.candles.enabled
      ? startRepair({ db, queue, series, answeredAt, settleMs, clock, logger })
      : null
    const review = startReview({ db, queue, clock, logger })
    return {
      queue,
      async stop() {
        await repair?.stop()
        await review.stop()
        await worker.stop()
        await queue.close()
      },
    }
  } catch (error) {
    logger.warn(`backfill: no queue, so that holes are not filled for now: ${describeDatabaseError(error)}`)
    return null
  }
}

type Job = JobStatus<BackfillJob, JobOutcome>

const mostJobs = 2_000

/** Looking again at what is known goes on all the time. */
function isOfInterest({ data }: Job): boolean {
  return data.kind !== 'review'
}

function groupOf({ data }: Job): string {
  return `${data.kind} ${seriesText(data.series)} ${data.floor}`
}

function groupBy<Item>(items: readonly Item[], keyOf: (item: Item) => string): Map<string, Item[]> {
  const groups = new Map<string, Item[]>()
  for (const item of items) {
    const key = keyOf(item)
    const group = groups.get(key)
    if (group === undefined) groups.set(key, [item])
    else group.push(item)
  }
  return groups
}

/** Null for what is done. */
function reportOf(id: string, jobs: readonly Job[], estimator: Estimator): BackfillReport | null {
  const [first] = jobs
  if (first === undefined) return null
  const open = jobs.filter(({ state }) => state === 'created' || state === 'retry' || state === 'active')
  const what = `${first.data.kind} ${seriesText(first.data.series)}`
  if (open.length === 0) {
    const failed = jobs.find(({ state, output }) => state === 'failed' || output?.status === 'failed')
    if (failed === undefined) return null
    const message = failed.output?.failure ?? 'given back too often'
    return { id, what, state: 'failed', doneShare: null, reachedAt: null, etaMs: null, message }
  }
  const size = (some: readonly Job[]) =>
    some.reduce(
      (sum, { data: { series, range } }) => sum + candlesIn({ lengthMs: intervalMs[series.interval] }, [range]),
      0,
    )
  const total = size(jobs)
  const left = size(open)
  const waiting = open.find(({ state }) => state === 'retry')
  const reason = (waiting?.output as { readonly reason?: unknown } | null | undefined)?.reason
  return {
    id,
    what,
    state: open.some(({ state }) => state === 'active') ? 'running' : 'waiting',
    doneShare: 1 - left / total,
    reachedAt: Math.max(...open.map(({ data }) => data.range.to)),
    etaMs: estimator(left),
    message: typeof reason === 'string' ? reason : null,
  }
}

/** How long the rest will take, by how fast it went since it was first looked at. */
type Estimator = (left: number) => number | null

function createEstimator(clock: Clock): Estimator {
  let first: { readonly atMs: number; readonly left: number } | null = null
  return (left) => {
    const atMs = clock.monotonicMs()
    first ??= { atMs, left }
    const done = first.left - left
    return done <= 0 ? null : (left * (atMs - first.atMs)) / done
  }
}
