import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { fillRange } from '../../../../src/collect/backfill/fillRange.js'
import { filledBy, withCandles } from '../../../../src/collect/backfill/grid.js'
import { Conventions } from '../../../../src/collect/backfill/pageRequest.js'
import { intersect, normalized, subtract, union } from '../../../../src/collect/backfill/ranges.js'
import { ReachBook } from '../../../../src/collect/backfill/reach.js'
import type { TimeRange } from '../../../../src/market/timeRange.js'
import type { TimeMs } from '../../../../src/market/values.js'
import { type Behaviour, pageModel } from './pageModel.js'

const minuteMs = 60_000
const dayMs = 86_400_000
const now = Date.UTC(2026, 0, 1)

const plain: Omit<Behaviour, 'truth' | 'lengthMs'> = {
  reachedFrom: now - 30 * dayMs,
  candlesStartInclusive: false,
  candlesEndExclusive: false,
  historyEndInclusive: false,
  historyHoldsRecent: true,
  hidden: () => false,
  emptyAtFirst: 0,
  rowsAtMost: Number.POSITIVE_INFINITY,
  limitCountsPlaces: true,
  isSilenceTold: true,
}

function openings(from: TimeMs, to: TimeMs, lengthMs: number): TimeMs[] {
  return Array.from({ length: Math.max(0, Math.ceil((to - from) / lengthMs)) }, (_, i) => from + i * lengthMs)
}

async function fill(
  behaviour: Behaviour,
  wanted: readonly TimeRange[],
  floor: TimeMs,
  book = reachBook(),
  delay: () => number = () => 0,
) {
  const model = pageModel(behaviour, new Conventions(), delay)
  const outcome = await fillRange(
    { lengthMs: behaviour.lengthMs, wanted, floor, anchor: null, oldestKnown: null, isSparse: false, maxInFlight: 4 },
    {
      ask: (request) => model.ask(request),
      now: () => now,
      sleep: () => Promise.resolve(),
      reach: {
        get: () => book.get('series'),
        observe: (seen) => book.observe('series', seen),
        learn: (isNeeded, explore) => book.learn('series', isNeeded, explore),
      },
    },
  )
  return { ...model, outcome, book }
}

function reachBook(): ReachBook {
  return new ReachBook({ load: () => Promise.resolve(null), save: () => Promise.resolve() })
}

function minutes(days: number): Behaviour {
  return { ...plain, lengthMs: minuteMs, truth: openings(now - days * dayMs, now, minuteMs) }
}

