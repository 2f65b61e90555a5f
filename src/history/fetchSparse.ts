import { intersect, type Ranges, subtract, type TimeRange, totalMs, union } from '../market/timeRange.js'
import type { TimeMs } from '../market/values.js'
import { askPatiently, confirmEmpty, type Emptiness, findsCandle, isSampled } from './emptiness.js'
import { type Grid, withCandles } from '../market/candleGrid.js'
import { type CandleOperation, maxAttempts, pageCandles, type PageRequest, retryDelayMs } from './pageRequest.js'
import type { Reach } from '../ledger/history/candleReach.js'
import type { Ask } from './reach.js'

export interface SparseContext {
  /** Asks, and adds what the response shows to what `known` gives. */
  readonly ask: Ask
  readonly now: () => TimeMs
  readonly sleep: (ms: number) => Promise<void>
  readonly grid: () => Grid
  /** Ranges that candles fill, or the silence between two of one response. */
  readonly known: () => Ranges
  /** Opening time of the oldest candle known. */
  readonly oldestKnown: () => TimeMs | null
  readonly reach: { get(): Reach; observe(seen: Partial<Reach>): Promise<void> }
  /** Opening time of the oldest candle that `candles` is known to reach. */
  readonly reachedTo: () => TimeMs
  /** Where `candles` is known not to reach: what opens before. */
  readonly beyondTo: () => TimeMs
  readonly floor: TimeMs
  /** It was asked for before without a word. */
  readonly isAskedBefore: boolean
}

export interface SparseOutcome {
  readonly empty: Ranges
  readonly unresolved: Ranges
  /** What was looked at between the candles found, or down to the floor, wanted or not. */
  readonly silent: Ranges
}

/** So many silent pages in a row are looked at one by one; then it is time to ask whether there is anything below. */
const maxSilentPages = 8
const maxSilentPagesAgain = 2
/** How far a question to `candles` reaches. A service that counts candles and not their places gives a whole page of them. */
const widePages = 8

/**
 * Gets candles of a series that leaves out intervals without a trade, newest first and one page after the other: each
 * begins with the oldest candle of the one before, so that no silence falls between two responses.
 */
export function fetchSparse(wanted: Ranges, context: SparseContext): Promise<SparseOutcome> {
  return new SparseFetch(wanted, context).run()
}

class SparseFetch {
  readonly #wanted: Ranges
  readonly #context: SparseContext
  readonly #lengthMs: number
  #left: TimeRange[]
  #unresolved: TimeRange[] = []
  #empty: TimeRange[] = []
  #lookedAt: TimeRange[] = []
  /** What pages without a candle were asked for, below the last candle that was seen. */
  #silent: TimeRange | null = null
  #silentPages = 0
  /** The last response had no candle at all. */
  #wasBlank = false
  /** Of a range with more candles than a page, `candles` gives the newest. */
  #givesNewest = true
  /** `history-candles` was seen to fill its pages with candles, however far apart they are. */
  #countsCandles = false

  constructor(wanted: Ranges, context: SparseContext) {
    this.#wanted = wanted
    this.#context = context
    this.#lengthMs = context.grid().lengthMs
    this.#left = [...wanted]
  }

