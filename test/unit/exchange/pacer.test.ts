import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Departure, Settlement } from '../../../src/exchange/departure.js'
import {
  type AcquireOptions,
  Pacer,
  type PacerOptions,
  type Priority,
  priorities,
} from '../../../src/exchange/pacer.js'
import { type Operation, operations } from '../../../src/market/operation.js'
import { createFakeClock, type FakeClock } from '../../support/fakeClock.js'
import { limitsOf } from '../../support/fakeService.js'

const answered: Settlement = { outcome: 'answered' }
const rejected: Settlement = { outcome: 'rate-limited' }

/** The highest number of arrivals in any half-open window of exactly `windowMs`. */
function highestCount(arrivalsMs: readonly number[], windowMs: number): number {
  const sorted = arrivalsMs.toSorted((a, b) => a - b)
  let highest = 0
  let first = 0
  for (const [index, arrival] of sorted.entries()) {
    while ((sorted[first] ?? 0) <= arrival - windowMs) first++
    highest = Math.max(highest, index - first + 1)
  }
  return highest
}

/** Repeatable pseudo-random numbers in [0, 1). */
function randomFrom(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}

function setUp(more: Partial<PacerOptions> = {}, clock: FakeClock = createFakeClock()) {
  const pacer = new Pacer({ limits: limitsOf(10, 6_000), latencyJitterMs: 0, clock, ...more })
  const departures: Departure[] = []
  const send = (operation: Operation, options?: AcquireOptions, settlement: Settlement | null = answered) =>
    pacer.acquire(operation, options).then((departure) => {
      departures.push(departure)
      if (settlement !== null) pacer.settle(departure, settlement)
      return departure
    })
  return { pacer, clock, departures, send }
}

