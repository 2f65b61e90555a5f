import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { fetchRange } from '../../../src/history/fetchRange.js'
import { filledBy, silenceBetween } from '../../../src/market/candle.js'
import { intersect, normalized, subtract, type TimeRange, totalMs, union } from '../../../src/market/timeRange.js'
import type { TimeMs } from '../../../src/market/values.js'
import { dayMs, minuteMs, now, plain, reachOf } from './fetchFromModel.js'
import { type Behaviour, pageModel } from './pageModel.js'

function service(truth: readonly TimeMs[], more: Partial<Behaviour> = {}): Behaviour {
  return { ...plain, limitCountsPlaces: false, truth, lengthMs: minuteMs, ...more }
}

async function fill(behaviour: Behaviour, wanted: TimeRange, isSparse = false) {
  const model = pageModel(behaviour, () => 0)
  const book = reachOf(null)
  const { lengthMs } = behaviour
  const outcome = await fetchRange(
    {
      lengthMs,
      wanted: [wanted],
      floor: wanted.from,
      oldestKnown: null,
      isSparse,
      isAskedBefore: false,
    },
    {
      ask: (request) => model.ask(request),
      now: () => now,
      sleep: () => Promise.resolve(),
      reach: book,
    },
  )
  const response = { type: 'market', lengthMs, isComplete: true, settledUntil: Infinity } as const
  const silence = normalized(model.answers.flatMap((answer) => silenceBetween(answer, response)))
  const known = union(filledBy(model.received, lengthMs), silence)
  return { ...model, outcome, silence, known }
}

/** Every `step`-th minute of the hours from 14:30 to 21:00 UTC of weekdays: how a stock trades abroad. */
function tradingHours(days: number, step: number): TimeMs[] {
  const truth: TimeMs[] = []
  for (let time = now - days * dayMs; time < now; time += step * minuteMs) {
    const minuteOfDay = (time % dayMs) / minuteMs
    const weekday = new Date(time).getUTCDay()
    if (weekday % 6 !== 0 && minuteOfDay >= 870 && minuteOfDay < 1260) truth.push(time)
  }
  return truth
}

describe('a series that leaves out intervals without a trade', () => {
  it('is known in full after as many requests as its candles need, from a service that counts candles', async () => {
    const truth = tradingHours(60, 2)
    const range = { from: truth[0] ?? 0, to: (truth.at(-1) ?? 0) + minuteMs }
    const { received, known, requests, outcome } = await fill(service(truth), range)
    expect(received.size).toBe(truth.length)
    expect(subtract([range], known)).toEqual([])
    expect(outcome).toMatchObject({ empty: [], silent: [] })
    const recent = truth.filter((time) => time >= now - 30 * dayMs).length
    const least = Math.ceil(recent / 1000) + Math.ceil((truth.length - recent) / 100)
    expect(requests.length).toBeLessThanOrEqual(least * 1.2 + 12)
  })

  it('is known but for silences longer than an answer, from a service that counts places', async () => {
    const truth = tradingHours(25, 3)
    const range = { from: truth[0] ?? 0, to: (truth.at(-1) ?? 0) + minuteMs }
    const { received, known, outcome, requests } = await fill(service(truth, { limitCountsPlaces: true }), range)
    expect(received.size).toBe(truth.length)
    const open = subtract([range], known)
    expect(open.every(({ from, to }) => to - from >= 997 * minuteMs)).toBe(true)
    expect(outcome.silent).toEqual(open)
    expect(requests.length).toBeLessThan(120)
  })

  it('leaves the time after its newest candle open, and says so', async () => {
    const truth = tradingHours(10, 5)
    const last = (truth.at(-1) ?? 0) + minuteMs
    const range = { from: truth[0] ?? 0, to: now }
    const { known, outcome } = await fill(service(truth, { reachedFrom: 0 }), range, true)
    expect(subtract([range], known)).toEqual([{ from: last, to: now }])
    expect(outcome.silent).toEqual([{ from: last, to: now }])
  })

  it('is asked for again by the other operation where an answer has a row that cannot be understood', async () => {
    const truth = tradingHours(5, 2)
    const range = { from: truth[0] ?? 0, to: (truth.at(-1) ?? 0) + minuteMs }
    const dropped = truth[500] ?? 0
    const behaviour = service(truth, { hidden: (operation, time) => operation === 'candles' && time === dropped })
    const broken = pageModel(behaviour, () => 0)
    const asked: string[] = []
    const outcome = await fetchRange(
      {
        lengthMs: minuteMs,
        wanted: [range],
        floor: range.from,
        oldestKnown: null,
        isSparse: true,
        isAskedBefore: false,
      },
      {
        ask: async (request) => {
          const answer = await broken.ask(request)
          asked.push(request.operation)
          return request.operation === 'candles' ? { ...answer, silence: [] } : answer
        },
        now: () => now,
        sleep: () => Promise.resolve(),
        reach: reachOf(null),
      },
    )
    expect(broken.received.has(dropped)).toBe(true)
    expect(outcome.silent).toEqual([])
    expect(asked).toContain('history-candles')
  })
})

