import { intersect, type Ranges, subtract, type TimeRange, union } from '../market/timeRange.js'
import type { TimeMs } from '../market/values.js'
import { confirmEmpty, type Emptiness, findsCandle, isSampled } from './emptiness.js'
import { type Grid, withCandles } from '../market/candleGrid.js'
import { type CandleOperation, pageCandles } from './pageRequest.js'
import type { Ask, Reach } from './reach.js'

export interface SparseContext {
  /** Asks, and adds what the answer shows to what `known` gives. */
  readonly ask: Ask
  readonly now: () => TimeMs
  readonly sleep: (ms: number) => Promise<void>
  readonly grid: () => Grid
  /** Ranges that candles fill, or the silence between two of one answer. */
  readonly known: () => Ranges
  /** Opening time of the oldest candle known. */
  readonly oldestKnown: () => TimeMs | null
  readonly reach: { get(): Reach; observe(seen: Partial<Reach>): Promise<void> }
  /** Opening time of the oldest candle that `candles` is known to reach. */
  readonly reachedTo: () => TimeMs
  readonly floor: TimeMs
}

export interface SparseOutcome {
  readonly empty: readonly TimeRange[]
  readonly unresolved: readonly TimeRange[]
}

/** So many silent pages in a row are looked at one by one; then it is time to ask whether there is anything below. */
const mostSilentPages = 8
/** How far a question to `candles` reaches. A service that counts candles and not their places gives a whole page of them. */
const widePages = 8
const attempts = 3
const retryDelayMs = 100

/**
 * Gets candles of a series that leaves out intervals without a trade, newest first and one page after the other: each
 * begins with the oldest candle of the one before, so that no silence falls between two answers.
 */
export function fillSparse(wanted: Ranges, context: SparseContext): Promise<SparseOutcome> {
  return new SparseFilling(wanted, context).run()
}

class SparseFilling {
  readonly #wanted: Ranges
  readonly #context: SparseContext
  readonly #lengthMs: number
  #left: TimeRange[]
  #unresolved: TimeRange[] = []
  #empty: TimeRange[] = []
  /** What pages without a candle were asked for, below the last candle that was seen. */
  #silent: TimeRange | null = null
  #silentPages = 0
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
      const isEnough = this.#silentPages >= mostSilentPages || top <= this.#context.floor
      if (this.#silent !== null && isEnough) await this.#concludeSilence(this.#silent)
      else await this.#nextPage(top)
    }
    return { empty: this.#empty, unresolved: subtract(this.#unresolved, this.#context.known()) }
  }