describe('the limits', () => {
  const scenario = fc.record({
    seed: fc.integer(),
    limit: fc.integer({ min: 1, max: 25 }),
    overall: fc.integer({ min: 20, max: 400 }),
    jitterMs: fc.integer({ min: 0, max: 150 }),
    latenessMs: fc.integer({ min: 0, max: 40 }),
    bursts: fc.array(
      fc.record({ afterMs: fc.integer({ min: 0, max: 4_000 }), count: fc.integer({ min: 1, max: 60 }) }),
      { minLength: 1, maxLength: 8 },
    ),
  })

  it('are kept at the service in every strict window, whatever arrives when and however late timers and requests are', async () => {
    await fc.assert(
      fc.asyncProperty(scenario, async ({ seed, limit, overall, jitterMs, latenessMs, bursts }) => {
        const random = randomFrom(seed)
        const clock = createFakeClock(() => random() * (latenessMs + 1) - 1)
        const { departures, send } = setUp({ limits: limitsOf(limit, overall), latencyJitterMs: jitterMs }, clock)
        const pick = <T>(items: readonly T[]): T => items[Math.floor(random() * items.length)] as T
        for (const { afterMs, count } of bursts) {
          await clock.advance(afterMs)
          const favourite = pick(operations)
          for (let i = 0; i < count; i++)
            void send(random() < 0.5 ? favourite : pick(operations), { priority: pick(priorities) })
        }
        await clock.advance(100_000)
        const arrivals = departures.map(({ operation, atMs }) => ({ operation, atMs: atMs + random() * jitterMs }))
        for (const operation of operations) {
          const ofOperation = arrivals.filter((arrival) => arrival.operation === operation).map(({ atMs }) => atMs)
          expect(highestCount(ofOperation, 1_000)).toBeLessThanOrEqual(limit)
        }
        expect(
          highestCount(
            arrivals.map(({ atMs }) => atMs),
            60_000,
          ),
        ).toBeLessThanOrEqual(overall)
      }),
      { numRuns: 60 },
    )
  })

  it('are kept, too, when requests leave late: after a busy moment, or the handshakes of a new connection', async () => {
    await fc.assert(
      fc.asyncProperty(fc.integer(), fc.integer({ min: 1, max: 20 }), async (seed, limit) => {
        const random = randomFrom(seed)
        const clock = createFakeClock(() => random() * 4 - 1)
        const { pacer } = setUp({ limits: limitsOf(limit, 6_000), latencyJitterMs: 20 }, clock)
        const arrivals: number[] = []
        const send = async () => {
          const departure = await pacer.acquire('fills')
          clock.at(random() < 0.2 ? random() * 300 : 0, () => {
            arrivals.push(clock.monotonicMs() + random() * 20)
            pacer.sent(departure)
            pacer.settle(departure, answered)
          })
        }
        for (let i = 0; i < limit * 8; i++) void send()
        await clock.advance(12_000)
        expect(arrivals.length).toBeGreaterThan(limit * 7)
        expect(highestCount(arrivals, 1_000)).toBeLessThanOrEqual(limit)
      }),
      { numRuns: 40 },
    )
  })

  it('are kept, too, when some requests travel far longer than the jitter: their answers tell', async () => {
    await fc.assert(
      fc.asyncProperty(fc.integer(), fc.integer({ min: 2, max: 20 }), async (seed, limit) => {
        const random = randomFrom(seed)
        const clock = createFakeClock(() => random() * 4 - 1)
        const { pacer } = setUp({ limits: limitsOf(limit, 6_000), latencyJitterMs: 20 }, clock)
        const arrivals: number[] = []
        const send = async () => {
          const departure = await pacer.acquire('fills')
          pacer.sent(departure)
          const travelMs = 30 + random() * 20 + (random() < 0.1 ? random() * 400 : 0)
          clock.at(travelMs, () => void arrivals.push(clock.monotonicMs()))
          clock.at(travelMs + 30 + random() * 2, () => {
            pacer.answered(departure)
            pacer.settle(departure, answered)
          })
        }
        for (let i = 0; i < limit * 8; i++) void send()
        await clock.advance(14_000)
        expect(arrivals.length).toBeGreaterThan(limit * 7)
        expect(highestCount(arrivals, 1_000)).toBeLessThanOrEqual(limit)
      }),
      { numRuns: 40 },
    )
  })

  it('are kept when jitter is at its worst: the first of a window late, the last early', async () => {
    const jitterMs = 60
    const { clock, departures, send } = setUp({ limits: limitsOf(20), latencyJitterMs: jitterMs })
    for (let i = 0; i < 400; i++) void send('fills')
    await clock.advance(19_000)
    for (const start of departures.keys()) {
      const window = departures.slice(start).map(({ atMs }, index) => atMs + (index === 0 ? jitterMs : 0))
      expect(highestCount(window, 1_000)).toBeLessThanOrEqual(20)
    }
    expect(departures.length).toBeGreaterThan(300)
  })

  it('are kept together with a predecessor that was at full speed until this one began', async () => {
    const clock = createFakeClock()
    const before = setUp({ limits: limitsOf(10), latencyJitterMs: 50 }, clock)
    for (let i = 0; i < 100; i++) void before.send('fills', {}, answered)
    await clock.advance(3_333)
    const count = before.departures.length
    const after = setUp({ limits: limitsOf(10), latencyJitterMs: 50 }, clock)
    for (let i = 0; i < 100; i++) void after.send('fills')
    await clock.advance(3_000)
    const both = [...before.departures.slice(0, count), ...after.departures].map(({ atMs }) => atMs)
    expect(both.length).toBeGreaterThan(50)
    expect(highestCount(both, 1_050)).toBeLessThanOrEqual(10)
  })

  it.each(operations)('are used to 98 % of what is safe by %s alone', async (operation) => {
    const random = randomFrom(7)
    const jitterMs = 60
    const limit = operation === 'rpi-symbols' || operation === 'rpi-orderbook' ? 10 : 20
    // Real timers: up to a millisecond early or 3 late, now and then a busy machine.
    const clock = createFakeClock(() => (random() < 0.02 ? 60 : random() * 4 - 1))
    const { departures, send } = setUp({ limits: limitsOf(limit, 6_000), latencyJitterMs: jitterMs }, clock)
    await clock.advance(1_000)
    for (let i = 0; i < 1_000; i++) void send(operation)
    await clock.advance(40_000)
    expect(departures.length / 40).toBeGreaterThanOrEqual((0.98 * limit) / (1 + jitterMs / 1_000))
    expect(departures.length).toBeLessThan(1_000)
  })

  it('are used to 98 % of what is safe by all together', async () => {
    const random = randomFrom(8)
    const clock = createFakeClock(() => (random() < 0.02 ? 60 : random() * 4 - 1))
    const { departures, send } = setUp({ limits: limitsOf(20, 6_000), latencyJitterMs: 60 }, clock)
    for (let i = 0; i < 10_000; i++) void send(operations[i % operations.length] as Operation)
    await clock.advance(65_000)
    expect(departures.length / 65).toBeGreaterThanOrEqual((0.98 * 6_000) / 60.06)
  })

  it('leave even spaces, from the first request on', async () => {
    const { clock, departures, send } = setUp({ limits: limitsOf(10) })
    const start = clock.monotonicMs()
    for (let i = 0; i < 30; i++) void send('fills')
    await clock.advance(5_000)
    const times = [start, ...departures.map(({ atMs }) => atMs)]
    for (const [index, time] of times.slice(1).entries())
      expect(time - (times[index] as number)).toBeGreaterThanOrEqual(99)
  })

  it('are not spent in a burst after a quiet time', async () => {
    const { clock, departures, send } = setUp({ limits: limitsOf(10) })
    await clock.advance(60_000)
    for (let i = 0; i < 5; i++) void send('fills')
    await clock.advance(450)
    const [first = 0, ...others] = departures.map(({ atMs }) => atMs)
    expect(others.map((atMs) => Math.round((atMs - first) / 10))).toEqual([10, 20, 31, 41])
  })

  it('are not in the way of who asks seldom', async () => {
    const { clock, departures, send } = setUp()
    await clock.advance(10_000)
    const askedAt = clock.monotonicMs()
    void send('fills')
    await clock.advance(0)
    expect(departures.map(({ atMs }) => atMs)).toEqual([askedAt])
  })
})