interface Series extends Pick<
  Behaviour,
  'limitCountsPlaces' | 'candlesStartInclusive' | 'candlesEndExclusive' | 'historyEndInclusive'
> {
  /** Minutes from each candle to the one before, the newest first. */
  readonly spacings: readonly number[]
  /** Minutes since the newest candle, before the oldest one, and that `candles` reaches back. */
  readonly age: number
  readonly before: number
  readonly reach: number
  readonly isSparse: boolean
  /** Of the candles that exist, never given. */
  readonly hiddenShare: number
}

const arbitrarySeries = fc
  .record<Series>({
    spacings: fc.array(fc.oneof(fc.integer({ min: 1, max: 4 }), fc.integer({ min: 1, max: 400 }), fc.constant(2500)), {
      minLength: 1,
      maxLength: 700,
    }),
    age: fc.integer({ min: 0, max: 3000 }),
    before: fc.integer({ min: 0, max: 2000 }),
    reach: fc.integer({ min: 0, max: 40_000 }),
    limitCountsPlaces: fc.boolean(),
    candlesStartInclusive: fc.boolean(),
    candlesEndExclusive: fc.boolean(),
    historyEndInclusive: fc.boolean(),
    isSparse: fc.boolean(),
    hiddenShare: fc.constantFrom(0, 0, 0.2),
  })
  .map(built)

function built({ spacings, age, before, reach, isSparse, hiddenShare, ...flags }: Series) {
  const truth: TimeMs[] = []
  let time = now - age * minuteMs
  for (const spacing of spacings) truth.unshift((time -= spacing * minuteMs))
  const hidden = (_operation: string, openTime: TimeMs) => (openTime / minuteMs) % 10 < hiddenShare * 10
  const served = truth.filter((openTime) => !hidden('', openTime))
  const range = { from: (truth[0] ?? 0) - before * minuteMs, to: now }
  return {
    behaviour: service(truth, { ...flags, reachedFrom: now - reach * minuteMs, hidden }),
    served,
    range,
    isSparse,
  }
}

/** A page below the newest candle looks as if candles were counted, and a sample of the pages below it is silent. */
const farApart: Series = {
  spacings: [1, 165, 2500, 2500, 2, 2500],
  age: 223,
  before: 99,
  reach: 0,
  limitCountsPlaces: true,
  candlesStartInclusive: false,
  candlesEndExclusive: false,
  historyEndInclusive: false,
  isSparse: true,
  hiddenShare: 0.2,
}

/** Just as many intervals as a page has rows lie between the newest candle and the one before. */
const pageApart: Series = {
  ...farApart,
  spacings: [1, 100, 2500],
  age: 0,
  before: 0,
  reach: 1,
  limitCountsPlaces: false,
  isSparse: false,
  hiddenShare: 0,
}

