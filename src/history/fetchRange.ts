import { filledBy, type Grid, withCandles } from '../market/candle.js'
import { normalized, type Ranges, subtract, type TimeRange, totalMs, union } from '../market/timeRange.js'
import { addMs, earlierOf, largest, laterOf, type ServiceMs, serviceMs, smallest } from '../market/values.js'
import { type Backoff, backoffMs } from '../runtime/clock.js'
import { bounds } from '../market/bounds.js'
import { sparseShare } from '../ledger/missing.js'
import {
  candleSources,
  isSampled,
  type Look,
  pagePlaces,
  type PageRequest,
  type PageResponse,
  type Source,
  windowsBelow,
} from './sources.js'
import type { Reach } from './reach.js'
import { WalkTooLong } from './sliceWork.js'

export interface FetchTask {
  readonly lengthMs: number
  /** Ranges of opening times to get. */
  readonly wanted: readonly TimeRange[]
  /** Nothing older than this time is wanted. */
  readonly floor: ServiceMs
  /** Opening time of the oldest candle that is stored, if there is one. */
  readonly oldestKnown: ServiceMs | null
  /** True when the series is known to leave out intervals without a trade. */
  readonly isSparse: boolean
  /**
   * True when an earlier fetch left the range unanswered. If no candle of the series is known, one round of requests
   * then suffices.
   */
  readonly isAskedBefore: boolean
}

/** The operations and the knowledge that `fetchRange` gets from its caller. */
interface FetchContext {
  /** Requests a page and has its rows stored. Rejects when the service gives no response. */
  readonly ask: (request: PageRequest) => Promise<PageResponse>
  /** Returns the time of the service's clock. */
  readonly now: () => ServiceMs
  readonly sleep: (ms: number) => Promise<void>
  readonly reach: Reach
}

interface FetchOutcome {
  /** Ranges before the beginning: no candle was found down to the floor, and the series begins at their end. */
  readonly empty: Ranges
  /** Ranges, wanted or not, that were requested repeatedly without a candle. Another look would not show more. */
  readonly silent: Ranges
  /** True if a page does not show what it lacks before the oldest candle. */
  readonly isUnclear: boolean
  /** Opening time of some candle of the series. */
  readonly anchor: ServiceMs | null
}

/** An operation counts as silent after this many equal requests without a candle. */
const maxAttempts = 3
const retry: Backoff = { minMs: 100, maxMs: 2_000 }
/** Number of intervals that must be known before `sparseShare` is applied. */
const minPlaces = 50
/** Longest time that one request for a sparse series covers, as a multiple of the time of a full page. */
const widePages = 8

/**
 * Fetches the candles of the wanted ranges page by page, from the newest to the oldest, at any density. After each
 * response:
 *
 * 1. No wanted candle is forgotten: each is known, left, silent or empty.
 * 2. Only the candles of a response and the silence between two of them are claimed.
 * 3. The search ends: each request makes more known, or a bounded number of requests removes a range that is left.
 *    `SliceRequests` bounds the requests of a service that makes other times known than those that are wanted.
 *
 * An empty page proves nothing. A range without a candle is requested from each operation up to three times. Then an
 * older candle is searched for. If none is found, the series may begin at the end of the range. A response that shows
 * the candle there, and no older one, proves it.
 */
export function fetchRange(task: FetchTask, context: FetchContext): Promise<FetchOutcome> {
  return new Walk(task, context).run()
}

/** The candles of a response, as seen from `top`: the end of the range whose candles are wanted. */
interface ShownCandles {
  readonly openTimes: readonly ServiceMs[]
  /** Opening times below `top`. */
  readonly older: readonly ServiceMs[]
  /** True if the response shows the candle that opens at `top`. */
  readonly showsTop: boolean
}

/** A range without a candle: before the beginning of the series, or silent. */
interface Conclusion extends TimeRange {
  readonly isBeforeBeginning: boolean
}