describe('the order', () => {
  it('is live before repair before backfill', async () => {
    const { clock, departures, send, pacer } = setUp()
    const order: Priority[] = []
    for (const priority of ['backfill', 'repair', 'live', 'backfill', 'live', 'repair'] as const)
      void send('fills', { priority }).then(() => order.push(priority))
    expect(pacer.stats().waiting.backfill.count).toBe(2)
    await clock.advance(2_000)
    expect(departures).toHaveLength(6)
    expect(order).toEqual(['live', 'live', 'repair', 'repair', 'backfill', 'backfill'])
  })

  it('is by deadline within a class, and by arrival for equal deadlines', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.option(fc.integer({ min: 0, max: 5 })), { maxLength: 30 }), async (deadlines) => {
        const { clock, send } = setUp({ limits: limitsOf(20) })
        const order: number[] = []
        for (const [index, deadline] of deadlines.entries())
          void send('fills', deadline === null ? {} : { deadline }).then(() => order.push(index))
        await clock.advance(3_000)
        const expected = [...deadlines.keys()].toSorted((a, b) => (deadlines[a] ?? 99) - (deadlines[b] ?? 99) || a - b)
        expect(order).toEqual(expected)
      }),
      { numRuns: 30 },
    )
  })

  it('does not let an operation whose budget is used up hold back others, not even less urgent ones', async () => {
    const { clock, departures, send } = setUp({ limits: limitsOf(1) })
    for (let i = 0; i < 5; i++) void send('fills', { priority: 'live', deadline: 0 })
    void send('candles', { priority: 'backfill' })
    await clock.advance(1_500)
    expect(departures.map(({ operation }) => operation)).toEqual(['fills', 'candles'])
  })

  it('shows a starved class', async () => {
    const { clock, send, pacer } = setUp({ limits: limitsOf(1) })
    void send('fills', { priority: 'backfill' })
    for (let i = 0; i < 100; i++) void send('fills')
    await clock.advance(20_000)
    const { waiting, operations: used } = pacer.stats()
    expect(waiting.backfill).toEqual({ count: 1, oldestWaitMs: 20_000 })
    expect(waiting.live.count).toBeGreaterThan(70)
    expect(used.fills).toEqual({ used: 1, limit: 1 })
  })
})

