import type { Kysely } from 'kysely'
import {
  type Candle,
  type CandleSeries,
  gridOf,
  intervalMs,
  seriesText,
  silenceBetween,
  withCandles,
} from '../market/candle.js'
import { intersect, normalized, type Ranges, subtract, type TimeRange, union } from '../market/timeRange.js'
import { addMs, serviceMs, type ServiceMs } from '../market/values.js'
import {
  addEmptyRanges,
  isSparse,
  missingCandles,
  openGaps,
  replaceGaps,
  replaceUnanswered,
  unansweredRanges,
} from '../ledger/missing.js'
import { firstLaunch } from '../ledger/read/instruments.js'
import { missingRows } from '../ledger/batch.js'
import type { Slice } from '../ledger/slices.js'
import { foldRestatement, lastRevision } from '../ledger/restatements.js'
import { concludeReview } from '../ledger/reviews.js'
import type { Database } from '../db/schema.js'
import { type CandlePage, CandleWriter } from './candleWriter.js'
import { fetchRange, type FetchTask } from './fetchRange.js'
import { type LaunchContext, lookBelowLaunch } from './lookBelowLaunch.js'
import { Reach } from './reach.js'
import { confirmEmptyAfterMs, readAllAgain } from './review.js'
import type { Concluding, SliceContext, SliceRequests } from './sliceWork.js'
import { ExchangeError, failureTraits } from '../exchange/errors.js'
import type { ExchangeClient, Page } from '../exchange/client.js'
import type { Asking } from './workload.js'
import { candleSource, pageParameters, type PageRequest, type PageResponse } from './sources.js'

/** Fetches slices of candles. All slices share what is learned about the reach of an operation. */
export class CandleFetcher {
  readonly #context: SliceContext
  readonly #reach = new Map<string, Reach>()
  /** The looks below a launch that go on. Slices of a series share them. */
  readonly #looks = new Map<string, Promise<Ranges>>()

  constructor(context: SliceContext) {
    this.#context = context
  }

  /** Fetches the missing candles of a slice. Whatever happens, the received candles are committed and counted. */
  async fetch(
    series: CandleSeries,
    slice: Slice,
    requests: SliceRequests,
    onAsk: (operation: Asking) => void,
  ): Promise<Concluding> {
    const { db, client, clock, logger, settleMs } = this.#context
    const { signal } = requests
    const task = await this.#taskOf(series, slice)
    const reach = this.#reachOf(series)
    const revisionBefore = slice.again ? await lastRevision(db) : 0
    const writer = new CandleWriter(db, { series, clock, logger, signal })
    const store = (page: CandlePage) => writer.add(page)
    const isReview = slice.kind === 'review' && slice.again
    const reviewed = isReview ? slice.ranges : []
    const source = new PageSource({ client, series, settleMs, requests, store, reviewed })
    try {
      const context = {
        ask: (page: PageRequest) => {
          onAsk(page.operation)
          return source.ask(page)
        },
        now: () => requests.now(),
        sleep: (ms: number) => clock.sleep(ms, signal),
        reach,
      }
      const beforeLaunch = await this.#lookBelowLaunch(series, task, context)
      const wanted = subtract(task.wanted, beforeLaunch)
      const floor = beforeLaunch[0]?.to ?? task.floor
      const { empty, silent, isUnclear, anchor } = await fetchRange({ ...task, wanted, floor }, context)
      await writer.finish()
      const { updated, lateCandles, rejected } = writer.counts
      if (lateCandles > 0) {
        logger.warn(
          `${seriesText(series)}: ${lateCandles} candle(s) came that the service had left out before; they are stored`,
        )
      }
      // Silence that was found below the slice counts as done, so that the next slice does not look there.
      const looked = union(slice.ranges, intersect(normalized(silent), slice.missing))
      return async (trx) => {
        // It locks the fills of the instrument. Whoever stores fills locks these before the candles.
        if (slice.again && updated > 0) await this.#followRestatement(trx, series, revisionBefore)
        const shown = { empty, beforeLaunch, anchor, isUnclear: isUnclear || rejected > 0, now: requests.now() }
        const emptyAtFirst = await concludeMissing(trx, series, looked, shown)
        if (isReview) await concludeReview(trx, series, slice, source.silence, requests.now())
        const refused = shown.isUnclear ? intersect(slice.ranges, normalized(silent)) : []
        return { done: union(looked, intersect(union(emptyAtFirst, beforeLaunch), slice.missing)), refused }
      }
    } finally {
      await writer.finish().catch(() => undefined)
      const { inserted, updated } = writer.counts
      Object.assign(requests.counts, { received: source.received, inserted, updated })
    }
  }