class Walk {
  readonly #task: FetchTask
  readonly #context: FetchContext
  readonly #lengthMs: number
  #left: Ranges
  #known: Ranges = []
  #empty: Ranges = []
  #silent: Ranges = []
  #anchor: ServiceMs | null
  #oldestKnown: ServiceMs | null
  /** Opening time of the oldest candle that the operation with a reach has given. */
  #oldestReached = Number.POSITIVE_INFINITY
  #silentMs = 0
  /** True while the response to a request longer than a page holds the newest candles of the range. */
  #givesNewest = true
  /** True once a page proved that the service counts candles, not intervals. Each page then reaches an older candle. */
  #countsCandles = false
  /** The oldest time of the pages that may lack candles without showing it. */
  #unclearFrom = Number.POSITIVE_INFINITY
  /** The oldest time about which the source with a reach told nothing. The other one may have the candles there. */
  #untoldFrom = Number.POSITIVE_INFINITY

  constructor(task: FetchTask, context: FetchContext) {
    this.#task = task
    this.#context = context
    this.#lengthMs = task.lengthMs
    this.#left = normalized(task.wanted)
    this.#anchor = task.oldestKnown
    this.#oldestKnown = task.oldestKnown
  }

  async run(): Promise<FetchOutcome> {
    for (let range = this.#newestLeft(); range !== undefined; range = this.#newestLeft()) await this.#goOnFrom(range)
    const isUnclear = this.#unclearFrom < (this.#oldestKnown ?? Number.NEGATIVE_INFINITY)
    return { empty: this.#empty, silent: subtract(this.#silent, this.#known), isUnclear, anchor: this.#anchor }
  }

  #newestLeft(): TimeRange | undefined {
    this.#left = withCandles(this.#grid(), subtract(this.#left, this.#known))
    return this.#left.at(-1)
  }

  #grid(): Grid {
    return { lengthMs: this.#lengthMs, anchor: this.#anchor }
  }

  /**
   * Requests the candles just below the upper end of a range until more of it is known or given up:
   *
   *     ─ known ─┤            ├─ left: range ─┤─ known or not wanted ─▶ time
   *           nearest                        top
   *
   * `nearest` is null while nothing below `top` is known.
   */
  async #goOnFrom(range: TimeRange): Promise<void> {
    const top = range.to
    const nearest = this.#knownBelow(top)
    const isProgress = () => this.#newestLeft()?.to !== top || this.#knownBelow(top) !== nearest
    const isAlone = await this.#askInTurns(range, nearest, isProgress)
    if (isProgress()) return
    const found = nearest === null ? await this.#lookBelow(range, isAlone) : await this.#lookAcross(nearest, top)
    if (isProgress()) return
    this.#left = subtract(this.#left, [found])
    if (found.isBeforeBeginning) this.#empty = union(this.#empty, [found])
    else this.#silent = union(this.#silent, [found])
  }