describe('who gives up', () => {
  it('leaves the queue, and its place goes to the next', async () => {
    const { clock, departures, send, pacer } = setUp()
    const abort = new AbortController()
    const given = Array.from({ length: 50 }, () => send('fills', { signal: abort.signal, deadline: 0 }))
    const kept = send('fills', { deadline: 1 })
    abort.abort(new Error('enough'))
    for (const request of given) await expect(request).rejects.toThrow('enough')
    expect(pacer.stats().waiting.live.count).toBe(1)
    await clock.advance(500)
    expect(departures).toEqual([await kept])
  })

  it('leaves no timer behind', async () => {
    const { clock, send } = setUp()
    const abort = new AbortController()
    const request = send('fills', { signal: abort.signal })
    await clock.advance(1)
    expect(clock.pendingSleeps).toBe(1)
    abort.abort(new Error('enough'))
    await expect(request).rejects.toThrow('enough')
    expect(clock.pendingSleeps).toBe(0)
  })

  it('may be one of ten thousand', async () => {
    const warnings: Error[] = []
    const onWarning = (warning: Error) => warnings.push(warning)
    process.on('warning', onWarning)
    const { clock, departures, send, pacer } = setUp({ limits: limitsOf(20) })
    const abort = new AbortController()
    let gaveUp = 0
    for (let i = 0; i < 10_000; i++) send('fills', { signal: abort.signal, deadline: i % 100 }).catch(() => gaveUp++)
    await clock.advance(1_000)
    expect(departures.length).toBeGreaterThan(10)
    abort.abort(new Error('enough'))
    await clock.advance(0)
    expect(gaveUp + departures.length).toBe(10_000)
    expect(pacer.stats().waiting.live.count).toBe(0)
    process.off('warning', onWarning)
    expect(warnings).toEqual([])
  })
})

describe('what is in flight', () => {
  it('is bounded: a request behind a full connection pool would arrive late', async () => {
    const { clock, departures, send, pacer } = setUp({ maxInFlight: 2 })
    for (let i = 0; i < 5; i++) void send('fills', {}, null)
    await clock.advance(2_000)
    expect(departures).toHaveLength(2)
    expect(pacer.stats().inFlight).toBe(2)
    pacer.settle(departures[0] as Departure, { outcome: 'failed' })
    await clock.advance(2_000)
    expect(departures).toHaveLength(3)
  })
})

describe('the remaining-budget header', () => {
  it('slows an operation down when something else shares the address', async () => {
    const { clock, departures, send } = setUp({ limits: limitsOf(20) })
    // 14 of 20 are used; one of them is ours, and one is within what services differ in.
    void send('fills', {}, { outcome: 'answered', remaining: 6 })
    await clock.advance(100)
    for (let i = 0; i < 40; i++) void send('fills')
    await clock.advance(850)
    expect(departures).toHaveLength(20 - 12)
    void send('tickers')
    await clock.advance(60)
    expect(departures.at(-1)?.operation).toBe('tickers')
    await clock.advance(1_000)
    expect(departures.length).toBeGreaterThan(20)
  })

  it.each([
    [20, 19],
    [10, 10],
  ])('changes nothing when %i a second count down from %i and nobody shares the address', async (limit, from) => {
    const { clock, departures, send } = setUp({ limits: limitsOf(limit) })
    let remaining = from
    for (let i = 0; i < limit; i++)
      void send('fills', {}, null).then((departure) => departures.push(departure) && remaining--)
    const start = departures.length
    for (let i = 0; i < limit * 3; i++)
      void send('fills', {}, { outcome: 'answered', remaining: Math.max(0, from - i) })
    await clock.advance(3_900)
    expect(departures.length - start).toBeGreaterThan(limit * 3)
  })
})