  async #nextPage(top: TimeMs): Promise<void> {
    const operation = this.#operationFor(top - this.#lengthMs)
    const window = this.#page(operation, top)
    let older = await this.#olderThan(top, operation)
    // Once for each silence: whether the other operation knows more.
    if (older.length === 0 && this.#silent === null && operation === 'candles') {
      older = await this.#olderThan(top, 'history-candles')
      const newest = Math.max(...older)
      if (newest >= window.from) await this.#context.reach.observe({ beyondMs: this.#context.now() - newest })
    } else if (older.length > 0 && operation === 'candles') await this.#observeReach(Math.min(...older))
    if (older.length > 0) return this.#bridge(Math.min(...older), this.#silent?.to ?? top)
    this.#silent = { from: window.from, to: this.#silent?.to ?? top }
    this.#silentPages++
  }

  /** A page that ends with the candle that opens at `top`, if there is one. */
  #page(operation: CandleOperation, top: TimeMs): TimeRange {
    const to = top + this.#lengthMs
    return { from: to - pageCandles(operation, this.#lengthMs) * this.#lengthMs, to }
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

  /** The candles of an answer that are older than `top`. One that lacks the candle at `top`, which is known, is not believed. */
  async #olderThan(top: TimeMs, operation: CandleOperation): Promise<TimeMs[]> {
    const isKnown = this.#context.known().some(({ from, to }) => from <= top && top < to)
    const page = this.#page(operation, top)
    for (let attempt = 1; ; attempt++) {
      const isWide = operation === 'candles' && this.#givesNewest
      const from = isWide ? page.to - widePages * (page.to - page.from) : page.from
      const openTimes = await this.#context.ask({ operation, window: { from, to: page.to } })
      const older = openTimes.filter((time) => time < top)
      this.#countsCandles ||= operation === 'history-candles' && this.#exceedsPlaces(openTimes)
      if (!isKnown || openTimes.includes(top)) return older
      // It may give the oldest candles of a range and not the newest, when there are more than a page holds.
      if (isWide && older.length > 0) this.#givesNewest = false
      else if (older.length > 0 || attempt === attempts) return older
      else await this.#context.sleep(retryDelayMs * attempt)
    }
  }

  /**
   * Whether the candles of an answer are further apart than the places of a page: so its candles were counted. From the end of
   * the page this cannot be told: a service may count the places from the newest candle that it has, wherever that is.
   */
  #exceedsPlaces(openTimes: readonly TimeMs[]): boolean {
    const placesMs = pageCandles('history-candles', this.#lengthMs) * this.#lengthMs
    return openTimes.length > 1 && Math.max(...openTimes) - Math.min(...openTimes) >= placesMs
  }

  /** Asks for what answers have left open between a candle and the one known above it, in one answer that shows both. */
  async #bridge(from: TimeMs, to: TimeMs): Promise<void> {
    this.#silent = null
    this.#silentPages = 0
    const region = { from, to }
    const isOpen = () =>
      withCandles(this.#context.grid(), intersect(subtract([region], this.#context.known()), this.#wanted))
    for (const range of isOpen()) await this.#askAcross(range)
    this.#unresolved = union(this.#unresolved, isOpen())
    this.#left = subtract(this.#left, [region])
  }

  async #askAcross(range: TimeRange): Promise<void> {
    const { ask, known, now } = this.#context
    const lengthMs = this.#lengthMs
    const below = range.from - lengthMs
    const hasAbove = known().some(({ from }) => from === range.to)
    for (const operation of new Set<CandleOperation>([this.#operationFor(below), 'history-candles'])) {
      const page = pageCandles(operation, lengthMs) * lengthMs
      const above = Math.max(range.to, Math.min(below + page, now()))
      await ask({ operation, window: { from: below, to: hasAbove ? range.to + lengthMs : above } })
      if (subtract([range], known()).length === 0) return
    }
  }

  /** Page after page was silent: the series begins above them, or it is silent for longer than an answer shows. */
  async #concludeSilence(silent: TimeRange): Promise<void> {
    const { ask, sleep, floor, grid, known, oldestKnown, reachedTo } = this.#context
    this.#silent = null
    this.#silentPages = 0
    const below = { from: floor, to: silent.to }
    const range = { from: Math.max(floor, silent.from), to: silent.to }
    const looking = { range, floor, grid: grid(), sleep, reachedTo: reachedTo() }
    const oldest = oldestKnown()
    let emptiness: Emptiness = 'candles-below'
    if (oldest === null) {
      // Not a candle anywhere: that there is none in this range cannot be shown, however often it is asked for.
      if (!(await findsCandle(ask, looking))) emptiness = 'unknown'
    } else if (oldest >= silent.to) {
      const asked = await confirmEmpty(ask, looking)
      // Few candles far apart are easily missed by a sample, unless each answer shows the next one however far away it is.
      const isSample = isSampled(silent.to, floor, this.#lengthMs) && !this.#countsCandles
      emptiness = asked === 'empty' && isSample ? 'unknown' : asked
    }
    if (emptiness === 'empty') this.#empty = union(this.#empty, [below])
    if (emptiness === 'unknown') this.#unresolved = union(this.#unresolved, intersect(this.#left, [below]))
    if (emptiness !== 'candles-below') {
      this.#left = subtract(this.#left, [below])
      return
    }
    const candlesBelow = known().filter(({ from }) => from < silent.to)
    const nearest = candlesBelow.at(-1)?.to ?? silent.from
    if (nearest < silent.to) await this.#bridge(nearest, silent.to)
  }
}
