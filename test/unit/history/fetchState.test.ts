import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  decide,
  decideEmptiness,
  decideSilence,
  type FetchRequest,
  type FetchState,
  gridOf,
  nextRequest,
} from '../../../src/history/fetchState.js'
import type { PageResponse } from '../../../src/history/pageRequest.js'
import { filledBy, silenceBetween, withCandles } from '../../../src/market/candleGrid.js'
import { normalized, type Ranges, subtract, type TimeRange, union } from '../../../src/market/timeRange.js'

const minuteMs = 60_000
const base = Date.UTC(2026, 0, 1)
const minutes = (from: number, to: number): TimeRange => ({ from: base + from * minuteMs, to: base + to * minuteMs })

function stateOf(wanted: Ranges, more: Partial<FetchState> = {}): FetchState {
  return {
    lengthMs: minuteMs,
    maxInFlight: 4,
    fresh: wanted,
    known: [],
    retries: [],
    inFlight: [],
    silent: [],
    unresolved: [],
    empty: [],
    isSparse: false,
    anchor: null,
    oldestKnown: null,
    window: 1,
    vainEnds: [],
    oldestOfCandles: null,
    ...more,
  }
}

function accounted(state: FetchState): TimeRange[] {
  const { known, fresh, retries, inFlight, silent, unresolved, empty } = state
  return normalized([...known, ...fresh, ...retries, ...inFlight, ...silent, ...unresolved, ...empty])
}

/** Some of the minutes in and around a window, and the silence between them, or not. */
function responseTo({ request }: FetchRequest, next: () => number): PageResponse {
  const { from, to } = request.window
  const share = [0, 0, 0.5, 0.95, 1][next() % 5] ?? 0
  const openTimes: number[] = []
  const first = from - (next() % 3) * minuteMs
  for (let time = first; time < to; time += minuteMs) if (next() % 100 < share * 100) openTimes.push(time)
  const bounds = { lengthMs: minuteMs, settledUntil: Number.POSITIVE_INFINITY }
  return { openTimes, silence: next() % 2 === 0 ? silenceBetween(openTimes, bounds) : [] }
}

const arbitraryWanted = fc
  .array(fc.tuple(fc.integer({ min: 0, max: 2_000 }), fc.integer({ min: 1, max: 1_500 })), {
    minLength: 1,
    maxLength: 3,
  })
  .map((pairs) => normalized(pairs.map(([start, size]) => minutes(start, start + size))))

describe('whatever the responses are, and in whatever order they come', () => {
  it('nothing wanted is forgotten, nothing is claimed but what came, nothing is empty unconfirmed, and it ends', () => {
    fc.assert(
      fc.property(
        arbitraryWanted,
        fc.integer({ min: -100, max: 5_000 }),
        fc.infiniteStream(fc.nat({ max: 9_999 })),
        (wanted, reach, chances) => {
          const chance = () => chances.next().value as number
          const reachedTo = base + reach * minuteMs
          let state = stateOf(wanted)
          let shown: Ranges = []
          let confirmed: Ranges = []
          const asked: FetchRequest[] = []
          const floor = wanted[0]?.from ?? 0
          for (let steps = 0; ; steps++) {
            expect(steps).toBeLessThan(5_000)
            for (let next = nextRequest(state, reachedTo); next !== null; next = nextRequest(state, reachedTo)) {
              state = next.state
              asked.push(next.asked)
              expect(state.inFlight.length).toBeLessThanOrEqual(state.window)
            }
            const [request] = asked.splice(chance() % Math.max(1, asked.length), 1)
            if (request !== undefined) {
              const response = responseTo(request, chance)
              shown = union(shown, union(filledBy(response.openTimes, minuteMs), normalized(response.silence)))
              ;({ state } = decide(state, request, response, reachedTo))
            } else if (state.silent.length > 0 && !state.isSparse) {
              const { state: next, confirm } = decideSilence(state)
              state = next
              if (confirm !== null) {
                const emptiness = (['empty', 'candles-below', 'unknown'] as const)[chance() % 3] ?? 'unknown'
                if (emptiness === 'empty') confirmed = union(confirmed, [{ from: floor, to: confirm.to }])
                state = decideEmptiness(state, confirm, emptiness, floor)
              }
            } else break
            expect(withCandles(gridOf(state), subtract(wanted, accounted(state)))).toEqual([])
            expect(state.known).toEqual(shown)
            expect(state.empty).toEqual(confirmed)
          }
          expect(state.inFlight).toEqual([])
        },
      ),
      { numRuns: 60 },
    )
  })
})

describe('a decision', () => {
  const ask = (state: FetchState, reachedTo = -Infinity) => {
    const next = nextRequest(state, reachedTo)
    if (next === null) throw new Error('nothing departs')
    return next
  }
  const every = ({ from, to }: TimeRange): PageResponse => {
    return { openTimes: Array.from({ length: (to - from) / minuteMs }, (_, i) => from + i * minuteMs), silence: [] }
  }

  it('doubles what is under way with each response that has candles, up to the most', () => {
    let state = stateOf([minutes(0, 20_000)])
    const windows: number[] = []
    for (let page = 0; page < 4; page++) {
      const { state: before, asked } = ask(state)
      state = decide(before, asked, every(asked.window), -Infinity).state
      windows.push(state.window)
    }
    expect(windows).toEqual([2, 4, 4, 4])
  })

  it('lets nothing older depart while an empty response is asked for once more', () => {
    const { state, asked } = ask(stateOf([minutes(0, 5_000)], { window: 4 }))
    const empty = decide(state, asked, { openTimes: [], silence: [] }, -Infinity).state
    const again = ask(empty)
    expect(again.asked.window).toEqual(asked.window)
    expect(nextRequest(again.state, -Infinity)).toBeNull()
  })

  it('asks candles twice, history three times and candles once more before a page counts as silent', () => {
    let state = stateOf([minutes(0, 100)])
    const operations: string[] = []
    for (let next = nextRequest(state, -Infinity); next !== null; next = nextRequest(state, -Infinity)) {
      operations.push(next.asked.request.operation)
      state = decide(next.state, next.asked, { openTimes: [], silence: [] }, -Infinity).state
    }
    expect(operations.map((name) => name[0])).toEqual(['c', 'c', 'h', 'h', 'h', 'c'])
    expect(state.silent).toMatchObject([minutes(0, 100)])
  })

  it('takes a page of which history has candles and candles has none for one beyond its reach', () => {
    const newer = ask(stateOf([minutes(0, 2_000)]))
    const empty = decide(newer.state, newer.asked, { openTimes: [], silence: [] }, -Infinity).state
    const twice = ask(empty)
    const silent = decide(twice.state, twice.asked, { openTimes: [], silence: [] }, -Infinity).state
    const history = ask(silent)
    expect(history.asked.request.operation).toBe('history-candles')
    const decision = decide(history.state, history.asked, every(history.asked.window), -Infinity)
    expect(decision.beyond).toBe(minutes(1_999, 2_000).from)
  })

  it('leaves a page without a candle, with older ones known, to longer questions', () => {
    let state = stateOf([minutes(0, 3_000)], { oldestKnown: base - minuteMs, anchor: base - minuteMs })
    let requests = 0
    for (let next = nextRequest(state, -Infinity); next !== null; next = nextRequest(state, -Infinity)) {
      requests++
      state = decide(next.state, next.asked, { openTimes: [], silence: [] }, -Infinity).state
    }
    expect(state.isSparse).toBe(true)
    expect(requests).toBeLessThan(10)
  })
})
