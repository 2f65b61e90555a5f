import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Departure, Settlement } from '../../../../src/exchange/limits/penalty.js'
import type { Priority } from '../../../../src/exchange/limits/queues.js'
import { limitsOf } from '../../../support/fakeService.js'
import { answered, setUp } from '../../../support/pacing.js'

const rejected: Settlement = { outcome: 'rate-limited' }
const failed: Settlement = { outcome: 'failed' }

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
    expect(waiting.backfill).toEqual({ count: 1, oldestWaitMs: 20_000, overdueMs: 0 })
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
    pacer.settle(departures[0] as Departure, failed)
    await clock.advance(2_000)
    expect(departures).toHaveLength(3)
  })

  it.each([1, 2, 3])('leaves room while the bodies of %i operations are slow', async (count) => {
    const { clock, departures, send, pacer } = setUp({ limits: limitsOf(20), maxInFlight: 64 })
    const slow = (['orderbook', 'candles', 'tickers'] as const).slice(0, count)
    const taken = () => slow.map((each) => departures.filter(({ operation }) => operation === each).length)
    for (const operation of slow)
      for (let i = 0; i < 100; i++)
        void send(operation, {}, null).then((departure) => {
          pacer.responded(departure)
        })
    await clock.advance(20_000)
    for (const each of taken()) expect(each).toBeGreaterThan(64 / 4)
    for (let i = 0; i < 200; i++) void send('fills')
    await clock.advance(5_000)
    expect(departures.filter(({ operation }) => operation === 'fills').length).toBeGreaterThan(90)
    const before = taken()
    pacer.settle(departures[0] as Departure, failed)
    await clock.advance(1_000)
    expect(taken()[0]).toBe((before[0] as number) + 1)
  })
})

describe('the remaining-budget header', () => {
  it('slows an operation down when something else shares the address', async () => {
    const { clock, departures, send } = setUp({ limits: limitsOf(20) })
    // 14 of 20 are used; one of them is ours, and one is within what services differ in.
    void send('fills', {}, { outcome: 'response', remaining: 6 })
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
    for (let i = 0; i < limit; i++) void send('fills').then((departure) => departures.push(departure) && remaining--)
    const start = departures.length
    for (let i = 0; i < limit * 3; i++)
      void send('fills', {}, { outcome: 'response', remaining: Math.max(0, from - i) })
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
    for (let i = 0; i < 2_000; i++)
      void send(i % 2 === 0 ? 'fills' : 'tickers', {}, null).then((departure) => {
        if (departure !== departures[1]) pacer.settle(departure, answered)
      })
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
    const { clock, departures, send } = setUp()
    for (let i = 0; i < 50; i++) void send('fills', {}, rejected)
    await clock.advance(1_600_000)
    const pauses = departures
      .slice(1)
      .map(({ atMs }, index) => Math.round((atMs - (departures[index] as Departure).atMs) / 100) / 10)
    expect(pauses.slice(0, 11)).toEqual([1.5, 3, 6, 12, 24, 48, 96, 192, 300, 300, 300])
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
    for (let i = 0; i < 20; i++) void send('fills', {}, failed)
    await clock.advance(3_000)
    expect(departures.length).toBeGreaterThan(3)
  })
})

describe('an operation that is out of order', () => {
  /** Fails until the circuit of fills is open. */
  async function setUpOpen() {
    const { clock, departures, pacer, send } = setUp()
    await clock.advance(1_000)
    for (let i = 0; i < 10; i++) {
      void pacer.acquire('fills').then((departure) => pacer.settle(departure, failed, 'fails'))
      await clock.advance(250)
    }
    return { clock, departures, pacer, send }
  }

  it('is tried by one request at a time, the most urgent first, until one succeeds', async () => {
    const { clock, departures, pacer, send } = await setUpOpen()
    const order: string[] = []
    for (const priority of ['backfill', 'repair', 'live', 'live'] as const)
      void send('fills', { priority }, null).then(() => order.push(priority))
    await clock.advance(700)
    expect(order).toEqual([])
    await clock.advance(60_000)
    expect(order).toEqual(['live'])
    pacer.settle(departures[0] as Departure, failed, 'fails')
    await clock.advance(1_900)
    expect(order).toEqual(['live'])
    await clock.advance(60_000)
    expect(order).toEqual(['live', 'live'])
    pacer.settle(departures[1] as Departure, answered, 'works')
    await clock.advance(250)
    expect(order).toEqual(['live', 'live', 'repair', 'backfill'])
  })

  it('holds up no other, and what waits for it does not count as waiting for the limits', async () => {
    const { clock, departures, pacer, send } = await setUpOpen()
    for (let i = 0; i < 20; i++) void send('fills', { deadline: 0 }, null)
    for (let i = 0; i < 20; i++) void send('candles', { priority: 'backfill' })
    await clock.advance(2_500)
    expect(departures.filter(({ operation }) => operation === 'candles')).toHaveLength(20)
    expect(departures.filter(({ operation }) => operation === 'fills')).toHaveLength(1)
    expect(pacer.stats().waiting.live).toEqual({ count: 0, oldestWaitMs: 0, overdueMs: 0 })
  })

  it('can be given up while it pauses and while it is tried, and leaves no timer behind', async () => {
    const { clock, send } = await setUpOpen()
    const giveUp = async () => {
      const abort = new AbortController()
      const request = send('fills', { signal: abort.signal })
      await clock.advance(1)
      abort.abort(new Error('enough'))
      await expect(request).rejects.toThrow('enough')
      expect(clock.pendingSleeps).toBe(0)
    }
    await giveUp()
    void send('fills', {}, null)
    await clock.advance(2_000)
    await giveUp()
  })
})