describe('filling a range of candles', () => {
  it('gets every candle with hardly more requests than pages', async () => {
    const behaviour = minutes(120)
    const range = { from: now - 120 * dayMs, to: now }
    const { received, requests, outcome } = await fill(behaviour, [range], range.from)
    expect(received.size).toBe(behaviour.truth.length)
    expect(outcome).toMatchObject({ empty: [], unresolved: [] })
    const least = Math.ceil((30 * 1440) / 1000) + Math.ceil((90 * 1440) / 100)
    expect(requests.length).toBeLessThanOrEqual(least * 1.01)
  })

  it('learns that ends are inclusive instead of losing a candle of each page', async () => {
    const behaviour = { ...minutes(60), historyEndInclusive: true }
    const range = { from: now - 60 * dayMs, to: now }
    const { received, requests } = await fill(behaviour, [range], range.from)
    expect(received.size).toBeGreaterThanOrEqual(behaviour.truth.length)
    const least = Math.ceil((30 * 1440) / 1000) + Math.ceil((30 * 1440) / 100)
    expect(requests.length).toBeLessThanOrEqual(least * 1.02)
  })

  it('does not try candles again where others of its kind have shown that it does not reach', async () => {
    const { book } = await fill(minutes(40), [{ from: now - 40 * dayMs, to: now }], now - 40 * dayMs)
    const again = await fill(minutes(40), [{ from: now - 40 * dayMs, to: now - 30 * dayMs }], now - 40 * dayMs, book)
    expect(again.requests.filter(({ operation }) => operation === 'candles')).toEqual([])
    expect(again.received.size).toBe(10 * 1440)
  })

  it('finds the reach of long intervals too, and days that open at 16:00', async () => {
    const first = now - 1000 * dayMs - 8 * 3_600_000
    const truth = openings(first, now - dayMs, dayMs)
    const behaviour = { ...plain, lengthMs: dayMs, truth, reachedFrom: now - 400 * dayMs }
    const wanted = { from: now - 1000 * dayMs, to: now - dayMs }
    const { received, outcome } = await fill(behaviour, [wanted], wanted.from)
    expect(outcome.unresolved).toEqual([])
    expect(truth.filter((time) => time >= wanted.from && !received.has(time))).toEqual([])
  })

  it('confirms that a series begins where its candles begin', async () => {
    const behaviour = minutes(35)
    const floor = now - 300 * dayMs
    const { outcome, requests } = await fill(behaviour, [{ from: floor, to: now }], floor)
    expect(outcome).toMatchObject({ empty: [{ from: floor, to: behaviour.truth[0] }], unresolved: [] })
    expect(requests.length).toBeLessThan(44 + 72 + 50)
  })

  it('claims no emptiness where the service answers nothing at all', async () => {
    const range = { from: now - 2 * dayMs, to: now }
    const { outcome } = await fill({ ...minutes(0), truth: [] }, [range], range.from)
    expect(outcome).toMatchObject({ empty: [], unresolved: [range] })
  })

  it('names a hole that it learns to be one only when an older answer comes late', async () => {
    const range = { from: now - 400 * minuteMs, to: now }
    const hole = { from: now - 200 * minuteMs, to: now - 100 * minuteMs }
    const behaviour = {
      ...minutes(1),
      reachedFrom: now,
      hidden: (_operation: string, time: TimeMs) => time >= hole.from && time < hole.to,
    }
    const book = reachBook()
    await book.observe('series', { reachedMs: 0, beyondMs: 0 })
    let asked = 0
    const { outcome } = await fill(behaviour, [range], range.from, book, () => (++asked === 3 ? 200 : 0))
    expect(outcome).toMatchObject({ empty: [], unresolved: [hole] })
  })

  it('takes no hole at the lower end of what is wanted for the beginning of the series', async () => {
    const range = { from: now - 2 * dayMs, to: now }
    const hole = { from: range.from, to: range.from + 300 * minuteMs }
    const hidden = (_operation: string, time: TimeMs) => time >= hole.from && time < hole.to
    const { outcome } = await fill({ ...minutes(4), hidden }, [range], range.from)
    expect(outcome).toMatchObject({ empty: [], unresolved: [hole] })
  })

  it('asks for a hole again by both operations, and leaves it open when it stays', async () => {
    const hole = { from: now - 3 * dayMs, to: now - 3 * dayMs + 50 * minuteMs }
    const isIn = (time: TimeMs) => time >= hole.from && time < hole.to
    const range = { from: now - 4 * dayMs, to: now }
    const hiddenFromOne = {
      ...minutes(4),
      isSilenceTold: false,
      hidden: (operation: string, time: TimeMs) => operation === 'candles' && isIn(time),
    }
    const one = await fill(hiddenFromOne, [range], range.from)
    expect(one.outcome).toMatchObject({ empty: [], unresolved: [] })
    expect(one.received.size).toBe(4 * 1440)
    const silent = { ...minutes(4), isSilenceTold: false, hidden: (_operation: string, time: TimeMs) => isIn(time) }
    const both = await fill(silent, [range], range.from)
    expect(both.outcome).toMatchObject({ empty: [], unresolved: [hole] })
    expect(both.received.size).toBe(4 * 1440 - 50)
  })

  it('does not take an operation that is empty at first for one that does not reach', async () => {
    const behaviour = { ...minutes(20), emptyAtFirst: 1 }
    const range = { from: now - 20 * dayMs, to: now }
    const { received, requests } = await fill(behaviour, [range], range.from)
    expect(received.size).toBe(20 * 1440)
    expect(requests.length).toBeLessThan(90)
  })
})