  /**
   * Requests the page below the upper end of a range, from each source up to three times, until there is progress.
   * Resolves to true if a response showed the candle at that end and no older one.
   */
  async #askInTurns(range: TimeRange, nearest: ServiceMs | null, isProgress: () => boolean): Promise<boolean> {
    const top = range.to
    /** Sources whose response shows a known candle at the edge. Another request to them would show the same. */
    const sourcesThatReachedEdge = new Set<Source>()
    /** Lower end of the last window for which the source with a reach returned no candle. */
    let searchedInVainFrom: ServiceMs | null = null
    const asked = new Map<Source, number>()
    let isAlone = false
    for (const source of this.#turns(top)) {
      if (sourcesThatReachedEdge.has(source)) continue
      const times = asked.get(source) ?? 0
      if (times > 0) await this.#context.sleep(backoffMs(times, retry))
      asked.set(source, times + 1)
      const window = this.#windowBelow(range, source, nearest)
      const { openTimes, older, showsTop } = await this.#ask(source, window, top)
      if (source.hasReach) searchedInVainFrom = older.length > 0 ? null : window.from
      else if (searchedInVainFrom !== null) this.#noteMissing(older, searchedInVainFrom)
      if (isProgress()) break
      if (showsTop && older.length === 0) isAlone = true
      const reachesEdge = nearest === null ? showsTop : openTimes.includes(addMs(nearest, -this.#lengthMs))
      if (reachesEdge) sourcesThatReachedEdge.add(source)
      else if (older.length > 0 && this.#isKnown(top)) this.#givesNewest = false
    }
    return isAlone
  }

  /** Looks once more for candles between two known ranges. */
  async #lookAcross(nearest: ServiceMs, top: ServiceMs): Promise<Conclusion> {
    // A service that counts candles instead of intervals shows both sides of any silence if it is asked from above.
    if (!this.#isSparse() && this.#isKnown(top)) await this.#isFirst(top)
    return { from: nearest, to: top, isBeforeBeginning: false }
  }

  /** Looks for a candle anywhere below a range of which nothing is known. */
  async #lookBelow(range: TimeRange, isAlone: boolean): Promise<Conclusion> {
    const { floor } = this.#task
    const top = range.to
    const isOlderKnown = this.#oldestKnown !== null && this.#oldestKnown < top
    const hasOlder = (await this.#findsCandle(top, isOlderKnown ? range.from : floor, !isOlderKnown)) || isOlderKnown
    if (hasOlder) return { from: range.from, to: top, isBeforeBeginning: false }
    const isFirst = (isAlone && this.#untoldFrom >= top) || (this.#oldestKnown !== null && (await this.#isFirst(top)))
    // A sample of pages easily misses candles far apart, unless each page reaches the next candle at any distance.
    const isSure =
      !isSampled(top, floor, this.#lengthMs) || this.#countsCandles || (this.#isTelling() && !this.#isSparse())
    return { from: floor, to: top, isBeforeBeginning: isFirst && isSure && this.#unclearFrom >= top }
  }

  /** Returns true if a source shows the candle at `top` and told of all older time, and none shows an older candle. */
  async #isFirst(top: ServiceMs): Promise<boolean> {
    const sourcesThatShowedTop = new Set<Source>()
    for (const source of this.#turns(top)) {
      if (sourcesThatShowedTop.has(source)) continue
      const window = this.#windowBelow({ from: serviceMs(-Infinity), to: top }, source, null, true)
      const { older, showsTop } = await this.#ask(source, window, top)
      if (older.length > 0) return false
      if (showsTop) sourcesThatShowedTop.add(source)
    }
    return [...sourcesThatShowedTop].some(({ hasReach }) => !hasReach || this.#untoldFrom >= top)
  }

  /** Returns the source of each attempt, in turns. A source whose reach seems too short comes once, at the end. */
  #turns(top: ServiceMs): readonly Source[] {
    const isReached = (source: Source) => !source.hasReach || this.#isReached(addMs(top, -this.#lengthMs))
    const rounds = Array.from({ length: maxAttempts }, () => candleSources.filter(isReached))
    return [...rounds.flat(), ...candleSources.filter((source) => !isReached(source))]
  }

  #isReached(openTime: ServiceMs): boolean {
    const age = this.#context.reach.ageMs()
    return age === null || this.#context.now() - openTime < age
  }

  /**
   * Returns the window of a page below `top`. If a candle below the silence is known already, the page begins with it.
   * One response then shows the candles on both sides of the silence. A service that counts candles shows them at any
   * distance.
   */
  #windowBelow(
    { from: lowest, to: top }: TimeRange,
    source: Source,
    nearest: ServiceMs | null,
    isAcross = this.#isSparse(),
  ): TimeRange {
    const lengthMs = this.#lengthMs
    const pageMs = pagePlaces(source, lengthMs) * lengthMs
    if (nearest !== null) {
      const from = addMs(nearest, -lengthMs)
      const pageEnd = addMs(from, pageMs)
      const end = laterOf(top, earlierOf(pageEnd, this.#context.now()))
      const to = this.#isKnown(top) ? addMs(top, lengthMs) : end
      return { from, to: this.#countsCandles ? to : earlierOf(pageEnd, to) }
    }
    if (!isAcross) return { from: laterOf(lowest, addMs(top, -pageMs)), to: top }
    const to = addMs(top, lengthMs)
    const isWide = source.maxSpanMs === null && this.#isSparse() && this.#givesNewest
    return { from: addMs(to, -(isWide ? widePages : 1) * pageMs), to }
  }

  /** Requests a page and takes note of all that its response shows. */
  async #ask(source: Source, window: TimeRange, top: ServiceMs): Promise<ShownCandles> {
    const { openTimes, silence, lack } = await this.#context.ask({ operation: source.operation, window })
    if (lack === 'untold' && source.hasReach) this.#untoldFrom = Math.min(window.from, this.#untoldFrom)
    else if (lack !== 'shown') this.#unclearFrom = Math.min(window.from, this.#unclearFrom)
    this.#known = union(this.#known, union(filledBy(openTimes, this.#lengthMs), normalized(silence)))
    if (this.#known.length > bounds.walkPieces)
      throw new WalkTooLong('its candles come in more pieces than are held of them')
    this.#silentMs += totalMs(normalized(silence))
    if (openTimes.length > 0) this.#noteCandles(source, openTimes)
    return {
      openTimes,
      older: openTimes.filter((time) => time < top),
      showsTop: openTimes.some((time) => time >= top && time < top + this.#lengthMs),
    }
  }

  #noteCandles(source: Source, openTimes: readonly ServiceMs[]): void {
    const oldest = smallest(openTimes)
    this.#anchor ??= oldest
    this.#oldestKnown = earlierOf(oldest, this.#oldestKnown ?? oldest)
    if (source.hasReach) {
      this.#oldestReached = Math.min(oldest, this.#oldestReached)
      this.#context.reach.noteSeen(this.#context.now() - oldest)
    } else {
      // A service that counts places may count them from the newest candle that it has.
      const spanMs = largest(openTimes) - oldest
      this.#countsCandles ||= spanMs >= pagePlaces(source, this.#lengthMs) * this.#lengthMs
    }
  }

  /** Notes that the source with a reach lacked candles of the other source, in a window that began at `vainFrom`. */
  #noteMissing(openTimes: readonly ServiceMs[], vainFrom: ServiceMs): void {
    const newest = largest(openTimes)
    if (newest < vainFrom || this.#oldestReached <= newest) return
    this.#context.reach.noteMissing(this.#context.now() - newest)
  }

  #isKnown(openTime: ServiceMs): boolean {
    return this.#known.some(({ from, to }) => from <= openTime && openTime < to)
  }

  /** Returns the end of the newest known range below a time; null if there is none. */
  #knownBelow(top: ServiceMs): ServiceMs | null {
    return this.#known.findLast(({ to }) => to <= top)?.to ?? null
  }

  #isSparse(): boolean {
    return this.#task.isSparse || (this.#isTelling() && this.#silentMs > sparseShare * totalMs(this.#known))
  }

  #isTelling(): boolean {
    return totalMs(this.#known) >= minPlaces * this.#lengthMs
  }

  /** Looks for a candle below `top`, nearest pages first. Finding none proves nothing by itself. */
  async #findsCandle(top: ServiceMs, bottom: ServiceMs, isFloor: boolean): Promise<boolean> {
    const { lengthMs } = this.#task
    // Without any known candle nothing can be proven, so a repeated search is short.
    const isBrief = this.#task.isAskedBefore && this.#oldestKnown === null
    const sources = this.#isReached(addMs(top, -lengthMs)) ? candleSources : candleSources.toReversed()
    const looks = windowsBelow({ sources, top, bottom, isFloor, lengthMs, isSample: isBrief })
    const isBelow = ({ window }: Look) => window.to <= bottom
    const rounds = isBrief ? 1 : maxAttempts
    const within = looks.filter((look) => !isBelow(look))
    // Once a candle below the floor is known, pages above it are not searched any more. So it is looked for last.
    return (await this.#findsAmong(within, top, rounds)) || this.#findsAmong(looks.filter(isBelow), top, rounds)
  }

  async #findsAmong(looks: readonly Look[], top: ServiceMs, rounds: number): Promise<boolean> {
    for (let round = 1; round <= rounds && looks.length > 0; round++) {
      if (round > 1) await this.#context.sleep(backoffMs(round, retry))
      for (const { source, window } of looks) {
        const { openTimes, older } = await this.#ask(source, window, top)
        if (older.length > 0) return true
        if (openTimes.length === 0 || window.to !== top) continue
        // The response showed only the candle at `top`, as the end may be inclusive. A window without this candle is
        // tried.
        const narrowed = await this.#ask(source, { from: window.from, to: addMs(top, -this.#lengthMs) }, top)
        if (narrowed.older.length > 0) return true
      }
    }
    return false
  }
}
