import { subtract, type TimeRange } from '../market/timeRange.js'
import type { TimeMs } from '../market/values.js'
import { filledBy, type Grid, withCandles } from '../market/candleGrid.js'
import type { Reach } from '../ledger/history/candleReach.js'
import { newestPage, pageCandles, type PageRequest } from './pageRequest.js'

const unknownReach: Reach = { reachedMs: 0, beyondMs: null }

/** Asks for a page; resolves to the opening times of the closed candles in the response. */
export type Ask = (request: PageRequest) => Promise<readonly TimeMs[]>

export interface Exploration {
  readonly ask: Ask
  readonly now: () => TimeMs
  readonly grid: () => Grid
  /** What is wanted anyway: only there are questions asked, so that most of their responses are of use. */
  readonly hull: TimeRange
}

/** Whether the operation for some part of the range can only be told by trying. */
export function isUnexplored(reach: Reach, { from, to }: TimeRange, lengthMs: number, now: TimeMs): boolean {
  const isReached = now - from <= reach.reachedMs
  const isBeyond = reach.beyondMs !== null && now - (to - lengthMs) >= reach.beyondMs
  // Finding the edge takes time, in which it moves on.
  const isSettled = reach.beyondMs !== null && reach.beyondMs - reach.reachedMs <= 2 * lengthMs + 60_000
  return !isReached && !isBeyond && !isSettled
}

/**
 * Finds out how far `candles` reaches within a range: pages at doubling distances until one is answered by
 * `history-candles` alone, then halving in between. Where neither responds, nothing is learned but where not to look.
 */
export async function exploreReach(known: Reach, exploration: Exploration): Promise<Reach> {
  const { hull, now } = exploration
  const { lengthMs } = exploration.grid()
  const pageMs = pageCandles('candles', lengthMs) * lengthMs
  // Positions are counted in pages from the newest one that is not known to be reached.
  const top = Math.min(hull.to, Math.ceil((now() - known.reachedMs - hull.from) / lengthMs) * lengthMs + hull.from)
  const bottom = known.beyondMs === null ? hull.from : Math.max(hull.from, now() - known.beyondMs)
  const pages = Math.ceil((top - bottom) / pageMs)
  const trust: Trust = { isTested: false }
  let reach = known
  let reachedPage = -1
  let beyondPage = pages
  let isGalloping = true
  while (beyondPage - reachedPage > 1) {
    const page = isGalloping
      ? Math.min(pages - 1, reachedPage * 2 + 2)
      : reachedPage + Math.max(1, (beyondPage - reachedPage) >> 1)
    const to = top - page * pageMs
    const found = await tryPage(exploration, trust, { from: Math.max(hull.from, to - pageMs), to })
    if (found.reachedTo !== null) reach = { ...reach, reachedMs: Math.max(reach.reachedMs, now() - found.reachedTo) }
    if (found.beyondFrom !== null) reach = { ...reach, beyondMs: now() - found.beyondFrom }
    if (found.kind === 'edge') break
    if (found.kind === 'reached') reachedPage = page
    else beyondPage = page
    isGalloping &&= found.kind === 'reached'
  }
  return reach
}

interface Found {
  /** `edge`: the reach ends within the page. `silent`: neither operation has anything to tell. */
  readonly kind: 'reached' | 'beyond' | 'edge' | 'silent'
  /** Opening time of the oldest candle that `candles` gave. */
  readonly reachedTo: TimeMs | null
  /** Opening time of the newest candle that only `history-candles` gave. */
  readonly beyondFrom: TimeMs | null
}

/** Whether an empty response was seen to stay empty when asked again. Then the next ones are believed. */
interface Trust {
  isTested: boolean
}

async function tryPage({ ask, grid }: Exploration, trust: Trust, window: TimeRange): Promise<Found> {
  const { lengthMs } = grid()
  const askRecent = async () =>
    (await ask({ operation: 'candles', window })).filter((time) => time >= window.from && time < window.to)
  let recent = await askRecent()
  if (recent.length === 0 && !trust.isTested) {
    recent = await askRecent()
    trust.isTested = recent.length === 0
  }
  const oldest = recent.length > 0 ? Math.min(...recent) : null
  const rest = { from: window.from, to: oldest ?? window.to }
  const isWhole = withCandles(grid(), subtract([rest], filledBy(recent, lengthMs))).length === 0
  if (isWhole) return { kind: 'reached', reachedTo: oldest, beyondFrom: null }
  // With the oldest candle itself: a response that has an older one as well, but none between, shows that there is none.
  const withOldest = oldest === null ? rest : { from: rest.from - lengthMs, to: oldest + lengthMs }
  const below = await ask(newestPage('history-candles', withOldest, lengthMs))
  const older = below.filter((openTime) => openTime >= rest.from && openTime < rest.to)
  if (older.length === 0) {
    const isSeen = oldest !== null && below.includes(oldest) && below.some((openTime) => openTime < rest.from)
    return { kind: isSeen ? 'reached' : 'silent', reachedTo: oldest, beyondFrom: null }
  }
  return { kind: oldest === null ? 'beyond' : 'edge', reachedTo: oldest, beyondFrom: Math.max(...older) }
}

export interface ReachMemory {
  load(): Promise<Reach | null>
  save(reach: Reach): Promise<void>
}

/** The reach of one kind of series, shared by all slices: while one explores, the others that need to know wait. */
export class ReachBook {
  readonly #memory: ReachMemory
  #known: Reach | null = null
  #turn: Promise<void> = Promise.resolve()

  constructor(memory: ReachMemory) {
    this.#memory = memory
  }

  get(): Reach {
    return this.#known ?? unknownReach
  }

  /** What a page has shown by the way. */
  async observe(seen: Partial<Reach>): Promise<void> {
    this.#known = { ...this.get(), ...seen }
    await this.#memory.save(this.#known)
  }

  /** Has `explore` find out what `isNeeded` says is not known, one at a time. */
  async learn(isNeeded: (reach: Reach) => boolean, explore: (known: Reach) => Promise<Reach>): Promise<void> {
    const turn = this.#turn.then(async () => {
      this.#known ??= (await this.#memory.load()) ?? unknownReach
      if (isNeeded(this.#known)) await this.observe(await explore(this.#known))
    })
    this.#turn = turn.catch(() => undefined)
    await turn
  }
}
