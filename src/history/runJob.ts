import type { Kysely } from 'kysely'
import pLimit from 'p-limit'
import { ExchangeError } from '../exchange/errors.js'
import type { ExchangeClient } from '../exchange/client.js'
import { intervalMs, seriesText } from '../market/candle.js'
import { intersect, normalized, subtract, type TimeRange } from '../market/timeRange.js'
import type { Clock } from '../runtime/clock.js'
import type { Logger } from '../runtime/logger.js'
import { addEmptyRanges, missingCandles, openGaps, replaceGaps, settleGaps } from '../store/history/candleCoverage.js'
import { loadReach, saveReach } from '../store/history/candleReach.js'
import { confirmNoTrade, isSparse, putOffLook, replaceUnanswered } from '../store/history/noTrade.js'
import { lastRevision } from '../store/history/restatements.js'
import type { Database } from '../store/db/schema.js'
import { CandleWriter } from './candleWriter.js'
import { fillRange } from './fillRange.js'
import { gridOf, withCandles } from '../market/candleGrid.js'
import { type BackfillJob, type JobOutcome } from './job.js'
import { Conventions, type PageAnswer, type PageRequest } from './pageRequest.js'
import { PageSource } from './pageSource.js'
import { ReachBook } from './reach.js'
import { foldRestatement } from './restatement.js'

/** What all jobs of a process share. */
export interface JobContext {
  readonly db: Kysely<Database>
  readonly client: ExchangeClient
  readonly clock: Clock
  readonly logger: Logger
  readonly settleMs: number
  /** Told when a page begins and ends to be wanted, until it is stored. */
  readonly onOutstanding: (change: 1 | -1) => void
}

/** Enough that a job alone keeps the limit busy when answers take their time. */
export const mostPagesOfJob = 16
/** Of all jobs, from the request until the rows are committed: what a crash costs at most. */
const mostPages = 32

/** Runs jobs; what one learns about the service's ways is known to the next. */
export class JobRunner {
  readonly #context: JobContext
  readonly #conventions = new Conventions()
  readonly #reach = new Map<string, ReachBook>()
  readonly #pages = pLimit(mostPages)

  constructor(context: JobContext) {
    this.#context = context
  }

  /**
   * Gets what is missing of a job's range. Resolves when everything received is committed; rejects when the job was stopped or
   * the service is away, and then can be run again and goes on where coverage ends.
   */
  async run(job: BackfillJob, signal: AbortSignal): Promise<JobOutcome> {
    const { db, client, clock, logger, settleMs } = this.#context
    const { series, range } = job
    const [state] = await missingCandles(db, [{ series, range }])
    const oldestKnown = state?.oldestKnown ?? null
    const wanted = withCandles(gridOf(series.interval, oldestKnown), job.again ? [range] : (state?.missing ?? [range]))
    if (wanted.length === 0) return { ...nothingDone, status: 'done' }

    const before = job.again ? await lastRevision(db) : 0
    const writer = new CandleWriter(db, { series, clock, logger, signal })
    const source = new PageSource({
      client,
      series,
      settleMs,
      conventions: this.#conventions,
      priority: job.kind === 'repair' ? 'repair' : 'backfill',
      clock,
      signal,
      store: (page) => writer.store(page),
    })
    try {
      const { empty, anchor } = await fillRange(
        {
          lengthMs: intervalMs[series.interval],
          wanted,
          floor: job.floor,
          anchor: oldestKnown,
          oldestKnown,
          isSparse: oldestKnown !== null && (await isSparse(db, series)),
          maxInFlight: mostPagesOfJob,
        },
        {
          ask: (request) => this.#ask(source, request),
          now: () => source.now(),
          sleep: (ms) => clock.sleep(ms, signal),
          reach: this.#reachOf(job),
        },
      )
      await writer.idle()
      const reason = writer.counts.rejected > 0 ? reasons.rejected : reasons.silent
      const { holes, unanswered } = await this.#conclude(job, empty, anchor, reason, writer.counts.rejected > 0)
      const seen = { silence: source.silence, before }
      const restatedBy = job.again ? await this.#look(job, seen, writer.counts.updated > 0) : null
      const { turnedUp } = writer.counts
      if (turnedUp > 0) {
        logger.warn(
          `${seriesText(series)}: ${turnedUp} candle(s) came that the service had left out before; they are stored`,
        )
      }
      return {
        ...this.#counts(source, writer),
        status: holes.length === 0 ? 'done' : 'incomplete',
        empty,
        unanswered,
        ...(restatedBy !== null && { restatedBy }),
        unresolved: holes.map((hole) => ({ ...hole, reason })),
      }
    } catch (error) {
      // What was received counts, whatever came after it.
      await writer.idle()
      if (!(error instanceof ExchangeError) || error.retryable || error.kind === 'aborted') throw error
      logger.warn(`backfill: ${seriesText(series)}: ${error.message}`)
      const nothingShown = { empty: [], unanswered: [], unresolved: [] }
      return { ...this.#counts(source, writer), ...nothingShown, status: 'failed', failure: error.message }
    }
  }

  async #ask(source: PageSource, request: PageRequest): Promise<PageAnswer> {
    const { onOutstanding } = this.#context
    onOutstanding(1)
    try {
      return await this.#pages(() => source.ask(request))
    } finally {
      onOutstanding(-1)
    }
  }