  async run(): Promise<SparseOutcome> {
    for (;;) {
      this.#left = withCandles(this.#context.grid(), subtract(this.#left, this.#context.known()))
      const top: TimeMs | undefined = this.#silent?.from ?? this.#left.at(-1)?.to
      if (top === undefined) break
      const maxPages = this.#context.isAskedBefore ? maxSilentPagesAgain : maxSilentPages
      const isEnough = this.#silentPages >= maxPages || top <= this.#context.floor
      if (this.#silent !== null && isEnough) await this.#concludeSilence(this.#silent)
      else await this.#nextPage(top)
    }
    const known = this.#context.known()
    return { empty: this.#empty, unresolved: subtract(this.#unresolved, known), silent: this.#lookedAt }
  }

  async #nextPage(top: TimeMs): Promise<void> {
    const operation = this.#operationFor(top - this.#lengthMs)
    const page = this.#question(operation, top, 1)
    let older = await this.#olderThan(top, operation)
    const from = operation === 'candles' ? this.#lookedAtFrom(top, page.from) : page.from
    // Once for each silence: whether the other operation knows more.
    if (older.length === 0 && this.#silent === null && operation === 'candles') {
      older = await this.#olderThan(top, 'history-candles')
      const newest = Math.max(...older)
      if (newest >= page.from) await this.#context.reach.observe({ beyondMs: this.#context.now() - newest })
    } else if (older.length > 0 && operation === 'candles') await this.#observeReach(Math.min(...older))
    if (older.length > 0) return this.#bridge(Math.min(...older), this.#silent?.to ?? top)
    this.#silent = { from, to: this.#silent?.to ?? top }
    this.#silentPages++
  }

  /** What is asked for candles that end with the one that opens at `top`, if there is one. */
  #question(operation: CandleOperation, top: TimeMs, pages: number): TimeRange {
    const to = top + this.#lengthMs
    return { from: to - pages * pageCandles(operation, this.#lengthMs) * this.#lengthMs, to }
  }

  /** `candles` until it was seen not to reach so far: its pages are ten times as long. */
  #operationFor(openTime: TimeMs): CandleOperation {
    const { reachedMs, beyondMs } = this.#context.reach.get()
    const age = this.#context.now() - openTime
    return age <= reachedMs || beyondMs === null || age < beyondMs ? 'candles' : 'history-candles'
  }

  async #observeReach(oldest: TimeMs): Promise<void> {
    const { reach, now } = this.#context
    const reachedMs = now() - oldest
    if (reachedMs > reach.get().reachedMs) await reach.observe({ reachedMs })
  }

  /**
   * How far down a response of `candles` without an older candle counts: never to where it is known not to reach, and a blank
   * one to a long question as far as it is known to reach.
   */
  #lookedAtFrom(top: TimeMs, pageFrom: TimeMs): TimeMs {
    const { reachedTo, beyondTo } = this.#context
    const edge = beyondTo()
    if (edge > pageFrom && edge < top) return edge
    if (!this.#wasBlank) return pageFrom
    const wide = this.#question('candles', top, this.#givesNewest ? widePages : 1)
    return Math.max(wide.from, Math.min(pageFrom, reachedTo()))
  }

  /** The candles of a response that are older than `top`. One that lacks the candle at `top`, which is known, is not believed. */
  async #olderThan(top: TimeMs, operation: CandleOperation): Promise<TimeMs[]> {
    const isKnown = this.#context.known().some(({ from, to }) => from <= top && top < to)
    for (let attempt = 1; ; attempt++) {
      const isWide = operation === 'candles' && this.#givesNewest
      const window = this.#question(operation, top, isWide ? widePages : 1)
      const openTimes = await this.#context.ask({ operation, window })
      this.#wasBlank = openTimes.length === 0
      const older = openTimes.filter((time) => time < top)
      this.#countsCandles ||= operation === 'history-candles' && this.#exceedsPlaces(openTimes)
      if (!isKnown || openTimes.includes(top)) return older
      // It may give the oldest candles of a range and not the newest, when there are more than a page holds.
      if (isWide && older.length > 0) [this.#givesNewest, attempt] = [false, 0]
      else if (older.length > 0 || attempt === maxAttempts) return older
      else await this.#context.sleep(retryDelayMs * attempt)
    }
  }

  /**
   * Whether the candles of a response are further apart than the places of a page: so its candles were counted. From the end of
   * the page this cannot be told: a service may count the places from the newest candle that it has, wherever that is.
   */
  #exceedsPlaces(openTimes: readonly TimeMs[]): boolean {
    const placesMs = pageCandles('history-candles', this.#lengthMs) * this.#lengthMs
    return openTimes.length > 1 && Math.max(...openTimes) - Math.min(...openTimes) >= placesMs
  }

