import { normalized, subtract, type TimeRange, totalMs, union } from '../market/timeRange.js'
import type { TimeMs } from '../market/values.js'
import { confirmEmpty, type Emptiness } from './emptiness.js'
import { fillSparse } from './fillSparse.js'
import { filledBy, type Grid, withCandles } from '../market/candleGrid.js'
import { type CandleOperation, newestPage, type PageAnswer, type PageRequest } from './pageRequest.js'
import { type Ask, exploreReach, isUnexplored, type Reach } from './reach.js'

export interface FillTask {
  readonly lengthMs: number
  /** Ranges of opening times to get. */
  readonly wanted: readonly TimeRange[]
  /** Whoever asked wants nothing older than this. */
  readonly floor: TimeMs
  /** Opening time of some candle of the series, if one is known. */
  readonly anchor: TimeMs | null
  /** Opening time of the oldest candle that is stored, if there is one. */
  readonly oldestKnown: TimeMs | null
  /** The series is known to leave out intervals without a trade. */
  readonly isSparse: boolean
  /** Most requests under way at once. */
  readonly maxInFlight: number
}

/** What filling a range needs from outside. */
export interface FillContext {
  /** Asks for a page and sees to it that what it answers is stored; rejects when there is no answer to be had. */
  readonly ask: (request: PageRequest) => Promise<PageAnswer>
  /** The service's clock. */
  readonly now: () => TimeMs
  readonly sleep: (ms: number) => Promise<void>
  readonly reach: {
    get(): Reach
    observe(seen: Partial<Reach>): Promise<void>
    learn(isNeeded: (reach: Reach) => boolean, explore: (known: Reach) => Promise<Reach>): Promise<void>
  }
}

export interface FillOutcome {
  /** Proven to hold no candle: the series begins at its end. */
  readonly empty: readonly TimeRange[]
  /** Asked for repeatedly without getting the candles. */
  readonly unresolved: readonly TimeRange[]
  /** Opening time of some candle of the series. */
  readonly anchor: TimeMs | null
}

interface Piece extends TimeRange {
  readonly operation: CandleOperation
  /** How often each operation was asked for it in vain. */
  readonly inVain: InVain
  /** What is older waits for the answer: it may tell that there is nothing older, or who has it. */
  readonly isInDoubt: boolean
  /** Left open by an answer that had candles. */
  readonly isRest: boolean
}

type InVain = Readonly<Record<CandleOperation, number>>

const notYet: InVain = { candles: 0, 'history-candles': 0 }
/** An operation that was asked so often counts as silent. */
const mostAttempts = 3

/**
 * Whom to ask next; undefined when both are silent. `candles` is asked twice before the other, so that an answer that is empty
 * once is not taken for the end of its reach.
 */
function nextOperation(inVain: InVain, isReached: boolean): CandleOperation | undefined {
  if (isReached && inVain.candles < mostAttempts - 1) return 'candles'
  if (inVain['history-candles'] < mostAttempts) return 'history-candles'
  return isReached && inVain.candles < mostAttempts ? 'candles' : undefined
}

const retryDelayMs = 100
/** An answer over so many candles' time that is silent for more than this share of it is one of a sparse series. */
const sparseShare = 0.1
const leastPlaces = 50

/**
 * Gets the candles of the wanted ranges, newest first, whatever the answers look like: what a page leaves open is asked for
 * again, exactly, and by the other operation, too. Ends when nothing is open any more but what stays silent.
 */
export async function fillRange(task: FillTask, context: FillContext): Promise<FillOutcome> {
  return new Filling(task, context).run()
}

class Filling {
  readonly #task: FillTask
  readonly #context: FillContext
  /** Wanted, and not asked for yet. */
  #fresh: TimeRange[]
  /** What received candles fill, and the silence between two of one answer. */
  #known: TimeRange[] = []
  #isSparse: boolean
  #retries: Piece[] = []
  #silent: TimeRange[] = []
  #unresolved: TimeRange[] = []
  #empty: TimeRange[] = []
  #anchor: TimeMs | null
  #oldestKnown: TimeMs | null
  /** Grows with every answer, so that a range without candles does not draw a volley of requests. */
  #window = 1
  /** Requests under way whose answer decides about what is older. */
  #doubts = 0
  /** Ends of ranges that `candles` was asked for in vain, and the oldest candle that it did give. */
  readonly #unanswered = new Set<TimeMs>()
  #oldestOfCandles: TimeMs | null = null
  /** Requests under way; none of them rejects. */
  readonly #inFlight = new Set<Promise<void>>()
  #failure: { readonly error: unknown } | null = null

  constructor(task: FillTask, context: FillContext) {
    this.#task = task
    this.#context = context
    this.#fresh = normalized(task.wanted)
    this.#anchor = task.anchor
    this.#oldestKnown = task.oldestKnown
    this.#isSparse = task.isSparse
  }