describe('when a request fails for good', () => {
  it('the filling fails with its error, whatever else is under way', async () => {
    let requests = 0
    const ask = async ({ window }: { readonly window: TimeRange }) => {
      requests++
      if (requests > 20) throw new Error(`request ${requests} failed`)
      return { openTimes: openings(window.from, window.to, minuteMs), silence: [] }
    }
    const reach = { get: () => ({ reachedMs: 0, beyondMs: 0 }), observe: async () => {}, learn: async () => {} }
    const range = { from: now - 50 * dayMs, to: now }
    const task = {
      lengthMs: minuteMs,
      wanted: [range],
      floor: range.from,
      anchor: now,
      oldestKnown: null,
      isSparse: false,
      maxInFlight: 8,
    }
    const context = { ask, now: () => now, sleep: () => Promise.resolve(), reach }
    await expect(fillRange(task, context)).rejects.toThrow(/request \d+ failed/)
    expect(requests).toBeLessThan(40)
  })
})

const flags = {
  candlesStartInclusive: fc.boolean(),
  candlesEndExclusive: fc.boolean(),
  historyEndInclusive: fc.boolean(),
  limitCountsPlaces: fc.boolean(),
  isSilenceTold: fc.boolean(),
}
const lengths = fc.constantFrom(minuteMs, 5 * minuteMs, 3_600_000, dayMs)

/** A series, what is wanted of it, and a service that has it all but may hide some. */
const arbitraryCase = fc
  .record({
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
  .map(({ lengthMs, anchor, count, age, reach, wanted, hiddenFromBoth, ...rest }) => {
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
  })

/** What may be claimed to be without a trade: what lies between two neighbours of one answer. */
function silenceOf({ lengthMs, isSilenceTold }: Behaviour, answers: readonly (readonly TimeMs[])[]): TimeRange[] {
  const pairs = answers.flatMap((answer) => {
    const sorted = answer.toSorted((a, b) => a - b)
    return sorted.slice(1).map((to, index) => ({ from: (sorted[index] as TimeMs) + lengthMs, to }))
  })
  return isSilenceTold ? normalized(pairs) : []
}

/** Answers come in any order. */
const arbitraryDelays = fc.infiniteStream(fc.integer({ min: 0, max: 12 }))

describe('filling any range from any service', () => {
  it('forgets nothing, claims nothing that was not served, and gets all that is served', async () => {
    await fc.assert(
      fc.asyncProperty(arbitraryCase, arbitraryDelays, async ({ behaviour, wanted, served }, delays) => {
        const floor = wanted[0]?.from ?? 0
        const delay = () => delays.next().value as number
        const { received, answers, outcome } = await fill(behaviour, wanted, floor, reachBook(), delay)
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
        const accounted = union(union(union(claimed, silence), outcome.empty), outcome.unresolved)
        const grid = { lengthMs, anchor: outcome.anchor }
        expect(withCandles(grid, subtract(wanted, accounted))).toEqual([])
        // What is served is received; a service that is wrong in too many ways at once may exhaust the attempts.
        if (behaviour.emptyAtFirst > 0 && (behaviour.rowsAtMost < 100 || behaviour.historyEndInclusive)) return
        const missed = served.filter(
          (time) => wanted.some(({ from, to }) => time >= from && time < to) && !received.has(time),
        )
        expect(missed).toEqual([])
      }),
      { numRuns: 150 },
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
          const accounted = union(union(claimed, outcome.empty), outcome.unresolved)
          const grid = { lengthMs: behaviour.lengthMs, anchor: outcome.anchor }
          expect(withCandles(grid, subtract(wanted, accounted))).toEqual([])
          expect(requests.length).toBeLessThan(40_000)
        },
      ),
      { numRuns: 20 },
    )
  })
})