describe('a rejection', () => {
  it('pauses every operation shortly, tries with one request, and resumes at a lower rate that recovers', async () => {
    const { clock, departures, send, pacer } = setUp({ limits: limitsOf(20) })
    await clock.advance(1_000)
    void send('fills', {}, rejected)
    await clock.advance(100)
    expect(departures).toHaveLength(1)
    for (let i = 0; i < 2_000; i++) void send(i % 2 === 0 ? 'fills' : 'tickers', {}, null)
    await clock.advance(1_300)
    expect(departures).toHaveLength(1)
    expect(pacer.stats().pausedMs).toBeGreaterThan(0)
    await clock.advance(10_000)
    expect(departures).toHaveLength(2)
    pacer.settle(departures[1] as Departure, answered)
    const count = async (ms: number) => {
      const before = departures.length
      await clock.advance(ms)
      return ((departures.length - before) / ms) * 1_000
    }
    const full = 40 / 1.017
    expect(await count(2_000)).toBeLessThan(full * 0.6)
    await clock.advance(23_000)
    const half = await count(2_000)
    expect(half).toBeGreaterThan(full * 0.65)
    expect(half).toBeLessThan(full * 0.85)
  })

  it('recovers to the full rate', async () => {
    const { clock, send, pacer } = setUp()
    void send('fills', {}, rejected)
    await clock.advance(2_000)
    void send('fills')
    await clock.advance(200)
    expect(pacer.stats().rate).toBeLessThan(0.6)
    await clock.advance(60_000)
    expect(pacer.stats().rate).toBe(1)
  })

  it('lasts longer each time it comes back, up to the length of a block, with one request each time', async () => {
    const { clock, departures, send } = setUp({ blockMs: 20_000 })
    for (let i = 0; i < 50; i++) void send('fills', {}, rejected)
    await clock.advance(120_000)
    const pauses = departures
      .slice(1)
      .map(({ atMs }, index) => Math.round((atMs - (departures[index] as Departure).atMs) / 100) / 10)
    expect(pauses.slice(0, 7)).toEqual([1.5, 3, 6, 12, 20, 20, 20])
  })

  it('that comes late, from a request sent before the pause, does not count again', async () => {
    const { clock, departures, send, pacer } = setUp({ limits: limitsOf(20) })
    for (let i = 0; i < 3; i++) void send('fills', {}, null)
    await clock.advance(300)
    for (const departure of departures) {
      pacer.settle(departure, rejected)
      await clock.advance(10)
    }
    expect(pacer.stats().pausedMs).toBeLessThan(1_500)
  })

  it('leaves what waits in the queue, and it can still be given up', async () => {
    const { clock, send, pacer } = setUp()
    void send('fills', {}, rejected)
    await clock.advance(500)
    const abort = new AbortController()
    const request = send('fills', { signal: abort.signal })
    void send('fills')
    await clock.advance(100)
    expect(pacer.stats().waiting.live.count).toBe(2)
    abort.abort(new Error('enough'))
    await expect(request).rejects.toThrow('enough')
    expect(pacer.stats().waiting.live.count).toBe(1)
  })

  it('of unknown outcome keeps trying with one request at a time', async () => {
    const { clock, departures, send } = setUp()
    void send('fills', {}, rejected)
    await clock.advance(200)
    for (let i = 0; i < 20; i++) void send('fills', {}, { outcome: 'failed' })
    await clock.advance(3_000)
    expect(departures.length).toBeGreaterThan(3)
  })
})
