import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type Operation, operations } from '../../../../src/market/operation.js'
import { createFakeClock } from '../../../support/fakeClock.js'
import { limitsOf } from '../../../support/fakeService.js'
import { answered, highestCount, randomFrom, setUp } from '../../../support/pacing.js'
import { TestRight } from '../../../support/rights.js'

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
            void send(random() < 0.5 ? favourite : pick(operations), {
              priority: pick(['live', 'repair', 'backfill'] as const),
            })
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

  it('are kept, too, when some requests travel far longer than the jitter: their responses tell', async () => {
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
            pacer.responded(departure)
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

  it('are kept, too, when the network or the service stands still for seconds and then counts all that has come at once', async () => {
    const scenario = fc.record({
      seed: fc.integer(),
      limit: fc.integer({ min: 1, max: 20 }),
      stalls: fc.array(fc.record({ afterMs: fc.nat(4_000), forMs: fc.nat(5_000) }), { minLength: 1, maxLength: 4 }),
      travelMs: fc.constantFrom(1, 40, 250),
    })
    await fc.assert(
      fc.asyncProperty(scenario, async ({ seed, limit, stalls, travelMs }) => {
        const random = randomFrom(seed)
        const clock = createFakeClock(() => random() * 4 - 1)
        const overall = limit * 30
        const { pacer } = setUp({ limits: limitsOf(limit, overall), latencyJitterMs: 20 }, clock)
        let endMs = clock.monotonicMs()
        const standing = stalls.map(({ afterMs, forMs }) => {
          const fromMs = endMs + afterMs
          endMs = fromMs + forMs
          return { fromMs, toMs: endMs }
        })
        const arrivals: { readonly operation: Operation; readonly atMs: number }[] = []
        const send = async (operation: Operation) => {
          const departure = await pacer.acquire(operation)
          pacer.sent(departure)
          const wouldArriveMs = departure.atMs + travelMs + random() * 20
          const stall = standing.find(({ fromMs, toMs }) => fromMs <= wouldArriveMs && wouldArriveMs < toMs)
          const atMs = stall?.toMs ?? wouldArriveMs
          arrivals.push({ operation, atMs })
          clock.at(atMs + travelMs - departure.atMs, () => {
            pacer.responded(departure)
            pacer.settle(departure, answered)
          })
        }
        for (const operation of ['fills', 'candles', 'orderbook'] as const)
          for (let i = 0; i < limit * 40; i++) void send(operation)
        await clock.advance(70_000)
        for (const operation of ['fills', 'candles', 'orderbook']) {
          const of = arrivals.filter((arrival) => arrival.operation === operation).map(({ atMs }) => atMs)
          expect(highestCount(of, 1_000)).toBeLessThanOrEqual(limit)
        }
        const all = arrivals.map(({ atMs }) => atMs)
        expect(highestCount(all, 60_000)).toBeLessThanOrEqual(overall)
        expect(all.length).toBeGreaterThan(overall * 0.7)
      }),
      {
        numRuns: 40,
        // Responses of one standstill after the other must not make the fastest response seem slower than it was.
        examples: [
          [
            {
              seed: 0,
              limit: 16,
              stalls: [
                { afterMs: 1_607, forMs: 1_320 },
                { afterMs: 3_508, forMs: 4_470 },
                { afterMs: 380, forMs: 2_472 },
              ],
              travelMs: 250,
            },
          ],
        ],
      },
    )
  })

  it('lose one place to a request that hangs, and that as long as it does', async () => {
    const { clock, departures, send, pacer } = setUp({ limits: limitsOf(10, 6_000) })
    const hanging = send('fills', {}, null)
    for (let i = 0; i < 1_000; i++) void send('fills')
    await clock.advance(3_000)
    const count = async (ms: number) => {
      const before = departures.length
      await clock.advance(ms)
      return departures.length - before
    }
    expect(await count(10_000)).toBeGreaterThanOrEqual(88)
    expect(await count(10_000)).toBeLessThanOrEqual(90)
    pacer.settle(await hanging, { outcome: 'failed' })
    await clock.advance(2_000)
    expect(await count(10_000)).toBeGreaterThanOrEqual(97)
  })

  it('are kept when all requests hang: none departs until one is over', async () => {
    const { clock, departures, send, pacer } = setUp({ limits: limitsOf(5, 6_000) })
    for (let i = 0; i < 100; i++) void send('fills', {}, null)
    await clock.advance(60_000)
    expect(departures).toHaveLength(5)
    pacer.settle(departures[0] as (typeof departures)[0], answered)
    await clock.advance(2_000)
    expect(departures).toHaveLength(6)
  })

  it('are used in full when all responses take longer than a second', async () => {
    const { clock, departures, pacer } = setUp({ limits: limitsOf(20, 6_000), latencyJitterMs: 60 })
    const send = async () => {
      const departure = await pacer.acquire('fills')
      pacer.sent(departure)
      departures.push(departure)
      clock.at(1_800, () => {
        pacer.responded(departure)
        pacer.settle(departure, answered)
      })
    }
    for (let i = 0; i < 2_000; i++) void send()
    await clock.advance(20_000)
    const before = departures.length
    await clock.advance(20_000)
    expect((departures.length - before) / 20).toBeGreaterThanOrEqual((0.98 * 20) / 1.06)
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

  it('are kept together with one that sent at full speed while this one waited for its turn', async () => {
    const clock = createFakeClock()
    const rights = { other: new TestRight(), own: new TestRight() }
    const other = setUp({ limits: limitsOf(10), latencyJitterMs: 50, right: rights.other }, clock)
    const own = setUp({ limits: limitsOf(10), latencyJitterMs: 50, right: rights.own }, clock)
    rights.own.take()
    for (let i = 0; i < 100; i++) {
      void other.send('fills', {}, answered)
      void own.send('fills')
    }
    await clock.advance(3_333)
    rights.other.take()
    rights.own.give()
    await clock.advance(3_000)
    // And back again.
    rights.own.take()
    rights.other.give()
    await clock.advance(3_000)
    const times = [...other.departures, ...own.departures].map(({ atMs }) => atMs)
    expect(times.length).toBeGreaterThan(70)
    expect(highestCount(times, 1_050)).toBeLessThanOrEqual(10)
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