  /** Resolves to the time before the listed launch if it is wanted, and the service shows nothing there. */
  async #lookBelowLaunch(series: CandleSeries, task: FetchTask, context: LaunchContext): Promise<Ranges> {
    const listed = await firstLaunch(this.#context.db, series)
    if (listed === null) return []
    // The first candle may open before the launch, which is within the candle.
    const launch = addMs(listed, 1 - task.lengthMs)
    if ((task.wanted[0]?.from ?? launch) >= launch || (task.oldestKnown ?? launch) < launch) return []
    const key = seriesText(series)
    const look = this.#looks.get(key) ?? lookBelowLaunch(task, launch, context)
    this.#looks.set(key, look)
    return look.finally(() => this.#looks.delete(key))
  }

  /** Resolves to what is to be fetched of a slice, with what is known of its series. */
  async #taskOf(series: CandleSeries, { ranges, floor, again }: Slice): Promise<FetchTask> {
    const { db } = this.#context
    const none = serviceMs(0)
    const hull = { from: ranges[0]?.from ?? none, to: ranges.at(-1)?.to ?? none }
    const [state] = await missingCandles(db, [{ series, range: hull }])
    const oldestKnown = state?.oldestKnown ?? null
    const missing = again ? ranges : intersect(ranges, state?.missing ?? [])
    return {
      lengthMs: intervalMs[series.interval],
      wanted: withCandles(gridOf(series.interval, oldestKnown), missing),
      floor,
      oldestKnown,
      isSparse: oldestKnown !== null && (await isSparse(db, series)),
      isAskedBefore: !again && (await unansweredRanges(db, series, ranges)).length > 0,
    }
  }

  /** Has the instrument's whole past read again if the changes since a revision show that it was rewritten. */
  async #followRestatement(trx: Kysely<Database>, series: CandleSeries, revisionBefore: number): Promise<void> {
    const factor = await foldRestatement(trx, series, revisionBefore)
    if (factor === null) return
    this.#context.logger.warn(
      `${seriesText(series)}: the service has rewritten its history: ` +
        `prices times ${factor.numerator}/${factor.denominator}; ` +
        'all of it will be fetched again, see market.restatements',
    )
    await readAllAgain(trx, series, factor)
  }

  #reachOf({ category, type, interval }: CandleSeries): Reach {
    const key = `${category} ${type} ${interval}`
    const reach = this.#reach.get(key) ?? new Reach(this.#context.clock)
    this.#reach.set(key, reach)
    return reach
  }
}

/**
 * Records why candles are still missing after ranges were looked at. Resolves to the empty ranges that are not
 * confirmed yet. Each missing part gets one of three verdicts:
 *
 * - Before the beginning: a second look, at least an hour after the first one, found it empty again. Where the listed
 *   launch says so too, two responses suffice.
 * - Unanswered: it was empty for the first time, or it lies in a sparse series. There a silence may be longer than a
 *   page. Nothing is claimed about it, and it is requested again later.
 * - A gap: everything else. So is what a page does not show as empty because it does not show what it lacks.
 */
async function concludeMissing(
  trx: Kysely<Database>,
  series: CandleSeries,
  ranges: readonly TimeRange[],
  shown: {
    readonly empty: readonly TimeRange[]
    readonly beforeLaunch: readonly TimeRange[]
    readonly anchor: ServiceMs | null
    readonly isUnclear: boolean
    readonly now: ServiceMs
  },
): Promise<TimeRange[]> {
  const notes = await unansweredRanges(trx, series, union(ranges, shown.empty))
  const earlyNotes = notes.filter(({ askedAt }) => askedAt <= shown.now - confirmEmptyAfterMs)
  const confirmed = union(intersect(shown.empty, normalized(earlyNotes)), shown.beforeLaunch)
  const emptyAtFirst = subtract(shown.empty, confirmed)
  await addEmptyRanges(trx, series, confirmed)

  const looked = union(ranges, emptyAtFirst)
  const gaps = await openGaps(trx, series)
  const touchedGaps = gaps.filter((gap) => intersect([gap], looked).length > 0)
  const judged = union(looked, union(touchedGaps, normalized(notes)))
  const states = await missingCandles(
    trx,
    judged.map((range) => ({ series, range })),
  )
  const grid = gridOf(series.interval, states[0]?.oldestKnown ?? shown.anchor)
  const missing = withCandles(
    grid,
    states.flatMap((state) => state.missing),
  )

  const mayBeSilent = !shown.isUnclear && series.type === 'market' && missing.length > 0
  const isSilent = mayBeSilent && (await isSparse(trx, series))
  const noted = shown.isUnclear ? [] : normalized(notes)
  // What is in an open gap stays there. It is noted only where it may be before the beginning.
  const silent = subtract(isSilent ? missing : noted, gaps)
  const unclaimed = union(emptyAtFirst, silent)
  const unanswered = withCandles(grid, intersect(missing, unclaimed))
  // A range that is noted already keeps the time of its first look, until a look is late enough to count as a second.
  const isNoted = (range: TimeRange) =>
    !isSilent && notes.some((note) => note.from === range.from && note.to === range.to && !earlyNotes.includes(note))
  await replaceUnanswered(
    trx,
    series,
    looked,
    {
      fresh: unanswered.filter((range) => !isNoted(range)),
      kept: unanswered.filter(isNoted),
    },
    shown.now,
  )
  // Usually no candle is missing and there was no gap, so that nothing has to be replaced.
  if (missing.length > 0 || gaps.length > 0) {
    const reason = shown.isUnclear ? notUnderstood : notGiven
    await replaceGaps(trx, series, looked, subtract(missing, subtract(unclaimed, gaps)), reason)
  }
  return emptyAtFirst
}

