import { withCandles } from '../market/candleGrid.js'
import { normalized, subtract, type Ranges, type TimeRange, union } from '../market/timeRange.js'
import type { TimeMs } from '../market/values.js'
import { confirmEmpty } from './emptiness.js'
import { fetchSparse } from './fetchSparse.js'
import {
  absorb,
  decide,
  decideEmptiness,
  decideSilence,
  type FetchRequest,
  type FetchState,
  gridOf,
  nextRequest,
  openParts,
} from './fetchState.js'
import type { PageRequest, PageResponse } from './pageRequest.js'
import { exploreReach, isUnexplored, type ReachBook } from './reach.js'

export interface FetchTask {
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
  /** It was asked for before without a word: a few questions tell whether that has changed. */
  readonly isAskedBefore: boolean
  /** Requests under way at once. */
  readonly maxInFlight: number
}

/** What filling a range needs from outside. */
export interface FetchContext {
  /** Asks for a page and sees to it that what comes is stored; rejects when there is no response to be had. */
  readonly ask: (request: PageRequest) => Promise<PageResponse>
  /** The service's clock. */
  readonly now: () => TimeMs
  readonly sleep: (ms: number) => Promise<void>
  readonly reach: Pick<ReachBook, 'get' | 'observe' | 'learn'>
}

export interface FetchOutcome {
  /** Proven to hold no candle: the series begins at its end. */
  readonly empty: Ranges
  /** Asked for repeatedly without getting the candles. */
  readonly unresolved: Ranges
  /** Looked at without a candle, wanted or not: looking once more would show no more. */
  readonly silent: Ranges
  /** Opening time of some candle of the series. */
  readonly anchor: TimeMs | null
}

/**
 * Gets the candles of the wanted ranges, newest first, whatever the responses look like: what a page leaves open is asked for
 * again, exactly, and by the other operation, too. Ends when nothing is open any more but what stays silent. The decisions are
 * those of fetchState.ts; this asks, one loop for all requests.
 */
export async function fetchRange(task: FetchTask, context: FetchContext): Promise<FetchOutcome> {
  const { lengthMs, floor, maxInFlight } = task
  const { now, sleep, reach } = context
  let state: FetchState = {
    lengthMs,
    maxInFlight,
    fresh: normalized(task.wanted),
    known: [],
    retries: [],
    inFlight: [],
    silent: [],
    unresolved: [],
    empty: [],
    isSparse: task.isSparse || task.isAskedBefore,
    anchor: task.anchor,
    oldestKnown: task.oldestKnown,
    window: 1,
    vainEnds: [],
    oldestOfCandles: null,
  }
  const reachedTo = () => {
    const { reachedMs } = reach.get()
    return reachedMs === 0 ? Number.POSITIVE_INFINITY : now() - reachedMs
  }
  const beyondTo = () => {
    const { beyondMs } = reach.get()
    return beyondMs === null ? Number.NEGATIVE_INFINITY : Math.min(now() - beyondMs + lengthMs, reachedTo())
  }
  const ask = async (request: PageRequest) => {
    const response = await context.ask(request)
    state = absorb(state, response)
    return response.openTimes
  }
  /** None of these rejects. */
  const underWay = new Set<Promise<void>>()
  const failures: { readonly error: unknown }[] = []

  await explore()
  while (failures.length === 0 && !state.isSparse) {
    launch()
    if (underWay.size > 0) await Promise.race(underWay)
    else if (state.silent.length === 0) break
    else await resolveSilence().catch(fail)
  }
  await Promise.all(underWay)
  const [failure] = failures
  if (failure !== undefined) throw failure.error
  const silent = state.isSparse ? await goOnSparse() : []
  const unresolved = withCandles(gridOf(state), normalized(state.unresolved))
  return { empty: state.empty, unresolved, silent, anchor: state.anchor }

  async function explore(): Promise<void> {
    const hull = { from: state.fresh[0]?.from ?? 0, to: state.fresh.at(-1)?.to ?? 0 }
    await reach.learn(
      (known) => !state.isSparse && state.fresh.length > 0 && isUnexplored(known, hull, lengthMs, now()),
      (known) => exploreReach(known, { ask, now, grid: () => gridOf(state), hull }),
    )
  }

  function launch(): void {
    for (let next = nextRequest(state, reachedTo()); next !== null; next = nextRequest(state, reachedTo())) {
      state = next.state
      const running: Promise<void> = receive(next.asked)
        .catch(fail)
        .finally(() => underWay.delete(running))
      underWay.add(running)
    }
  }

  async function receive(asked: FetchRequest): Promise<void> {
    if (asked.delayMs > 0) await sleep(asked.delayMs)
    const response = await context.ask(asked.request)
    const decision = decide(state, asked, response, reachedTo())
    state = decision.state
    if (decision.beyond === undefined) return
    const age = now() - decision.beyond
    const { reachedMs, beyondMs } = reach.get()
    if (beyondMs === null || age < beyondMs || age <= reachedMs) {
      await reach.observe({ beyondMs: age, reachedMs: Math.min(reachedMs, age - 1) })
    }
  }

  function fail(error: unknown): void {
    failures.push({ error })
  }

  async function resolveSilence(): Promise<void> {
    const { state: next, confirm } = decideSilence(state)
    state = next
    if (confirm === null) return
    const silence = { range: confirm, floor, grid: gridOf(state), sleep, reachedTo: reachedTo(), beyondTo: beyondTo() }
    const emptiness = await confirmEmpty(ask, silence)
    state = decideEmptiness(state, confirm, emptiness, floor)
  }

  async function goOnSparse(): Promise<Ranges> {
    const rest = openParts(state, [...state.fresh, ...state.retries, ...state.silent])
    const outcome = await fetchSparse(rest, {
      ask,
      now,
      sleep,
      grid: () => gridOf(state),
      known: () => state.known,
      oldestKnown: () => state.oldestKnown,
      reach,
      reachedTo,
      beyondTo,
      floor,
      isAskedBefore: task.isAskedBefore,
    })
    const { empty, unresolved } = outcome
    state = { ...state, empty: union(state.empty, empty), unresolved: union(state.unresolved, unresolved) }
    return subtract(outcome.silent, state.known)
  }
}
