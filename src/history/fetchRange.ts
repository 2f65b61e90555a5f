import { filledBy, type Grid, withCandles } from '../market/candle.js'
import { intersect, normalized, type Ranges, subtract, type TimeRange, totalMs, union } from '../market/timeRange.js'
import type { TimeMs } from '../market/values.js'
import { type Backoff, backoffMs } from '../runtime/clock.js'
import { sparseShare } from '../ledger/missing.js'
import {
  candleSources,
  isSampled,
  pagePlaces,
  type PageRequest,
  type PageResponse,
  type Source,
  windowsBelow,
} from './sources.js'
import type { Reach } from './reach.js'

interface FetchTask {
  readonly lengthMs: number
  /** Ranges of opening times to get. */
  readonly wanted: readonly TimeRange[]
  /** Nothing older than this time is wanted. */
  readonly floor: TimeMs
  /** Opening time of the oldest candle that is stored, if there is one. */
  readonly oldestKnown: TimeMs | null
  /** True when the series is known to leave out intervals without a trade. */
  readonly isSparse: boolean
  /** True when an earlier fetch left the range unanswered. Without a known candle, one round looks for a change. */
  readonly isAskedBefore: boolean
}

/** The operations and the knowledge that `fetchRange` gets from its caller. */
interface FetchContext {
  /** Requests a page and has its rows stored. Rejects when the service gives no response. */
  readonly ask: (request: PageRequest) => Promise<PageResponse>
  /** Returns the time of the service's clock. */
  readonly now: () => TimeMs
  readonly sleep: (ms: number) => Promise<void>
  readonly reach: Reach
}

interface FetchOutcome {
  /** Ranges before the beginning: no candle was found down to the floor, and the series begins at their end. */
  readonly empty: Ranges
  /** Ranges that were requested repeatedly without their candles. */
  readonly unresolved: Ranges
  /** Ranges, wanted or not, that were looked at and showed no candle. Another look would not show more. */
  readonly silent: Ranges
  /** Opening time of some candle of the series. */
  readonly anchor: TimeMs | null
}

/** An operation counts as silent after this many equal requests without a candle. */
const maxAttempts = 3
const retry: Backoff = { minMs: 100, maxMs: 2_000 }
/** The number of places that must be known before `sparseShare` is applied. */
const minPlaces = 50
/** The largest number of pages of time that one request for a sparse series covers. */
const widePages = 8

/**
 * Fetches the candles of the wanted ranges page by page, from the newest to the oldest, at any density. After each
 * response:
 *
 * 1. No wanted candle is forgotten: each is known, left, unresolved or empty.
 * 2. Only the candles of a response and the silence between two of them are claimed.
 * 3. The search ends: each request makes more known, or a bounded number of requests removes a range that is left.
 *
 * An empty page proves nothing. A silent place is requested from each operation up to three times. Then a candle is
 * looked for below it. The place is before the beginning if none is found, and a response shows only the candle above.
 */
export function fetchRange(task: FetchTask, context: FetchContext): Promise<FetchOutcome> {
  return new Walk(task, context).run()
}

class Walk {
  readonly #task: FetchTask
  readonly #context: FetchContext
  readonly #lengthMs: number
  readonly #wanted: Ranges
  #left: Ranges
  #known: Ranges = []
  #empty: Ranges = []
  #unresolved: Ranges = []
  #silent: Ranges = []
  #anchor: TimeMs | null
  #oldestKnown: TimeMs | null
  /** Opening time of the oldest candle that the operation with a reach has given. */
  #oldestReached = Number.POSITIVE_INFINITY
  #silentMs = 0
  /** True while the response to a request longer than a page holds the newest candles of the range. */
  #givesNewest = true
  /** True when a page of the last source counted candles instead of places. */
  #countsCandles = false

  constructor(task: FetchTask, context: FetchContext) {
    this.#task = task
    this.#context = context
    this.#lengthMs = task.lengthMs
    this.#wanted = normalized(task.wanted)
    this.#left = this.#wanted
    this.#anchor = task.oldestKnown
    this.#oldestKnown = task.oldestKnown
  }

