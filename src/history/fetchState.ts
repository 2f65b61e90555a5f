import { filledBy, type Grid, withCandles } from '../market/candleGrid.js'
import { normalized, type Ranges, subtract, type TimeRange, totalMs, union } from '../market/timeRange.js'
import type { TimeMs } from '../market/values.js'
import { type Backoff, backoffMs } from '../runtime/backoff.js'
import type { Emptiness } from './emptiness.js'
import {
  type CandleOperation,
  maxAttempts,
  newestPage,
  type PageRequest,
  type PageResponse,
  retryDelayMs,
} from './pageRequest.js'

/**
 * What the filling of a range knows and has to do, newest first, many pages at once. All functions here are pure; fetchRange.ts
 * asks. After every one of them:
 *
 * 1. Nothing is forgotten: every wanted candle is `known`, or in `fresh`, `retries`, `inFlight`, `silent`, `unresolved` or `empty`.
 * 2. Nothing is claimed but what came: `known` is what candles of responses fill, and the silence between two of one response.
 * 3. `empty` is what was confirmed to be empty, and nothing else.
 * 4. It ends: a piece is asked for at most three times by each operation, and what is left of a piece is smaller than it.
 * 5. Nothing older departs while a response is awaited that may tell that there is nothing older.
 */
export interface FetchState {
  readonly lengthMs: number
  readonly maxInFlight: number
  /** Wanted, and not asked for yet. */
  readonly fresh: Ranges
  readonly known: Ranges
  readonly retries: readonly Piece[]
  readonly inFlight: readonly Piece[]
  /** Asked for by both operations in vain; may lie before the beginning of the series. */
  readonly silent: Ranges
  /** Asked for in vain, although there are older candles. */
  readonly unresolved: Ranges
  readonly empty: Ranges
  /** Better gone on with one page after the other: what lies between two of many at once would have to be asked for again. */
  readonly isSparse: boolean
  /** Opening time of some candle, and of the oldest one that is known. */
  readonly anchor: TimeMs | null
  readonly oldestKnown: TimeMs | null
  /** How many requests at once. Grows with every response, so that a range without candles does not draw a volley of requests. */
  readonly window: number
  /** Ends of ranges that `candles` was asked for in vain, and the oldest candle that it did give. */
  readonly vainEnds: readonly TimeMs[]
  readonly oldestOfCandles: TimeMs | null
}

export interface Piece extends TimeRange {
  readonly operation: CandleOperation
  /** How often each operation was asked for it in vain. */
  readonly inVain: InVain
  /** What is older waits for the response: it may tell that there is nothing older, or who has it. */
  readonly isInDoubt: boolean
  /** Left open by a response that had candles. */
  readonly isRest: boolean
}

type InVain = Readonly<Record<CandleOperation, number>>

export interface FetchRequest {
  readonly piece: Piece
  readonly request: PageRequest
  /** The part of the piece that it asks for. */
  readonly window: TimeRange
  readonly delayMs: number
}

export interface Decision {
  readonly state: FetchState
  /** An opening time for which `history-candles` has answered and `candles` did not. */
  readonly beyond?: TimeMs
}

const notYet: InVain = { candles: 0, 'history-candles': 0 }
const retry: Backoff = { minMs: retryDelayMs, maxMs: 2_000 }
/** A response over so many candles' time that is silent for more than this share of it is one of a sparse series. */
const sparseShare = 0.1
const minPlaces = 50

/** Adds what a response shows: it counts for everything that is open, not only for the page that was asked for. */
export function absorb(state: FetchState, { openTimes, silence }: PageResponse): FetchState {
  const { lengthMs, oldestKnown } = state
  const shown = union(filledBy(openTimes, lengthMs), silence)
  const isTelling = totalMs(shown) >= minPlaces * lengthMs
  const oldest = Math.min(...openTimes, oldestKnown ?? Number.POSITIVE_INFINITY)
  return {
    ...state,
    known: union(state.known, shown),
    fresh: subtract(state.fresh, shown),
    unresolved: subtract(state.unresolved, shown),
    isSparse: state.isSparse || (isTelling && totalMs(normalized(silence)) > sparseShare * totalMs(shown)),
    anchor: state.anchor ?? openTimes[0] ?? null,
    oldestKnown: Number.isFinite(oldest) ? oldest : null,
  }
}