describe('whatever a sparse series looks like', () => {
  it('claims nothing but candles that came and silence between two of one response, and accounts for the rest', async () => {
    await fc.assert(
      fc.asyncProperty(arbitrarySeries, async ({ behaviour, served, range, isSparse }) => {
        const { received, answers, silence, known, outcome } = await fill(behaviour, range, isSparse)
        // Each silent stretch lies between two neighbours of one response.
        for (const { from, to } of silence) {
          const isBetween = (answer: readonly TimeMs[]) =>
            answer.includes(from - minuteMs) && answer.includes(to) && !answer.some((time) => time >= from && time < to)
          expect(answers.some(isBetween) || received.has(from)).toBe(true)
        }
        // No candle that the service ever gives lies in it.
        expect(intersect(subtract(silence, filledBy(received, minuteMs)), filledBy(served, minuteMs))).toEqual([])
        expect(intersect(outcome.empty, filledBy(served, minuteMs))).toEqual([])
        const accounted = union(union(known, outcome.empty), outcome.silent)
        expect(subtract([range], accounted)).toEqual([])
        // What is given is got, and what one response can show is not left open.
        const inRange = served.filter((time) => time >= range.from)
        const missed = inRange.filter((time) => !received.has(time))
        expect(subtract(filledBy(missed, minuteMs), outcome.silent)).toEqual([])
        if (!behaviour.limitCountsPlaces && served.length > 0) {
          expect(missed).toEqual([])
          const last = Math.max(...served)
          const between = [{ from: Math.min(...served), to: last }]
          expect(totalMs(intersect(outcome.silent, between))).toBe(0)
        }
      }),
      { numRuns: 200, examples: [[built(farApart)], [built(pageApart)]] },
    )
  })
})

describe('a series without a word', () => {
  const ask = async (behaviour: Behaviour, task: Partial<Parameters<typeof fetchRange>[0]>, days: number) => {
    const model = pageModel(behaviour, () => 0)
    const wanted = { from: now - days * dayMs, to: now }
    const outcome = await fetchRange(
      {
        lengthMs: minuteMs,
        wanted: [wanted],
        floor: wanted.from,
        oldestKnown: null,
        isSparse: false,
        isAskedBefore: false,
        ...task,
      },
      {
        ask: (request) => model.ask(request),
        now: () => now,
        sleep: () => Promise.resolve(),
        reach: reachOf(30 * dayMs + minuteMs),
      },
    )
    return { ...model, outcome, wanted }
  }

  it('of an instrument that ended weeks ago costs a handful of requests, and all of the silence is looked at', async () => {
    const ended = now - 20 * dayMs
    const truth = Array.from({ length: 5_000 }, (_, i) => ended - (5_000 - i) * minuteMs)
    // The newest slice of what is missing since; the candles before are stored.
    const slice = { from: now - 2_000 * minuteMs, to: now }
    const known = { oldestKnown: truth[0] ?? 0, wanted: [slice] }
    const { requests, outcome } = await ask(service(truth), known, 30)
    expect(requests.length).toBeLessThan(20)
    expect(outcome).toMatchObject({ empty: [] })
    expect(subtract([{ from: ended, to: now }], outcome.silent)).toEqual([])
  })

  it('that was asked for before is asked for with a handful of requests, and all of it is looked at', async () => {
    for (const days of [2, 60, 1_000]) {
      const { requests, outcome, wanted } = await ask(service([]), { isAskedBefore: true }, days)
      expect(requests.length).toBeLessThan(20)
      expect(outcome).toMatchObject({ empty: [], silent: [wanted] })
    }
  })

  it('that has begun to trade since is got in full', async () => {
    const truth = tradingHours(5, 2)
    const { received } = await ask(service(truth), { isAskedBefore: true }, 10)
    expect(received.size).toBe(truth.length)
  })
})