  async run(): Promise<FetchOutcome> {
    for (let range = this.#newestLeft(); range !== undefined; range = this.#newestLeft()) await this.#goOnFrom(range)
    const unresolved = withCandles(this.#grid(), subtract(this.#unresolved, this.#known))
    return { empty: this.#empty, unresolved, silent: subtract(this.#silent, this.#known), anchor: this.#anchor }
  }

  #newestLeft(): TimeRange | undefined {
    this.#left = withCandles(this.#grid(), subtract(this.#left, this.#known))
    return this.#left.at(-1)
  }

  #grid(): Grid {
    return { lengthMs: this.#lengthMs, anchor: this.#anchor }
  }

  /** Requests the candles just below the upper end of a range until more of it is known or given up. */
  async #goOnFrom(range: TimeRange): Promise<void> {
    const top = range.to
    const nearest = this.#knownBelow(top)
    const isProgress = () => this.#newestLeft()?.to !== top || this.#knownBelow(top) !== nearest
    /** Sources whose response shows a known candle at the edge. Another request to them would show the same. */
    const heard = new Set<Source>()
    let isAlone = false
    /** Lower end of the range for which the operation with a reach returned no candle. */
    let vainFrom: TimeMs | null = null
    const asked = new Map<Source, number>()
    for (const source of this.#turns(top)) {
      if (heard.has(source)) continue
      const times = asked.get(source) ?? 0
      if (times > 0) await this.#context.sleep(backoffMs(times, retry))
      const window = this.#question(source, range, nearest)
      asked.set(source, times + 1)
      const openTimes = await this.#ask(source, window)
      const older = openTimes.filter((time) => time < top)
      if (source.hasReach) vainFrom = older.length > 0 ? null : window.from
      else if (older.length > 0 && vainFrom !== null) await this.#noteMissing(Math.max(...older), vainFrom)
      if (isProgress()) return
      const showsTop = openTimes.some((time) => time >= top && time < top + this.#lengthMs)
      if (showsTop && older.length === 0) isAlone = true
      if (nearest === null ? showsTop : openTimes.includes(nearest - this.#lengthMs)) heard.add(source)
      else if (older.length > 0 && this.#isKnown(top)) this.#givesNewest = false
    }
    if (nearest !== null) {
      // A service that counts candles instead of places shows both sides of any silence if it is asked from above.
      if (!this.#isSparse() && this.#isKnown(top)) await this.#isFirst(top)
      if (isProgress()) return
      return this.#giveUp({ from: nearest, to: top })
    }
    const bottom = this.#oldestKnown !== null && this.#oldestKnown < top ? range.from : null
    if (await this.#findsCandle(top, bottom ?? this.#task.floor, bottom === null)) {
      if (isProgress()) return
      return this.#giveUp({ from: this.#knownBelow(top) ?? range.from, to: top })
    }
    if (bottom !== null) return this.#giveUp({ from: bottom, to: top })
    const isFirst = isAlone || (this.#oldestKnown !== null && (await this.#isFirst(top)))
    if (isProgress()) return
    this.#concludeBeginning(top, isFirst)
  }

  /** Returns true if a response shows the candle that opens at `top`, and no response shows an older candle. */
  async #isFirst(top: TimeMs): Promise<boolean> {
    const heard = new Set<Source>()
    for (const source of this.#turns(top)) {
      if (heard.has(source)) continue
      const openTimes = await this.#ask(
        source,
        this.#question(source, { from: Number.NEGATIVE_INFINITY, to: top }, null, true),
      )
      if (openTimes.some((time) => time < top)) return false
      if (openTimes.some((time) => time < top + this.#lengthMs)) heard.add(source)
    }
    return heard.size > 0
  }

  /** Returns the source of each attempt, in turns. A source whose reach seems too short comes once, at the end. */
  #turns(top: TimeMs): readonly Source[] {
    const isReached = (source: Source) => !source.hasReach || this.#isReached(top - this.#lengthMs)
    const rounds = Array.from({ length: maxAttempts }, () => candleSources.filter(isReached))
    return [...rounds.flat(), ...candleSources.filter((source) => !isReached(source))]
  }

  #isReached(openTime: TimeMs): boolean {
    const age = this.#context.reach.ageMs()
    return age === null || this.#context.now() - openTime < age
  }

  /**
   * Returns the range of a page below `top`. If a candle below the silence is known already, the page begins with it.
   * One response then shows the candles on both sides of the silence.
   */
  #question(
    source: Source,
    { from: lowest, to: top }: TimeRange,
    nearest: TimeMs | null,
    isAcross = this.#isSparse(),
  ): TimeRange {
    const lengthMs = this.#lengthMs
    const pageMs = pagePlaces(source, lengthMs) * lengthMs
    if (nearest !== null) {
      const from = nearest - lengthMs
      const end = Math.max(top, Math.min(from + pageMs, this.#context.now()))
      return { from, to: Math.min(from + pageMs, this.#isKnown(top) ? top + lengthMs : end) }
    }
    if (!isAcross) return { from: Math.max(lowest, top - pageMs), to: top }
    const to = top + lengthMs
    const isWide = source.maxSpanMs === null && this.#isSparse() && this.#givesNewest
    return { from: to - (isWide ? widePages : 1) * pageMs, to }
  }

  async #ask(source: Source, window: TimeRange): Promise<readonly TimeMs[]> {
    const lengthMs = this.#lengthMs
    const { openTimes, silence } = await this.#context.ask({ operation: source.operation, window })
    this.#known = union(this.#known, union(filledBy(openTimes, lengthMs), normalized(silence)))
    this.#silentMs += totalMs(normalized(silence))
    if (openTimes.length === 0) return openTimes
    const oldest = Math.min(...openTimes)
    this.#anchor ??= oldest
    this.#oldestKnown = Math.min(oldest, this.#oldestKnown ?? oldest)
    if (source.hasReach) {
      this.#oldestReached = Math.min(oldest, this.#oldestReached)
      await this.#context.reach.noteSeen(this.#context.now() - oldest)
    } else {
      // A service that counts places may count them from the newest candle that it has.
      const spanMs = Math.max(...openTimes) - oldest
      this.#countsCandles ||= spanMs >= pagePlaces(source, lengthMs) * lengthMs
    }
    return openTimes
  }

  /** Notes a candle of the last source that the source with a reach did not give, though asked down to `vainFrom`. */
  async #noteMissing(newest: TimeMs, vainFrom: TimeMs): Promise<void> {
    if (newest < vainFrom || this.#oldestReached <= newest) return
    await this.#context.reach.noteMissing(this.#context.now() - newest)
  }

  #isKnown(openTime: TimeMs): boolean {
    return this.#known.some(({ from, to }) => from <= openTime && openTime < to)
  }

  /** Returns the end of the newest known range below a time; null if there is none. */
  #knownBelow(top: TimeMs): TimeMs | null {
    return this.#known.findLast(({ to }) => to <= top)?.to ?? null
  }

  #isSparse(): boolean {
    return this.#task.isSparse || (this.#isTelling() && this.#silentMs > sparseShare * totalMs(this.#known))
  }

  #isTelling(): boolean {
    return totalMs(this.#known) >= minPlaces * this.#lengthMs
  }

  #giveUp(silent: TimeRange): void {
    this.#silent = union(this.#silent, [silent])
    this.#unresolved = union(this.#unresolved, intersect(this.#left, [silent]))
    this.#left = subtract(this.#left, [silent])
  }

  /** Looks for a candle below `top`, nearest pages first. Finding none proves nothing by itself. */
  async #findsCandle(top: TimeMs, bottom: TimeMs, isFloor: boolean): Promise<boolean> {
    const { lengthMs } = this.#task
    // Without any known candle nothing can be proven, so a repeated search is short.
    const isBrief = this.#task.isAskedBefore && this.#oldestKnown === null
    const sources = this.#isReached(top - lengthMs) ? candleSources : candleSources.toReversed()
    const windows = windowsBelow({ sources, top, bottom, isFloor, lengthMs, isSample: isBrief })
    for (let round = 1; round <= (isBrief ? 1 : maxAttempts); round++) {
      if (round > 1) await this.#context.sleep(backoffMs(round, retry))
      for (const { source, window } of windows) {
        let openTimes = await this.#ask(source, window)
        // If the end is inclusive, the candle at `top` takes the place of those below, so the window is narrowed.
        if (window.to === top && openTimes.length > 0 && openTimes.every((time) => time >= top))
          openTimes = await this.#ask(source, { from: window.from, to: top - this.#lengthMs })
        if (openTimes.some((time) => time < top)) return true
      }
    }
    return false
  }

  /** Concludes a search that found no candle below `top`: the series begins there, or the silence proves nothing. */
  #concludeBeginning(top: TimeMs, isFirst: boolean): void {
    const { floor } = this.#task
    const below = { from: floor, to: top }
    // A sample easily misses few candles far apart, unless each page shows the next candle at any distance.
    const isSure =
      !isSampled(top, floor, this.#lengthMs) || this.#countsCandles || (this.#isTelling() && !this.#isSparse())
    if (!isFirst || !isSure) return this.#giveUp(below)
    this.#empty = union(this.#empty, [below])
    this.#left = subtract(this.#left, [below])
  }
}
