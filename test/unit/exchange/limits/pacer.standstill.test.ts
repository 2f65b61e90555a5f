import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Operation } from '../../../../src/market/operation.js'
import { createFakeClock } from '../../../support/fakeClock.js'
import { limitsOf } from '../../../support/fakeService.js'
import { answered, highestCount, randomFrom, setUp } from '../../../support/pacing.js'

describe('the limits', () => {
  it('are kept, too, when requests that were given up in a standstill arrive at its end', async () => {
    const scenario = fc.record({
      seed: fc.integer(),
      limit: fc.integer({ min: 1, max: 20 }),
      forMs: fc.integer({ min: 8_000, max: 65_000 }),
      travelMs: fc.constantFrom(1, 40, 250),
    })
    await fc.assert(
      fc.asyncProperty(scenario, async ({ seed, limit, forMs, travelMs }) => {
        const random = randomFrom(seed)
        const clock = createFakeClock(() => random() * 4 - 1)
        const { pacer } = setUp({ limits: limitsOf(limit, 6_000), latencyJitterMs: 20 }, clock)
        const fromMs = clock.monotonicMs() + 8_000
        const toMs = fromMs + forMs
        const arrivals: { readonly operation: Operation; readonly atMs: number }[] = []
        const keepSending = async (operation: Operation) => {
          for (;;) {
            const departure = await pacer.acquire(operation)
            pacer.sent(departure)
            const wouldArriveMs = departure.atMs + travelMs + random() * 20
            const atMs = fromMs <= wouldArriveMs && wouldArriveMs < toMs ? toMs + random() * 20 : wouldArriveMs
            arrivals.push({ operation, atMs })
            const tookMs = atMs + travelMs - departure.atMs
            await clock.sleep(Math.min(tookMs, 10_000))
            if (tookMs <= 10_000) pacer.responded(departure)
            pacer.settle(departure, tookMs <= 10_000 ? answered : { outcome: 'failed', isGivenUp: true })
          }
        }
        for (const operation of ['fills', 'candles', 'orderbook'] as const)
          for (let i = 0; i < 30; i++) void keepSending(operation)
        await clock.advance(8_000 + forMs + 20_000)
        for (const operation of ['fills', 'candles', 'orderbook']) {
          const of = arrivals.filter((arrival) => arrival.operation === operation).map(({ atMs }) => atMs)
          expect(highestCount(of, 1_000)).toBeLessThanOrEqual(limit)
          // One request at a time finds out when it goes on, and all follow. Of a small limit no place may be left for that.
          const soon = of.filter((atMs) => atMs >= toMs + 14_000 && atMs < toMs + 19_000)
          const isEnough = limit >= 16 || (limit >= 8 && travelMs < 250 && forMs <= 30_000)
          if (isEnough) expect(soon.length).toBeGreaterThan(limit * 3.5)
        }
      }),
      { numRuns: 40 },
    )
  })

  it('are kept when a service whose requests waited before they were counted gets fast again', async () => {
    const scenario = fc.record({
      seed: fc.integer(),
      limit: fc.integer({ min: 1, max: 20 }),
      waitMs: fc.integer({ min: 50, max: 950 }),
      forMs: fc.integer({ min: 5_000, max: 180_000 }),
      drainMs: fc.constantFrom(0, 100, 250),
      travelMs: fc.constantFrom(1, 40, 150),
      isSlowAtFirst: fc.boolean(),
    })
    await fc.assert(
      fc.asyncProperty(scenario, async ({ seed, limit, waitMs, forMs, drainMs, travelMs, isSlowAtFirst }) => {
        const random = randomFrom(seed)
        const clock = createFakeClock(() => random() * 4 - 1)
        const { pacer } = setUp({ limits: limitsOf(limit, 900), latencyJitterMs: 60 }, clock)
        const fromMs = clock.monotonicMs() + (isSlowAtFirst ? -1_000 : 90_000)
        const toMs = fromMs + forMs
        /** What waits before the counter is counted in order. Within `drainMs` after the end, the wait is gone. */
        const countedMs = (ms: number) => {
          const waited = ms + Math.min(waitMs, Math.max(0, ms - fromMs))
          if (waited <= toMs) return waited
          return Math.max(ms, toMs + ((waited - toMs) * drainMs) / waitMs)
        }
        const arrivals: { readonly operation: Operation; readonly atMs: number }[] = []
        const keepSending = async (operation: Operation) => {
          for (;;) {
            const departure = await pacer.acquire(operation)
            pacer.sent(departure)
            const atMs = countedMs(departure.atMs + travelMs)
            arrivals.push({ operation, atMs })
            await clock.sleep(atMs + travelMs - departure.atMs)
            pacer.responded(departure)
            pacer.settle(departure, answered)
          }
        }
        for (const operation of ['fills', 'candles'] as const) for (let i = 0; i < 25; i++) void keepSending(operation)
        await clock.advance(toMs - clock.monotonicMs() + 62_000)
        const times = arrivals.map(({ atMs }) => atMs)
        expect(highestCount(times, 60_000)).toBeLessThanOrEqual(900)
        // A service that is slow from the start looks like a far one.
        if (isSlowAtFirst) return
        for (const operation of ['fills', 'candles']) {
          const of = arrivals.filter((arrival) => arrival.operation === operation).map(({ atMs }) => atMs)
          expect(highestCount(of, 1_000)).toBeLessThanOrEqual(limit)
        }
      }),
      { numRuns: 40 },
    )
  })

  const slow = [1_000, 1_500, 2_000].map((tookMs) => ({
    what: `responses take ${tookMs} ms`,
    tookMs,
    everyMs: Infinity,
  }))
  const pausing = { what: 'this process pauses for 300 ms now and then', tookMs: 40, everyMs: 5_000 }
  const cases = [...slow, pausing].flatMap((each) => [10, 20].map((limit) => ({ ...each, limit })))

  it.each(cases)('are used to 98 % although $what: $limit a second', async ({ tookMs, everyMs, limit }) => {
    const random = randomFrom(7)
    const clock = createFakeClock(() => random() * 4 - 1)
    const startMs = clock.monotonicMs()
    /** What is due in a pause of this process is done at its end. */
    const atEndOfPause = (ms: number) => {
      const intoPauseMs = (clock.monotonicMs() - startMs + ms) % everyMs
      return intoPauseMs < 300 && everyMs < Infinity ? ms + 300 - intoPauseMs : ms
    }
    const after: typeof clock.after = (ms, fire) => clock.after(atEndOfPause(ms), fire)
    const { pacer } = setUp({ limits: limitsOf(limit, 6_000), latencyJitterMs: 60, clock: { ...clock, after } }, clock)
    let departures = 0
    const send = async (operation: Operation) => {
      const departure = await pacer.acquire(operation)
      pacer.sent(departure)
      departures++
      clock.at(atEndOfPause(tookMs), () => {
        pacer.responded(departure)
        pacer.settle(departure, answered)
      })
    }
    for (const operation of ['fills', 'candles'] as const) for (let i = 0; i < limit * 60; i++) void send(operation)
    // Until the time to a response counts as the ordinary one.
    await clock.advance(20_000)
    const before = departures
    await clock.advance(30_000)
    expect((departures - before) / 30 / 2).toBeGreaterThanOrEqual((0.98 * limit) / 1.06)
  })

  it('are used by the others while some requests hang, and by all once these were given up', async () => {
    const { clock, departures, send, pacer } = setUp({ limits: limitsOf(10, 6_000) })
    for (let i = 0; i < 4; i++) {
      void send('fills', {}, null)
      await clock.advance(500)
    }
    const hanging = [...departures]
    for (const departure of hanging) pacer.sent(departure)
    for (let i = 0; i < 200; i++) void send('candles')
    await clock.advance(10_000)
    expect(departures.length).toBeGreaterThan(90)
    for (const departure of hanging) pacer.settle(departure, { outcome: 'failed', isGivenUp: true })
    for (let i = 0; i < 200; i++) void send('fills')
    await clock.advance(12_000)
    expect(departures.filter(({ operation }) => operation === 'fills').length).toBeGreaterThan(100)
  })
})
