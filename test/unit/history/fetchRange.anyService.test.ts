import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { filledBy, withCandles } from '../../../src/market/candle.js'
import { intersect, normalized, subtract, type TimeRange, union } from '../../../src/market/timeRange.js'
import type { TimeMs } from '../../../src/market/values.js'
import { dayMs, fill, minuteMs, now, openings, plain, reachOf } from './fetchFromModel.js'
import type { Behaviour } from './pageModel.js'

const flags = {
  candlesStartInclusive: fc.boolean(),
  candlesEndExclusive: fc.boolean(),
  historyEndInclusive: fc.boolean(),
  limitCountsPlaces: fc.boolean(),
  isSilenceTold: fc.boolean(),
}
const lengths = fc.constantFrom(minuteMs, 5 * minuteMs, 3_600_000, dayMs)

/** A series, what is wanted of it, and a service that has it all but may hide some. Times count back from now, in candles. */
interface Case extends Pick<
  Behaviour,
  | 'lengthMs'
  | 'emptyAtFirst'
  | 'rowsAtMost'
  | 'candlesStartInclusive'
  | 'candlesEndExclusive'
  | 'historyEndInclusive'
  | 'limitCountsPlaces'
  | 'isSilenceTold'
> {
  /** The hour at which days open. */
  readonly anchor: number
  readonly count: number
  readonly age: number
  readonly reach: number
  /** Ends and sizes. */
  readonly wanted: readonly (readonly [number, number])[]
  readonly hiddenFromBoth: readonly (readonly [number, number])[]
}

const arbitraryCase = fc
  .record<Case>({
    lengthMs: lengths,
    anchor: fc.integer({ min: 0, max: 23 }),
    count: fc.integer({ min: 0, max: 2500 }),
    age: fc.integer({ min: 0, max: 3000 }),
    reach: fc.integer({ min: 0, max: 5000 }),
    wanted: fc.array(fc.tuple(fc.integer({ min: 1, max: 3000 }), fc.integer({ min: 1, max: 2500 })), {
      minLength: 1,
      maxLength: 3,
    }),
    hiddenFromBoth: fc.array(fc.tuple(fc.integer({ min: 0, max: 5000 }), fc.integer({ min: 1, max: 300 })), {
      maxLength: 3,
    }),
    emptyAtFirst: fc.integer({ min: 0, max: 2 }),
    rowsAtMost: fc.constantFrom(Infinity, Infinity, 70),
    ...flags,
  })
  .map(built)

function built({ lengthMs, anchor, count, age, reach, wanted, hiddenFromBoth, ...rest }: Case) {
  const grid = Math.floor(now / dayMs) * dayMs - (lengthMs === dayMs ? anchor * 3_600_000 : 0)
  const last = grid - age * lengthMs
  const at = (candlesBack: number) => grid - candlesBack * lengthMs
  // A service that both cuts pages short and hides what stands at their end cannot be told from one that has no more.
  const hiding = rest.rowsAtMost === Infinity ? hiddenFromBoth : []
  const hidden = normalized(hiding.map(([back, size]) => ({ from: at(back + size), to: at(back) })))
  const isHidden = (time: TimeMs) => hidden.some(({ from, to }) => time >= from && time < to)
  const truth = openings(last - count * lengthMs, last, lengthMs)
  const behaviour: Behaviour = {
    ...plain,
    ...rest,
    lengthMs,
    truth,
    reachedFrom: at(reach),
    hidden: (_operation, time) => isHidden(time),
  }
  const ranges = normalized(wanted.map(([back, size]) => ({ from: at(back + size), to: at(back) })))
  return { behaviour, wanted: ranges, served: truth.filter((time) => !isHidden(time)) }
}

/** Whole pages without a candle above the only one that is served: the places of a page were counted, not its candles. */
const oneBelowSilence: Case = {
  lengthMs: minuteMs,
  anchor: 0,
  count: 101,
  age: 2992,
  reach: 0,
  wanted: [[2266, 827]],
  hiddenFromBoth: [[2992, 100]],
  emptyAtFirst: 0,
  rowsAtMost: Infinity,
  candlesStartInclusive: false,
  candlesEndExclusive: false,
  historyEndInclusive: false,
  limitCountsPlaces: true,
  isSilenceTold: false,
}
const oneBelowLessSilence: Case = { ...oneBelowSilence, age: 735, wanted: [[403, 433]], hiddenFromBoth: [[735, 100]] }

/** A whole silent page above candles that were seen already, by a service whose first response is empty. */
const knownBelowSilence: Case = {
  ...oneBelowSilence,
  count: 1002,
  age: 1768,
  reach: 2770,
  wanted: [
    [1771, 999],
    [769, 1],
  ],
  hiddenFromBoth: [],
  emptyAtFirst: 1,
  limitCountsPlaces: false,
}

/** `candles` ends above a silence that is as long as a page of the other operation, and dense candles lie below. */
const denseBelowSilence: Case = {
  ...oneBelowSilence,
  count: 1001,
  age: 2190,
  reach: 2191,
  wanted: [
    [1651, 1540],
    [1191, 1],
  ],
  hiddenFromBoth: [[2191, 99]],
}