/**
 * The next page to ask for; null while nothing more may depart.
 *
 * @param reachedTo opening time of the oldest candle that `candles` is known to reach
 */
export function nextRequest(state: FetchState, reachedTo: TimeMs): { state: FetchState; asked: FetchRequest } | null {
  if (state.isSparse || state.inFlight.length >= state.window) return null
  const [piece, ...retries] = state.retries
  const isHeldUp = state.silent.length > 0 || state.inFlight.some(({ isInDoubt }) => isInDoubt)
  if (piece === undefined && isHeldUp) return null
  const next = piece ?? newestFresh(state, reachedTo)
  if (next === null) return null
  const fresh = piece === undefined ? subtract(withCandles(gridOf(state), state.fresh), [next]) : state.fresh
  const asked = requestFor(next, state.lengthMs)
  return { state: { ...state, fresh, retries, inFlight: [...state.inFlight, next] }, asked }
}

function newestFresh(state: FetchState, reachedTo: TimeMs): Piece | null {
  const { lengthMs } = state
  const newest = withCandles(gridOf(state), state.fresh).at(-1)
  if (newest === undefined) return null
  const isReached = newest.to - lengthMs >= reachedTo
  const operation = isReached ? 'candles' : 'history-candles'
  // Not past the reach, where pages would come back short.
  const below = Math.max(1, Math.floor((newest.to - reachedTo) / lengthMs)) * lengthMs
  const from = isReached ? Math.max(newest.from, newest.to - below) : newest.from
  const { window } = newestPage(operation, { from, to: newest.to }, lengthMs)
  return { ...window, operation, inVain: notYet, isInDoubt: false, isRest: false }
}

function requestFor(piece: Piece, lengthMs: number): FetchRequest {
  const attempts = piece.inVain.candles + piece.inVain['history-candles']
  // With the candles on both sides: a response that shows these and none between says that there is none.
  const spare = piece.isRest ? lengthMs : 0
  const request = newestPage(piece.operation, { from: piece.from - spare, to: piece.to + spare }, lengthMs)
  const window = { from: Math.max(piece.from, request.window.from), to: piece.to }
  return { piece, request, window, delayMs: attempts === 0 ? 0 : backoffMs(attempts, retry) }
}

/** What a response means: what of its page is open is asked for again, exactly, until both operations have been silent. */
export function decide(before: FetchState, asked: FetchRequest, response: PageResponse, reachedTo: TimeMs): Decision {
  const { piece, window } = asked
  const inFlight = before.inFlight.filter((other) => other !== piece)
  const seen = absorb({ ...before, inFlight }, response)
  const inWindow = response.openTimes.filter((time) => time >= window.from && time < window.to)
  // An operation with smaller pages was asked for the newest part of the piece only.
  const fresh = union(seen.fresh, openParts(seen, [{ from: piece.from, to: window.from }]))
  const state = {
    ...seen,
    fresh,
    window: inWindow.length > 0 ? Math.min(seen.window * 2, seen.maxInFlight) : seen.window,
  }
  const left = openParts(state, [window])
  if (inWindow.length === 0)
    return { state: askAgain(state, { ...piece, ...window, isInDoubt: true }, left, reachedTo) }

  const oldest = Math.min(...inWindow)
  const { state: learned, beyond } = learnReach(state, piece.operation, oldest, window.to)
  const rest = { ...piece, isRest: true }
  // A page that ends early probably ends with the reach of its operation, or with the series: the other one is next.
  const endsEarly = { ...notYet, candles: piece.operation === 'candles' ? maxAttempts - 1 : 0 }
  const after = left.reduce(
    (one, range) =>
      range.to <= oldest
        ? queue(one, { ...rest, ...range, isInDoubt: true, inVain: endsEarly }, reachedTo)
        : askAgain(one, rest, [range], reachedTo),
    learned,
  )
  return beyond === undefined ? { state: after } : { state: after, beyond }
}