const notGiven = 'the service does not give these candles'
const notUnderstood = `${notGiven}, or not so that they can be understood (see recorder.rejected_row)`

/**
 * Returns true if a source with a reach refuses a request. Some services refuse times beyond the reach, where others
 * give no rows. Either way the other source is asked.
 */
function isBeyondReach(error: unknown, { operation }: PageRequest): boolean {
  if (!candleSource[operation].hasReach || !(error instanceof ExchangeError)) return false
  return failureTraits[error.kind].about === 'request'
}

interface PageSourceOptions {
  readonly client: ExchangeClient
  readonly series: CandleSeries
  /** How long after its close a candle counts as final. */
  readonly settleMs: number
  readonly requests: SliceRequests
  /** Stores a page; resolves when another page may come. */
  readonly store: (page: CandlePage) => Promise<void>
  /** Ranges whose silence is collected. A page may leave out thousands of candles, and a walk has thousands of pages. */
  readonly reviewed: Ranges
}

/** Requests pages of one series, and passes their closed candles on to be stored. */
export class PageSource {
  received = 0
  /** Parts that the responses left out of the reviewed ranges between two of their candles. */
  silence: Ranges = []
  readonly #options: PageSourceOptions

  constructor(options: PageSourceOptions) {
    this.#options = options
  }

  /** Resolves to the content of the response, whose rows are being stored. Waits while the service is away. */
  async ask(request: PageRequest): Promise<PageResponse> {
    const { store, reviewed } = this.#options
    const page = await this.#request(request).catch((error: unknown) => {
      if (!isBeyondReach(error, request)) throw error
      return null
    })
    if (page === null) return { openTimes: [], silence: [], lack: 'untold' }
    const candles = page.rows.filter(({ isClosed }) => isClosed)
    this.received += candles.length
    const { requestTime, receivedAt, rejected } = page
    const silence = this.#silenceInside(page, request)
    this.silence = union(this.silence, intersect(reviewed, normalized(silence)))
    if (candles.length > 0 || rejected.length > 0) await store({ candles, silence, rejected, requestTime, receivedAt })
    const lack = missingRows(page) > 0 ? 'unclear' : page.hasEnvelope ? 'shown' : 'untold'
    return { openTimes: candles.map(({ openTime }) => openTime), silence, lack }
  }

  /** Returns the ranges that a page leaves out between two candles of its window. */
  #silenceInside(page: Page<Candle>, { operation, window }: PageRequest): TimeRange[] {
    const { series, settleMs } = this.#options
    const lengthMs = intervalMs[series.interval]
    // The service was seen to ignore the start of a request for history-candles, so responses may begin earlier.
    const from = operation === 'candles' ? window.from - lengthMs : Number.NEGATIVE_INFINITY
    const openTimes = page.rows.map(({ openTime }) => openTime).filter((time) => time >= from && time <= window.to)
    return silenceBetween(openTimes, {
      type: series.type,
      lengthMs,
      isComplete: missingRows(page) === 0,
      settledUntil: addMs(page.requestTime, -settleMs),
    })
  }

  async #request(page: PageRequest): Promise<Page<Candle>> {
    const { client, series, settleMs, requests } = this.#options
    const { category, symbol, type, interval } = series
    const query = { category, symbol, type, interval, settleMs, ...pageParameters(page, intervalMs[interval]) }
    return requests.ask(() =>
      page.operation === 'candles'
        ? client.candles(query, requests.request)
        : client.historyCandles(query, requests.request),
    )
  }
}
