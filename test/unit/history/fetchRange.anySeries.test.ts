import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { filledBy, silenceBetween, withCandles } from '../../../src/market/candle.js'
import { intersect, normalized, subtract, union } from '../../../src/market/timeRange.js'
import type { TimeMs } from '../../../src/market/values.js'
import { dayMs, fill, minuteMs, now, plain, reachOf } from './fetchFromModel.js'
import type { Behaviour } from './pageModel.js'

/** Times count back from now, in candles. */
interface Case extends Pick<
  Behaviour,
  | 'lengthMs'
  | 'emptyAtFirst'
  | 'rowsAtMost'
  | 'historyHoldsRecent'
  | 'candlesStartInclusive'
  | 'candlesEndExclusive'
  | 'historyEndInclusive'
  | 'limitCountsPlaces'
  | 'isSilenceTold'
> {
  /** Stretches of so many candles so far apart, the newest first. */
  readonly stretches: readonly { readonly step: number; readonly count: number }[]
  readonly age: number
  /** How far `candles` reaches, and what is believed of it beforehand: a share of it. */
  readonly reach: number
  readonly reachKnown: 'nothing' | 'exactly' | number
  /** From so many candles before the oldest one until now, or ends and sizes. */
  readonly wanted: number | readonly (readonly [number, number])[]
  /** Which candle is stored already, as a share of those there are; null for none. */
  readonly stored: number | null
  readonly isSparse: boolean
  readonly isAskedBefore: boolean
}

const stretch = (step: fc.Arbitrary<number>, most: number) =>
  fc.record({ step, count: fc.integer({ min: 1, max: most }) })

const arbitraryCase = fc
  .record<Case>({
    lengthMs: fc.constantFrom(minuteMs, minuteMs, 3_600_000, dayMs),
    stretches: fc.array(
      fc.oneof(
        stretch(fc.constant(1), 1500),
        stretch(fc.integer({ min: 2, max: 60 }), 300),
        stretch(fc.integer({ min: 60, max: 3000 }), 6),
      ),
      { maxLength: 4 },
    ),
    age: fc.oneof(fc.integer({ min: 0, max: 20 }), fc.integer({ min: 0, max: 3000 })),
    reach: fc.oneof(fc.integer({ min: 0, max: 6000 }), fc.integer({ min: 0, max: 20_000 })),
    reachKnown: fc.oneof(
      fc.constantFrom('nothing' as const, 'exactly' as const),
      fc.double({ min: 0.01, max: 2, noNaN: true }),
    ),
    wanted: fc.oneof(
      fc.integer({ min: 0, max: 5 }),
      fc.integer({ min: 0, max: 12_000 }),
      fc.array(fc.tuple(fc.integer({ min: 1, max: 6000 }), fc.integer({ min: 1, max: 2500 })), {
        minLength: 1,
        maxLength: 3,
      }),
    ),
    stored: fc.constantFrom(null, null, 0, 0.5, 1),
    isSparse: fc.boolean(),
    isAskedBefore: fc.constantFrom(false, false, true),
    emptyAtFirst: fc.constantFrom(0, 0, 1, 2),
    rowsAtMost: fc.constantFrom(Infinity, Infinity, 70),
    historyHoldsRecent: fc.boolean(),
    candlesStartInclusive: fc.boolean(),
    candlesEndExclusive: fc.boolean(),
    historyEndInclusive: fc.boolean(),
    limitCountsPlaces: fc.boolean(),
    isSilenceTold: fc.boolean(),
  })
  .map(built)

function built({ stretches, age, reach, reachKnown, wanted, stored, isSparse, isAskedBefore, ...rest }: Case) {
  const { lengthMs } = rest
  const grid = Math.floor(now / dayMs) * dayMs
  const at = (candlesBack: number) => grid - candlesBack * lengthMs
  const truth: TimeMs[] = []
  let time = at(age)
  for (const { step, count } of stretches) {
    for (let i = 0; i < count; i++) truth.push((time -= step * lengthMs))
  }
  truth.reverse()
  const behaviour: Behaviour = { ...plain, ...rest, truth, reachedFrom: at(reach) }
  const ranges =
    typeof wanted === 'number'
      ? [{ from: (truth[0] ?? at(age)) - (wanted + 1) * lengthMs, to: grid }]
      : normalized(wanted.map(([back, size]) => ({ from: at(back + size), to: at(back) })))
  const oldestKnown = stored === null ? null : (truth[Math.round(stored * (truth.length - 1))] ?? null)
  const task = { oldestKnown, isSparse, isAskedBefore }
  return { behaviour, wanted: ranges, task, book: reachOf(knownReach(now - at(reach), reachKnown, lengthMs)) }
}

/** Exactly, or wrong either way. */
function knownReach(reachMs: number, known: Case['reachKnown'], lengthMs: number): number | null {
  if (known === 'nothing') return null
  return known === 'exactly' ? reachMs + lengthMs : Math.floor(reachMs * known)
}

/** Few candles far apart, which only `candles` has, from a service whose first response is empty. */
const recentInOneOperation: Case = {
  lengthMs: minuteMs,
  stretches: [{ step: 2500, count: 3 }],
  age: -2496,
  reach: 20_000,
  reachKnown: 0.3333,
  wanted: 1,
  stored: null,
  isSparse: true,
  isAskedBefore: false,
  emptyAtFirst: 1,
  rowsAtMost: Infinity,
  historyHoldsRecent: false,
  candlesStartInclusive: false,
  candlesEndExclusive: false,
  historyEndInclusive: false,
  limitCountsPlaces: true,
  isSilenceTold: true,
}

/** A long question shows older candles at its third time, and a shorter one shows none below a silence that is known. */
const olderAtTheThirdTime: Case = {
  ...recentInOneOperation,
  stretches: [
    { step: 1317, count: 5 },
    { step: 2160, count: 4 },
    { step: 7, count: 202 },
  ],
  age: 4,
  reach: 17_297,
  reachKnown: 'nothing',
  wanted: [
    [5152, 822],
    [598, 18],
    [4482, 2163],
  ],
  isSparse: false,
  emptyAtFirst: 2,
  rowsAtMost: 70,
  historyHoldsRecent: true,
  candlesStartInclusive: true,
  limitCountsPlaces: false,
}

describe('filling a range of any series, however much is known beforehand', () => {
  it('ends, calls nothing empty that is served, and accounts for everything', async () => {
    await fc.assert(
      fc.asyncProperty(arbitraryCase, async ({ behaviour, wanted, task, book }) => {
        const { lengthMs, truth, isSilenceTold } = behaviour
        const floor = wanted[0]?.from ?? 0
        const { received, answers, outcome } = await fill(behaviour, wanted, floor, book, () => 0, task)
        expect(intersect(outcome.empty, filledBy(truth, lengthMs))).toEqual([])
        const response = { type: 'market', lengthMs, isComplete: true, settledUntil: Infinity } as const
        const between = isSilenceTold ? normalized(answers.flatMap((answer) => silenceBetween(answer, response))) : []
        const accounted = union(union(filledBy(received, lengthMs), between), union(outcome.empty, outcome.silent))
        const grid = { lengthMs, anchor: outcome.anchor }
        expect(withCandles(grid, subtract(wanted, accounted))).toEqual([])
      }),
      { numRuns: 200, examples: [[built(recentInOneOperation)], [built(olderAtTheThirdTime)]] },
    )
  })
})