  /** Asks for what responses have left open between a candle and the one known above it, in one response that shows both. */
  async #bridge(from: TimeMs, to: TimeMs): Promise<void> {
    this.#silent = null
    this.#silentPages = 0
    const region = { from, to }
    this.#lookedAt = union(this.#lookedAt, [region])
    const open = this.#openParts(region)
    for (let range = open.pop(); range !== undefined; range = open.pop()) {
      await this.#askAcross(range)
      const rest = this.#openParts(range)
      // What lies on either side of a candle found within is another, shorter question.
      if (totalMs(rest) < totalMs([range])) open.push(...rest)
      else this.#unresolved = union(this.#unresolved, rest)
    }
    this.#left = subtract(this.#left, [region])
  }

  #openParts(range: TimeRange): TimeRange[] {
    const { grid, known } = this.#context
    return withCandles(grid(), intersect(subtract([range], known()), this.#wanted))
  }

  /** Asks until something of the range is known: in one response, and, where it is longer than that shows, from its lower end. */
  async #askAcross(range: TimeRange): Promise<void> {
    const { ask, known, now, sleep } = this.#context
    const lengthMs = this.#lengthMs
    const from = range.from - lengthMs
    const pageEnd = (operation: CandleOperation) => from + pageCandles(operation, lengthMs) * lengthMs
    const hasAbove = known().some(({ from: opening }) => opening === range.to)
    const across = (operation: CandleOperation): PageRequest => {
      const to = hasAbove ? range.to + lengthMs : Math.max(range.to, Math.min(pageEnd(operation), now()))
      return { operation, window: { from, to } }
    }
    const operation = this.#operationFor(from)
    const pages = [...new Set<CandleOperation>([operation, 'history-candles'])].map(across)
    const lowerEnd = pageEnd('history-candles')
    if (lowerEnd < range.to) pages.push({ operation: 'history-candles', window: { from, to: lowerEnd } })
    for (const page of pages) {
      await askPatiently(ask, page, sleep)
      if (totalMs(subtract([range], known())) < totalMs([range])) return
    }
  }

  /** Page after page was silent: the series begins above them, or it is silent for longer than a response shows. */
  async #concludeSilence(silent: TimeRange): Promise<void> {
    const { ask, sleep, floor, grid, known, oldestKnown, reachedTo, beyondTo, isAskedBefore } = this.#context
    this.#silent = null
    this.#silentPages = 0
    const below = { from: floor, to: silent.to }
    const range = { from: Math.max(floor, silent.from), to: silent.to }
    const looking = { range, floor, grid: grid(), sleep, reachedTo: reachedTo(), beyondTo: beyondTo(), isAskedBefore }
    const oldest = oldestKnown()
    let emptiness: Emptiness = 'candles-below'
    if (oldest === null) {
      // Not a candle anywhere: that there is none in this range cannot be shown, however often it is asked for.
      if (!(await findsCandle(ask, looking))) emptiness = 'unknown'
    } else if (oldest >= silent.to) {
      const asked = await confirmEmpty(ask, looking)
      // Few candles far apart are easily missed by a sample, unless each response shows the next one however far away it is.
      const isSample = isSampled(silent.to, floor, this.#lengthMs) && !this.#countsCandles
      emptiness = asked === 'empty' && isSample ? 'unknown' : asked
    }
    if (emptiness === 'empty') this.#empty = union(this.#empty, [below])
    if (emptiness === 'unknown') this.#unresolved = union(this.#unresolved, intersect(this.#left, [below]))
    if (emptiness !== 'candles-below') {
      if (emptiness === 'unknown') this.#lookedAt = union(this.#lookedAt, [below])
      this.#left = subtract(this.#left, [below])
      return
    }
    const candlesBelow = known().filter(({ from }) => from < silent.to)
    const nearest = candlesBelow.at(-1)?.to ?? silent.from
    if (nearest < silent.to) await this.#bridge(nearest, silent.to)
  }
}
