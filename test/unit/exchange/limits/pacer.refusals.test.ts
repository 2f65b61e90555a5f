import { describe, expect, it } from 'vitest'
import type { Settlement } from '../../../../src/exchange/limits/penalty.js'
import type { Operation } from '../../../../src/market/operation.js'
import { limitsOf } from '../../../support/fakeService.js'
import { answered, setUp } from '../../../support/pacing.js'

const rejected: Settlement = { outcome: 'rate-limited' }

interface Sent {
  readonly atMs: number
  readonly operation: Operation
  readonly isRejected: boolean
}

/** Keeps requesting books, fills and candles of some instruments from a service that rejects what `isRejected` says. */
function traffic(isRejected: (operation: Operation, instrument: string, atMs: number) => boolean) {
  const { clock, pacer } = setUp({ limits: limitsOf(20) })
  const startMs = clock.monotonicMs()
  const sent: Sent[] = []
  const keepSending = async (operation: Operation) => {
    for (let turn = 0; ; turn++) {
      const instrument = `SPOT ${turn % 10}`
      const departure = await pacer.acquire(operation)
      const atMs = departure.atMs - startMs
      const refusal = isRejected(operation, instrument, atMs)
      sent.push({ atMs, operation, isRejected: refusal })
      await clock.sleep(50)
      pacer.settle(departure, refusal ? rejected : answered, 'unknown', instrument)
    }
  }
  for (const operation of ['orderbook', 'fills', 'candles'] as const) void keepSending(operation)
  const between = (fromMs: number, toMs: number) => sent.filter(({ atMs }) => atMs >= fromMs && atMs < toMs)
  /** The longest time without a request. */
  const longestPauseMs = (fromMs: number, toMs: number) => {
    const times = [fromMs, ...between(fromMs, toMs).map(({ atMs }) => atMs), toMs]
    return Math.max(...times.slice(1).map((atMs, index) => atMs - (times[index] as number)))
  }
  return { clock, pacer, between, longestPauseMs }
}

const minutes = 60_000

describe('a rejection', () => {
  it('of one operation, again and again, pauses that one alone', async () => {
    const { clock, between, longestPauseMs } = traffic((operation) => operation === 'candles')
    await clock.advance(10 * minutes)
    expect(longestPauseMs(0, 10_000)).toBeGreaterThan(1_400)
    expect(longestPauseMs(10_000, 10 * minutes)).toBeLessThan(500)
    const candles = between(10_000, 10 * minutes).filter(({ operation }) => operation === 'candles')
    expect(candles.length).toBeLessThan(10)
    expect(candles.length).toBeGreaterThan(3)
  })

  it('of one operation that has a lower limit pauses that one alone, and it goes on in between', async () => {
    let windowMs = 0
    let count = 0
    const { clock, between, longestPauseMs } = traffic((operation, _, atMs) => {
      if (operation !== 'candles') return false
      if (atMs - windowMs >= 1_000) [windowMs, count] = [atMs, 0]
      return ++count > 3
    })
    await clock.advance(10 * minutes)
    expect(longestPauseMs(10_000, 10 * minutes)).toBeLessThan(500)
    expect(
      between(10_000, 10 * minutes).some(({ operation, isRejected }) => operation === 'candles' && !isRejected),
    ).toBe(true)
  })

  it('of two instruments, in all operations or in one, pauses nothing any more', async () => {
    const inAll = traffic((_, instrument) => ['SPOT 3', 'SPOT 7'].includes(instrument))
    const inOne = traffic((operation, instrument) => operation === 'fills' && instrument === 'SPOT 3')
    for (const { clock, longestPauseMs, between } of [inAll, inOne]) {
      await clock.advance(5 * minutes)
      expect(longestPauseMs(60_000, 5 * minutes)).toBeLessThan(500)
      expect(between(60_000, 5 * minutes).length).toBeGreaterThan(5_000)
    }
  })

  it('of everything pauses everything, whatever was rejected alone before', async () => {
    const [from, to] = [5 * minutes, 10 * minutes]
    const isBlocked = (atMs: number) => atMs >= from && atMs < to
    const before = {
      nothing: () => false,
      operation: (operation: Operation) => operation === 'candles',
      instrument: (_: Operation, instrument: string) => instrument === 'SPOT 3',
    }
    for (const [name, isAlone] of Object.entries(before)) {
      const { clock, between } = traffic((...of) => isBlocked(of[2]) || isAlone(of[0], of[1]))
      await clock.advance(to)
      // Up to three leave before the first is rejected, and then one for each doubled pause.
      expect([name, between(from, to).length <= 12]).toEqual([name, true])
      await clock.advance(10 * minutes)
      expect([name, between(to + 5 * minutes, to + 10 * minutes).length > 2_000]).toEqual([name, true])
    }
  })

  it('of the surplus over a limit of all operations together pauses everything for longer and longer', async () => {
    const arrivals: number[] = []
    const { clock, between, longestPauseMs } = traffic((_operation, _instrument, atMs) => {
      arrivals.push(atMs)
      return (arrivals.at(-31) ?? -Infinity) > atMs - 1_000
    })
    await clock.advance(60 * minutes)
    const rejections = between(0, 60 * minutes).filter(({ isRejected }) => isRejected).length
    expect(rejections).toBeLessThan(30)
    expect(longestPauseMs(30 * minutes, 60 * minutes)).toBeGreaterThan(100_000)
  })

  it('is followed by a request of another operation, which tells more about the address', async () => {
    const { clock, departures, send } = setUp({ limits: limitsOf(20) })
    void send('candles', { deadline: 1 }, rejected)
    await clock.advance(100)
    void send('candles', { deadline: 1 })
    void send('fills', { deadline: 2 })
    await clock.advance(3_000)
    expect(departures.map(({ operation }) => operation)).toEqual(['candles', 'fills', 'candles'])
  })
})