  #counts(source: PageSource, writer: CandleWriter) {
    const { inserted, updated } = writer.counts
    return { ...source.counts, inserted, updated }
  }

  /**
   * Books what is proven to be empty and what is still missing; the database says what that is. Of a series that is dense, it
   * is a hole. Where a series is silent for long, no answer may be long enough to show a candle on both sides: nothing is
   * claimed of that, and it is asked for again later.
   */
  async #conclude(
    { series, range }: BackfillJob,
    empty: readonly TimeRange[],
    anchor: number | null,
    reason: string,
    hasRejected: boolean,
  ): Promise<{ holes: TimeRange[]; unanswered: TimeRange[] }> {
    return this.#context.db.transaction().execute(async (trx) => {
      await addEmptyRanges(trx, series, empty)
      const [state] = await missingCandles(trx, [{ series, range }])
      const left = withCandles(gridOf(series.interval, state?.oldestKnown ?? anchor), state?.missing ?? [])
      const isSilent = !hasRejected && series.type === 'market' && left.length > 0 && (await isSparse(trx, series))
      const known = isSilent ? await openGaps(trx, series) : []
      const unanswered = isSilent ? subtract(left, known) : []
      const holes = isSilent ? intersect(left, known) : left
      await replaceUnanswered(trx, series, range, unanswered)
      await replaceGaps(trx, series, range, holes, reason)
      await settleGaps(trx, series)
      return { holes, unanswered }
    })
  }

  /** What reading again has shown: silence that is still there, and a past that was rewritten. */
  async #look(
    { kind, series, range }: BackfillJob,
    { silence, before }: { readonly silence: readonly TimeRange[]; readonly before: number },
    hasChanged: boolean,
  ): Promise<NonNullable<JobOutcome['restatedBy']> | null> {
    return this.#context.db.transaction().execute(async (trx) => {
      if (kind === 'review') {
        await confirmNoTrade(trx, series, normalized(silence))
        await putOffLook(trx, series, range)
      }
      const found = hasChanged ? await foldRestatement(trx, series, before, this.#context.logger) : null
      return found === null ? null : { numerator: `${found.numerator}`, denominator: `${found.denominator}` }
    })
  }

  #reachOf({ series: { category, type, interval } }: BackfillJob) {
    const { db } = this.#context
    const key = `${category} ${type} ${interval}`
    let book = this.#reach.get(key)
    if (book === undefined) {
      const of = { category, type, interval }
      book = new ReachBook({ load: () => loadReach(db, of), save: (_key, reach) => saveReach(db, of, reach) })
      this.#reach.set(key, book)
    }
    const known = book
    return {
      get: () => known.get(key),
      observe: known.observe.bind(known, key),
      learn: known.learn.bind(known, key),
    }
  }
}

const reasons = {
  silent: 'the service does not give these candles',
  rejected:
    'the service does not give these candles, or not so that they can be understood (see recorder.rejected_row)',
} as const

const nothingDone = { requests: 0, rows: 0, inserted: 0, updated: 0, empty: [], unanswered: [], unresolved: [] }
