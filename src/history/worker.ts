import type { Kysely } from 'kysely'
import type { ExchangeClient } from '../exchange/client.js'
import { intervalMs, seriesText } from '../market/candle.js'
import type { Clock } from '../runtime/clock.js'
import type { Logger } from '../runtime/logger.js'
import { describeDatabaseError } from '../store/db/databaseError.js'
import { noteReview } from '../store/history/reviews.js'
import type { TakenJob } from '../store/queue.js'
import type { Database } from '../store/db/schema.js'
import { Incidents } from '../runtime/incidents.js'
import { candlesIn } from '../market/candleGrid.js'
import { type BackfillJob, type BackfillQueue } from './job.js'
import { readAllAgain } from './review.js'
import { JobRunner, mostPagesOfJob } from './runJob.js'
import { TouchedRollups } from './touchedRollups.js'

export interface BackfillWorkerOptions {
  readonly db: Kysely<Database>
  readonly queue: BackfillQueue
  /** Its priority classes keep the live streams first. */
  readonly client: ExchangeClient
  /** How long after its close a candle counts as final. */
  readonly settleMs: number
  readonly clock: Clock
  readonly logger: Logger
}

export interface BackfillWorker {
  /** What it works on now. */
  running(): readonly BackfillJob[]
  /** Stops asking, stores what was received and puts the jobs back. */
  stop(): Promise<void>
}

/** With so many pages wanted the limit is kept busy: more jobs would leave less for other workers at the end. */
const enoughPages = 24
const mostJobs = 16
const busyPollMs = 50
const tailPollMs = 250
const idlePollMs = 1_000
const rescueEveryMs = 10_000
const afterErrorMs = 2_000

/** Works on the queue until stopped. */
export function startBackfillWorker(options: BackfillWorkerOptions): BackfillWorker {
  return new Worker(options)
}

class Worker implements BackfillWorker {
  readonly #options: BackfillWorkerOptions
  readonly #runner: JobRunner
  readonly #stopping = new AbortController()
  readonly #running = new Map<string, { readonly job: BackfillJob; readonly done: Promise<void> }>()
  readonly #loop: Promise<void>
  readonly #touched = new TouchedRollups()
  readonly #incidents: Incidents
  #outstanding = 0
  #nextRescueMs = 0

  constructor(options: BackfillWorkerOptions) {
    this.#options = options
    this.#incidents = new Incidents(options.logger, options.clock)
    this.#runner = new JobRunner({
      ...options,
      onOutstanding: (change) => {
        this.#outstanding += change
      },
    })
    this.#loop = this.#work()
  }

  running(): readonly BackfillJob[] {
    return [...this.#running.values()].map(({ job }) => job)
  }

  async stop(): Promise<void> {
    const { db, clock, logger } = this.#options
    this.#stopping.abort(new Error('the backfill was stopped'))
    await this.#loop
    const isDone = this.#running.size === 0
    await Promise.all([...this.#running.values()].map(({ done }) => done))
    // Whoever stops the work half-way does not want to wait for this, too.
    if (isDone) await this.#touched.refreshAtLast(db, clock, logger)
  }

  async #work(): Promise<void> {
    const { db, clock, logger } = this.#options
    const { signal } = this.#stopping
    while (!signal.aborted) {
      let waitMs = busyPollMs
      try {
        await this.#rescueIfDue()
        if (this.#isHungry()) {
          const taken = await this.#options.queue.take()
          if (taken !== null) this.#start(taken)
          else if (this.#running.size > 0) waitMs = tailPollMs
          else {
            await this.#touched.refresh(db, logger)
            waitMs = idlePollMs
          }
        }
        this.#incidents.succeeded('backfill')
      } catch (error) {
        this.#incidents.failed('backfill', describeDatabaseError(error))
        waitMs = afterErrorMs
      }
      await clock.sleep(waitMs, signal).catch(() => undefined)
    }
  }

  /** A job that has just begun asks for few pages yet, but for more in a moment. */
  #isHungry(): boolean {
    let expected = 0
    for (const { series, range } of this.running()) {
      const candles = candlesIn({ lengthMs: intervalMs[series.interval] }, [range])
      expected += Math.min(mostPagesOfJob, Math.ceil(candles / 100))
    }
    return Math.max(expected, this.#outstanding) < enoughPages && this.#running.size < mostJobs
  }

  async #rescueIfDue(): Promise<void> {
    const now = this.#options.clock.monotonicMs()
    if (now < this.#nextRescueMs) return
    this.#nextRescueMs = now + rescueEveryMs
    const rescued = await this.#options.queue.rescue()
    if (rescued > 0) this.#options.logger.info(`backfill: took up ${rescued} job(s) whose worker has died`)
  }

  #start({ id, data }: TakenJob<BackfillJob>): void {
    const done = this.#run(id, data).finally(() => this.#running.delete(id))
    this.#running.set(id, { job: data, done })
  }

  /** Never rejects: what goes wrong is told, and the job is put back. */
  async #run(id: string, job: BackfillJob): Promise<void> {
    const { db, queue, clock, logger } = this.#options
    const what = `${seriesText(job.series)} ${isoTime(job.range.from)} to ${isoTime(job.range.to)}`
    try {
      const outcome = await this.#runner.run(job, this.#stopping.signal)
      this.#touched.add(job, outcome)
      if (job.kind === 'review') await noteReview(db, job.series, clock.now(), job.nextTo ?? null)
      if (outcome.restatedBy !== undefined) await readAllAgain(db, queue, job.series, outcome.restatedBy)
      await queue.complete(id, outcome)
      logger.debug(`backfill: ${what}: ${outcome.status}, ${outcome.rows} candles in ${outcome.requests} requests`)
    } catch (error) {
      const isStopped = this.#stopping.signal.aborted
      const reason = isStopped ? 'its worker was stopped' : error instanceof Error ? error.message : String(error)
      if (!isStopped) logger.warn(`backfill: ${what}: put back: ${reason}`)
      // A database that is away cannot be told; the lock that marks the job ends with our connection.
      await queue.giveBack(id, reason).catch(() => undefined)
    }
  }
}

function isoTime(time: number): string {
  return new Date(time).toISOString().replace(/\.000Z$/, 'Z')
}