/** Where `history-candles` responds for the range below `to` and `candles` did not, that does not reach so far. */
function learnReach(state: FetchState, operation: CandleOperation, oldest: TimeMs, to: TimeMs): Decision {
  const { oldestOfCandles, vainEnds, lengthMs } = state
  if (operation === 'candles') {
    return { state: { ...state, oldestOfCandles: Math.min(oldest, oldestOfCandles ?? oldest) } }
  }
  const learned = { ...state, vainEnds: vainEnds.filter((end) => end !== to) }
  const isBeyond = vainEnds.includes(to) && (oldestOfCandles === null || oldestOfCandles >= to)
  return isBeyond ? { state: learned, beyond: to - lengthMs } : { state: learned }
}

/** Asks once more for what is left of a piece. A part of it is another question, which was never asked. */
function askAgain(state: FetchState, piece: Piece, ranges: Ranges, reachedTo: TimeMs): FetchState {
  const { operation, inVain } = piece
  return ranges.reduce((one, range) => {
    const isWhole = range.from === piece.from && range.to === piece.to
    const asked = isWhole ? { ...inVain, [operation]: inVain[operation] + 1 } : notYet
    return queue(one, { ...piece, ...range, inVain: asked }, reachedTo)
  }, state)
}

function queue(state: FetchState, piece: Piece, reachedTo: TimeMs): FetchState {
  const vainEnds = piece.operation === 'candles' ? [...new Set([...state.vainEnds, piece.to])] : state.vainEnds
  const operation = nextOperation(piece.inVain, piece.to - state.lengthMs >= reachedTo)
  const next = { ...state, vainEnds }
  if (operation !== undefined) return { ...next, retries: [...state.retries, { ...piece, operation }] }
  if (!isGap(state, piece)) return { ...next, silent: union(state.silent, [piece]) }
  if (piece.isRest) return { ...next, unresolved: union(state.unresolved, [piece]) }
  // A whole page without a candle, and older ones known: it may be one of very many, which are told sooner by longer questions.
  return { ...next, silent: union(state.silent, [piece]), isSparse: true }
}

/**
 * Whom to ask next; undefined when both are silent. `candles` is asked twice before the other, so that a response that is empty
 * once is not taken for the end of its reach.
 */
function nextOperation(inVain: InVain, isReached: boolean): CandleOperation | undefined {
  if (isReached && inVain.candles < maxAttempts - 1) return 'candles'
  if (inVain['history-candles'] < maxAttempts) return 'history-candles'
  return isReached && inVain.candles < maxAttempts ? 'candles' : undefined
}

/** Whatever is newer than a candle we know of is a gap; what is older than all of them may be before the beginning. */
function isGap({ oldestKnown }: FetchState, { from }: TimeRange): boolean {
  return oldestKnown !== null && oldestKnown < from
}

/** With nothing under way: what to make of the silent ranges. The one to confirm is no longer among them. */
export function decideSilence(state: FetchState): { state: FetchState; confirm: TimeRange | null } {
  const { known, oldestKnown, lengthMs } = state
  // Hardly a candle so far: it may well be that it trades once in a while.
  if (oldestKnown === null || totalMs(known) < minPlaces * lengthMs) {
    return { state: { ...state, isSparse: true }, confirm: null }
  }
  const gaps = state.silent.filter((range) => isGap(state, range))
  const [lowest = null, ...silent] = subtract(state.silent, gaps)
  return { state: { ...state, silent, unresolved: union(state.unresolved, gaps) }, confirm: lowest }
}

/** What became of a silent range that was to be confirmed. */
export function decideEmptiness(state: FetchState, range: TimeRange, emptiness: Emptiness, floor: TimeMs): FetchState {
  if (emptiness === 'candles-below') {
    return { ...state, unresolved: union(state.unresolved, openParts(state, [range])) }
  }
  const below = { from: floor, to: range.to }
  const fresh = subtract(state.fresh, [below])
  if (emptiness === 'empty') return { ...state, fresh, empty: union(state.empty, [below]) }
  const rest = [range, ...state.fresh.filter(({ to }) => to <= range.to)]
  return { ...state, fresh, unresolved: union(state.unresolved, rest) }
}

/** The part of ranges that may hold candles and is not received. */
export function openParts(state: FetchState, ranges: Iterable<TimeRange>): TimeRange[] {
  return withCandles(gridOf(state), subtract(normalized(ranges), state.known))
}

export function gridOf({ lengthMs, anchor }: FetchState): Grid {
  return { lengthMs, anchor }
}
