import { intersect, type Ranges, subtract, type TimeRange, totalMs, union } from '../market/timeRange.js'
import type { TimeMs } from '../market/values.js'
import { askPatiently, confirmEmpty, type Emptiness, findsCandle, isSampled } from './emptiness.js'
import { type Grid, withCandles } from '../market/candleGrid.js'
import { type CandleOperation, maxAttempts, pageCandles, type PageRequest, retryDelayMs } from './pageRequest.js'
import type { Reach } from '../store/history/candleReach.js'
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

/** Time below the last candle that was seen, and the pages without a candle that were asked for there. */
interface Silence extends TimeRange {
  readonly pages: readonly PageRequest[]
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
  #silence: Silence | null = null
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
      const top: TimeMs | undefined = this.#silence?.from ?? this.#left.at(-1)?.to
      if (top === undefined) break
      const maxPages = this.#context.isAskedBefore ? maxSilentPagesAgain : maxSilentPages
      const silence = this.#silence
      if (silence !== null && (silence.pages.length >= maxPages || top <= this.#context.floor)) {
        this.#silence = null
        await this.#concludeSilence(silence)
      } else await this.#nextPage(top)
    }
    const known = this.#context.known()
    return { empty: this.#empty, unresolved: subtract(this.#unresolved, known), silent: this.#lookedAt }
  }

  async #nextPage(top: TimeMs): Promise<void> {
    const operation = this.#operationFor(top - this.#lengthMs)
    let older = await this.#olderThan(top, operation)
    let from = this.#lookedAtFrom(top, operation)
    // Once for each silence: whether the other operation knows more.
    if (older.length === 0 && this.#silence === null && operation === 'candles') {
      older = await this.#olderThan(top, 'history-candles')
      from = Math.min(from, this.#lookedAtFrom(top, 'history-candles'))
      const newest = Math.max(...older)
      if (newest >= this.#question(operation, top, 1).window.from)
        await this.#context.reach.observe({ beyondMs: this.#context.now() - newest })
    } else if (older.length > 0 && operation === 'candles') await this.#observeReach(Math.min(...older))
    const { to, pages } = this.#silence ?? { to: top, pages: [] }
    if (older.length === 0) this.#silence = { from, to, pages: [...pages, this.#question(operation, top, 1)] }
    else {
      this.#silence = null
      await this.#bridge({ from: Math.min(...older), to }, pages)
    }
  }

  /** What is asked for candles that end with the one that opens at `top`, if there is one. */
  #question(operation: CandleOperation, top: TimeMs, pages: number): PageRequest {
    const to = top + this.#lengthMs
    return { operation, window: { from: to - pages * pageCandles(operation, this.#lengthMs) * this.#lengthMs, to } }
  }

  /**
   * `candles` until it was seen not to reach so far: its pages are ten times as long. Further down in a silence, only as far as
   * it is known to reach: beyond, that it is silent says nothing.
   */
  #operationFor(openTime: TimeMs): CandleOperation {
    const { reachedMs, beyondMs } = this.#context.reach.get()
    const age = this.#context.now() - openTime
    if (age <= reachedMs) return 'candles'
    const isBeyond = beyondMs !== null && age >= beyondMs
    return isBeyond || this.#silence !== null ? 'history-candles' : 'candles'
  }

  async #observeReach(oldest: TimeMs): Promise<void> {
    const { reach, now } = this.#context
    const reachedMs = now() - oldest
    if (reachedMs > reach.get().reachedMs) await reach.observe({ reachedMs })
  }

  /** How far down the response that has just come, without an older candle, says that there is none. */
  #lookedAtFrom(top: TimeMs, operation: CandleOperation): TimeMs {
    const isWide = operation === 'candles' && this.#wasBlank && this.#givesNewest
    const { from } = this.#question(operation, top, isWide ? widePages : 1).window
    return operation === 'candles' ? Math.max(from, this.#context.reachedTo()) : from
  }

  /** The candles of a response that are older than `top`. One that lacks the candle at `top`, which is known, is not believed. */
  async #olderThan(top: TimeMs, operation: CandleOperation): Promise<TimeMs[]> {
    const isKnown = this.#context.known().some(({ from, to }) => from <= top && top < to)
    for (let attempt = 1; ; attempt++) {
      const isWide = operation === 'candles' && this.#givesNewest
      const openTimes = await this.#context.ask(this.#question(operation, top, isWide ? widePages : 1))
      this.#wasBlank = openTimes.length === 0
      const older = openTimes.filter((time) => time < top)
      this.#countsCandles ||= operation === 'history-candles' && this.#exceedsPlaces(openTimes)
      if (!isKnown || openTimes.includes(top)) return older
      // It may give the oldest candles of a range and not the newest, when there are more than a page holds.
      if (isWide && older.length > 0) this.#givesNewest = false
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
  async #bridge(region: TimeRange, silentPages: readonly PageRequest[]): Promise<void> {
    this.#lookedAt = union(this.#lookedAt, [region])
    const open = this.#openParts(region)
    for (let range = open.pop(); range !== undefined; range = open.pop()) {
      await this.#askAcross(range, silentPages)
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

  /** Asks until something of the range is known; at last once more for its pages that were silent, should they have been so at first only. */
  async #askAcross(range: TimeRange, silentPages: readonly PageRequest[]): Promise<void> {
    const { ask, known, now, sleep } = this.#context
    const lengthMs = this.#lengthMs
    const isNews = () => totalMs(subtract([range], known())) < totalMs([range])
    const below = range.from - lengthMs
    const hasAbove = known().some(({ from }) => from === range.to)
    for (const operation of new Set<CandleOperation>([this.#operationFor(below), 'history-candles'])) {
      const page = pageCandles(operation, lengthMs) * lengthMs
      const above = Math.max(range.to, Math.min(below + page, now()))
      const window = { from: below, to: hasAbove ? range.to + lengthMs : above }
      await askPatiently(ask, { operation, window }, sleep)
      if (isNews()) return
    }
    // A single page was asked for again just now.
    const pages = silentPages.filter(({ window }) => intersect([window], [range]).length > 0)
    for (const page of pages.length > 1 ? pages : []) {
      await ask(page)
      if (isNews()) return
    }
  }

  /** Page after page was silent: the series begins above them, or it is silent for longer than a response shows. */
  async #concludeSilence(silent: Silence): Promise<void> {
    const { ask, sleep, floor, grid, known, oldestKnown, reachedTo, isAskedBefore } = this.#context
    const below = { from: floor, to: silent.to }
    const range = { from: Math.max(floor, silent.from), to: silent.to }
    const looking = { range, floor, grid: grid(), sleep, reachedTo: reachedTo(), isAskedBefore }
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
    if (nearest < silent.to) await this.#bridge({ from: nearest, to: silent.to }, silent.pages)
  }
}