/** As long a silence where `candles` is not known to end, so that it is asked across ten times as much. */
const denseBelowUnknownReach: Case = {
  ...oneBelowSilence,
  count: 1002,
  age: 1040,
  reach: 1041,
  wanted: [
    [621, 1421],
    [41, 1],
  ],
  hiddenFromBoth: [[1041, 100]],
}

/** Page after page of days is silent only because it was asked for once. */
const silentAtFirst: Case = {
  ...oneBelowSilence,
  lengthMs: dayMs,
  count: 1226,
  age: 1521,
  reach: 1746,
  wanted: [
    [854, 1982],
    [746, 1],
  ],
  hiddenFromBoth: [[2124, 100]],
  emptyAtFirst: 1,
}

/**
 * Two silences, each longer than a page of days. The page below the floor has its candle when it is asked for the second
 * time, and the page above it was not asked for before.
 */
const askedBelowFloor: Case = {
  ...silentAtFirst,
  count: 284,
  age: 2685,
  reach: 0,
  wanted: [[1357, 1611]],
  hiddenFromBoth: [
    [2868, 99],
    [2776, 91],
  ],
}

/** What may be claimed to be without a trade: what lies between two neighbours of one response. */
function silenceOf({ lengthMs, isSilenceTold }: Behaviour, answers: readonly (readonly TimeMs[])[]): TimeRange[] {
  const pairs = answers.flatMap((answer) => {
    const sorted = answer.toSorted((a, b) => a - b)
    return sorted.slice(1).map((to, index) => ({ from: (sorted[index] as TimeMs) + lengthMs, to }))
  })
  return isSilenceTold ? normalized(pairs) : []
}

/** Responses come in any order. */
const arbitraryDelays = fc.infiniteStream(fc.integer({ min: 0, max: 12 }))

function noDelays() {
  function* zeros(): Generator<number, never> {
    for (;;) yield 0
  }
  return fc.stream(zeros())
}

describe('filling any range from any service', () => {
  it('forgets nothing, claims nothing that was not served, and gets all that is served', async () => {
    await fc.assert(
      fc.asyncProperty(arbitraryCase, arbitraryDelays, async ({ behaviour, wanted, served }, delays) => {
        const floor = wanted[0]?.from ?? 0
        const delay = () => delays.next().value as number
        const { received, answers, outcome } = await fill(behaviour, wanted, floor, reachOf(null), delay)
        const { lengthMs } = behaviour
        const silence = silenceOf(behaviour, answers)
        const claimed = filledBy(received, lengthMs)
        // What is claimed is candle by candle what was received.
        const claimedTimes = claimed.flatMap(({ from, to }) => openings(from, to, lengthMs))
        expect(claimedTimes).toEqual([...received].toSorted((a, b) => a - b))
        expect(claimed.every(({ from, to }) => (to - from) % lengthMs === 0)).toBe(true)
        // What is said to be empty holds no candle that the service ever serves.
        expect(intersect(outcome.empty, filledBy(served, lengthMs))).toEqual([])
        // Whatever is wanted is received, proven empty, or named as open.
        const accounted = union(union(union(claimed, silence), outcome.empty), outcome.silent)
        const grid = { lengthMs, anchor: outcome.anchor }
        expect(withCandles(grid, subtract(wanted, accounted))).toEqual([])
        // What is served is received; a service that is wrong in too many ways at once may exhaust the attempts.
        if (behaviour.emptyAtFirst > 0 && (behaviour.rowsAtMost < 100 || behaviour.historyEndInclusive)) return
        const missed = served.filter(
          (time) => wanted.some(({ from, to }) => time >= from && time < to) && !received.has(time),
        )
        expect(missed).toEqual([])
      }),
      {
        numRuns: 200,
        examples: [
          [built(oneBelowSilence), noDelays()],
          [built(oneBelowLessSilence), noDelays()],
          [built({ ...oneBelowSilence, emptyAtFirst: 2 }), noDelays()],
          [built(knownBelowSilence), noDelays()],
          [built(denseBelowSilence), noDelays()],
          [built({ ...denseBelowSilence, hiddenFromBoth: [[2191, 100]] }), noDelays()],
          [built(denseBelowUnknownReach), noDelays()],
          [built(silentAtFirst), noDelays()],
          [built(askedBelowFloor), noDelays()],
        ],
      },
    )
  })

  it('ends, and accounts for everything, when answers are arbitrary', async () => {
    await fc.assert(
      fc.asyncProperty(
        arbitraryCase,
        fc.infiniteStream(fc.integer({ min: 0, max: 99 })),
        async ({ behaviour, wanted }, chance) => {
          const random = () => (chance.next().value as number) / 100
          const capricious = { ...behaviour, hidden: () => random() < 0.4 }
          const { received, answers, outcome, requests } = await fill(capricious, wanted, wanted[0]?.from ?? 0)
          const claimed = union(filledBy(received, behaviour.lengthMs), silenceOf(behaviour, answers))
          const accounted = union(union(claimed, outcome.empty), outcome.silent)
          const grid = { lengthMs: behaviour.lengthMs, anchor: outcome.anchor }
          expect(withCandles(grid, subtract(wanted, accounted))).toEqual([])
          expect(requests.length).toBeLessThan(40_000)
        },
      ),
      { numRuns: 20 },
    )
  })
})