  async run(): Promise<FillOutcome> {
    try {
      await this.#explore()
      while (this.#failure === null && !this.#isSparse) {
        this.#launch()
        if (this.#inFlight.size > 0) await Promise.race(this.#inFlight)
        else if (this.#silent.length > 0) await this.#resolveSilent()
        else break
      }
    } finally {
      await Promise.all(this.#inFlight)
    }
    if (this.#failure !== null) throw this.#failure.error
    if (this.#isSparse) await this.#goOnSparse()
    return {
      empty: this.#empty,
      unresolved: withCandles(this.#grid(), normalized(this.#unresolved)),
      anchor: this.#anchor,
    }
  }

  async #explore(): Promise<void> {
    const { reach, now } = this.#context
    const { lengthMs, isSparse } = this.#task
    const hull = () => ({ from: this.#fresh[0]?.from ?? 0, to: this.#fresh.at(-1)?.to ?? 0 })
    await reach.learn(
      (known) => !isSparse && this.#fresh.length > 0 && isUnexplored(known, hull(), lengthMs, now()),
      (known) => exploreReach(known, { ask: this.#ask, now, grid: () => this.#grid(), hull: hull() }),
    )
  }

  /** Pages one after the other instead of many at once: whatever lies between two of them would have to be asked for again. */
  async #goOnSparse(): Promise<void> {
    const { now, sleep, reach } = this.#context
    const rest = this.#open([...this.#fresh, ...this.#retries, ...this.#silent])
    const { empty, unresolved } = await fillSparse(rest, {
      ask: this.#ask,
      now,
      sleep,
      grid: () => this.#grid(),
      known: () => this.#known,
      oldestKnown: () => this.#oldestKnown,
      reach,
      reachedTo: () => this.#reachedTo(),
      floor: this.#task.floor,
    })
    this.#empty = union(this.#empty, empty)
    this.#unresolved = union(this.#unresolved, unresolved)
  }

  #launch(): void {
    while (this.#inFlight.size < Math.min(this.#window, this.#task.maxInFlight)) {
      const piece = this.#retries.shift() ?? this.#nextFresh()
      if (piece === undefined) return
      const running: Promise<void> = this.#askFor(piece)
        .catch((error: unknown) => {
          this.#failure ??= { error }
        })
        .finally(() => this.#inFlight.delete(running))
      this.#inFlight.add(running)
    }
  }

  /** The newest page not asked for yet; none while an older answer is in doubt. */
  #nextFresh(): Piece | undefined {
    const { lengthMs } = this.#task
    if (this.#doubts > 0 || this.#silent.length > 0) return undefined
    this.#fresh = withCandles(this.#grid(), this.#fresh)
    const newest = this.#fresh.at(-1)
    if (newest === undefined) return undefined
    const isReached = newest.to - lengthMs >= this.#reachedTo()
    const operation = isReached ? 'candles' : 'history-candles'
    const from = isReached ? Math.max(newest.from, newest.to - this.#reachBelow(newest.to)) : newest.from
    const { window } = newestPage(operation, { from, to: newest.to }, lengthMs)
    this.#fresh = subtract(this.#fresh, [window])
    return { ...window, operation, inVain: notYet, isInDoubt: false, isRest: false }
  }

  /** Opening time of the oldest candle that `candles` is known to reach. */
  #reachedTo(): TimeMs {
    const { reachedMs } = this.#context.reach.get()
    return reachedMs === 0 ? Number.POSITIVE_INFINITY : this.#context.now() - reachedMs
  }

  /** How far below `to` pages of `candles` may go: not past the reach, where they would come back short. */
  #reachBelow(to: TimeMs): number {
    const { lengthMs } = this.#task
    return Math.max(1, Math.floor((to - this.#reachedTo()) / lengthMs)) * lengthMs
  }

  async #askFor(piece: Piece): Promise<void> {
    const { lengthMs, maxInFlight } = this.#task
    if (piece.isInDoubt) this.#doubts++
    try {
      const attempts = piece.inVain.candles + piece.inVain['history-candles']
      if (attempts > 0) await this.#context.sleep(retryDelayMs * 2 ** (attempts - 1))
      // With the candles on both sides: an answer that shows these and none between says that there is none.
      const spare = piece.isRest ? lengthMs : 0
      const request = newestPage(piece.operation, { from: piece.from - spare, to: piece.to + spare }, lengthMs)
      const window = { from: Math.max(piece.from, request.window.from), to: piece.to }
      const openTimes = await this.#ask(request)
      const inWindow = openTimes.filter((time) => time >= window.from && time < window.to)
      if (inWindow.length > 0) this.#window = Math.min(maxInFlight, this.#window * 2)
      // A retry by the operation with the smaller pages asks for the newest part of its piece only.
      this.#fresh = union(this.#fresh, this.#open([{ from: piece.from, to: window.from }]))
      await this.#sort(piece, window, inWindow)
    } finally {
      if (piece.isInDoubt) this.#doubts--
    }
  }

  /** Decides what becomes of the part of a page that was not answered. */
  async #sort(piece: Piece, window: TimeRange, openTimes: readonly TimeMs[]): Promise<void> {
    const left = this.#open([window])
    if (openTimes.length === 0) return this.#again({ ...piece, ...window, isInDoubt: true }, left)
    const oldest = Math.min(...openTimes)
    if (piece.operation === 'candles') {
      if (this.#oldestOfCandles === null || oldest < this.#oldestOfCandles) this.#oldestOfCandles = oldest
    } else await this.#doubtReach(window.to)
    const rest = { ...piece, isRest: true }
    for (const range of left) {
      // A page that ends early probably ends with the reach of its operation, or with the series: the other one is next.
      const belowEnd: InVain = { ...notYet, candles: piece.operation === 'candles' ? mostAttempts - 1 : 0 }
      if (range.to <= oldest) this.#retry({ ...rest, ...range, isInDoubt: true, inVain: belowEnd })
      else this.#again(rest, [range])
    }
  }

  /** `history-candles` has answered for the range below `to`. If `candles` did not, it does not reach so far. */
  async #doubtReach(to: TimeMs): Promise<void> {
    const { reach, now } = this.#context
    if (!this.#unanswered.delete(to) || (this.#oldestOfCandles !== null && this.#oldestOfCandles < to)) return
    const age = now() - (to - this.#task.lengthMs)
    const { reachedMs, beyondMs } = reach.get()
    if (beyondMs === null || age < beyondMs || age <= reachedMs) {
      await reach.observe({ beyondMs: age, reachedMs: Math.min(reachedMs, age - 1) })
    }
  }

  /** Asks once more for what is left of a piece. A part of it is another question, which was never asked. */
  #again(piece: Piece, ranges: readonly TimeRange[]): void {
    const { operation, inVain } = piece
    for (const range of ranges) {
      const isWhole = range.from === piece.from && range.to === piece.to
      const asked = isWhole ? { ...inVain, [operation]: inVain[operation] + 1 } : notYet
      this.#retry({ ...piece, ...range, inVain: asked })
    }
  }

  #retry(piece: Piece): void {
    const isReached = piece.to - this.#task.lengthMs >= this.#reachedTo()
    const operation = nextOperation(piece.inVain, isReached)
    if (piece.operation === 'candles') this.#unanswered.add(piece.to)
    if (operation !== undefined) this.#retries.push({ ...piece, operation })
    else if (this.#isHole(piece)) this.#unresolved = union(this.#unresolved, [piece])
    else this.#silent = union(this.#silent, [piece])
  }

  /** Whatever is newer than a candle we know of is a hole; what is older than all of them may be before the beginning. */
  #isHole(range: TimeRange): boolean {
    return this.#oldestKnown !== null && this.#oldestKnown < range.from
  }

  /** The part of ranges that may hold candles and is not received. */
  #open(ranges: readonly TimeRange[]): TimeRange[] {
    return withCandles(this.#grid(), subtract(normalized(ranges), this.#known))
  }

  async #resolveSilent(): Promise<void> {
    if (this.#oldestKnown === null || totalMs(this.#known) < leastPlaces * this.#task.lengthMs) {
      // Hardly a candle so far: it may well be that it trades once in a while.
      this.#isSparse = true
      return
    }
    const holes = this.#silent.filter((range) => this.#isHole(range))
    const [lowest, ...others] = subtract(this.#silent, holes)
    this.#unresolved = union(this.#unresolved, holes)
    this.#silent = others
    if (lowest === undefined) return
    const emptiness = await this.#confirmEmpty(lowest)
    if (emptiness === 'candles-below') {
      this.#unresolved = union(this.#unresolved, this.#open([lowest]))
      return
    }
    const below = { from: this.#task.floor, to: lowest.to }
    if (emptiness === 'empty') this.#empty = union(this.#empty, [below])
    else this.#unresolved = union(this.#unresolved, [lowest, ...this.#fresh.filter(({ to }) => to <= lowest.to)])
    this.#fresh = subtract(this.#fresh, [below])
  }

  #confirmEmpty(range: TimeRange): Promise<Emptiness> {
    const { sleep } = this.#context
    const { floor } = this.#task
    return confirmEmpty(this.#ask, { range, floor, grid: this.#grid(), sleep, reachedTo: this.#reachedTo() })
  }

  #grid(): Grid {
    return { lengthMs: this.#task.lengthMs, anchor: this.#anchor }
  }

  /** Every answer counts for everything that is open, not only for the page that was asked for. */
  readonly #ask: Ask = async (request) => {
    const { openTimes, silence } = await this.#context.ask(request)
    const filled = filledBy(openTimes, this.#task.lengthMs)
    const shown = union(filled, silence)
    this.#known = union(this.#known, shown)
    this.#fresh = subtract(this.#fresh, shown)
    this.#unresolved = subtract(this.#unresolved, shown)
    const isTelling = totalMs(shown) >= leastPlaces * this.#task.lengthMs
    this.#isSparse ||= isTelling && totalMs(normalized(silence)) > sparseShare * totalMs(shown)
    for (const openTime of openTimes) {
      this.#anchor ??= openTime
      if (this.#oldestKnown === null || openTime < this.#oldestKnown) this.#oldestKnown = openTime
    }
    return openTimes
  }
}
