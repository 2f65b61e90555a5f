import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { specifiedPerSecond } from '../../../src/market/operation.js'
import { ArrivalWindow, Limiter } from '../../../src/simulator/limits.js'

const limits = { perSecond: specifiedPerSecond, perMinute: 6_000, blockMs: 300_000, enforce: true }

/** The most arrivals in any half-open window of a width, found the slow way. */
function highestOf(times: readonly number[], widthMs: number): number {
  return Math.max(...times.map((start) => times.filter((time) => time >= start && time - start < widthMs).length))
}

describe('strict windows', () => {
  test('the highest count is that of the fullest half-open window, even when arrivals are out of order', () => {
    const arrivals = fc.array(fc.record({ gap: fc.nat(400), late: fc.nat(60) }), { minLength: 1, maxLength: 150 })
    fc.assert(
      fc.property(arrivals, (steps) => {
        const window = new ArrivalWindow(1_000)
        let now = 0
        let highest = 0
        const times = steps.map(({ gap, late }) => (now += gap) + late)
        for (const time of times) highest = Math.max(highest, window.add(time))
        expect(highest).toBe(highestOf(times, 1_000))
      }),
    )
  })

  test('an arrival exactly one second later is in another window, a moment less is not', () => {
    const window = new ArrivalWindow(1_000)
    expect([window.add(0), window.add(1_000), window.add(1_999.999)]).toEqual([1, 1, 2])
  })

  test('thousands of arrivals are forgotten in time', () => {
    const window = new ArrivalWindow(1_000)
    for (let i = 0; i < 50_000; i++) expect(window.add(i * 10)).toBeLessThanOrEqual(100)
  })
})

describe('limiter', () => {
  test('the twenty-first request in a second is rejected, and counts as an arrival all the same', () => {
    const limiter = new Limiter(limits)
    const accepted = Array.from({ length: 21 }, (_, i) => limiter.admit('a', 'tickers', i).accepted)
    expect(accepted).toEqual([...Array.from({ length: 20 }, () => true), false])
    // The first arrival has left the window, the rejected one has not.
    expect(limiter.admit('a', 'tickers', 1_000).accepted).toBe(false)
    expect(limiter.admit('a', 'tickers', 2_001).accepted).toBe(true)
    expect(limiter.report()['a']?.operations.tickers).toEqual({ requests: 23, rejected: 2, highestPerSecond: 21 })
  })

  test('operations and addresses have budgets of their own', () => {
    const limiter = new Limiter(limits)
    for (let i = 0; i < 20; i++) limiter.admit('a', 'tickers', i)
    expect(limiter.admit('a', 'fills', 21).accepted).toBe(true)
    expect(limiter.admit('b', 'tickers', 21).accepted).toBe(true)
    expect(limiter.admit('a', 'tickers', 21).accepted).toBe(false)
  })

  test('the remaining budget counts down from 19 of 20, and from 10 of 10', () => {
    const limiter = new Limiter(limits)
    const remaining = (operation: 'tickers' | 'rpi-symbols') => limiter.admit('a', operation, 0).remaining
    expect([remaining('tickers'), remaining('tickers')]).toEqual([19, 18])
    expect([remaining('rpi-symbols'), remaining('rpi-symbols')]).toEqual([10, 9])
  })

  test('over the limit per minute the address is blocked for its time', () => {
    const limiter = new Limiter({ ...limits, perMinute: 10, blockMs: 5_000 })
    for (let i = 0; i < 10; i++) expect(limiter.admit('a', 'fills', i * 100).accepted).toBe(true)
    expect(limiter.admit('a', 'fills', 2_500).accepted).toBe(false)
    expect(limiter.admit('a', 'tickers', 7_499).accepted).toBe(false)
    // The block is over, but the window of a minute is still full.
    expect(limiter.admit('a', 'tickers', 7_500).accepted).toBe(false)
    expect(limiter.admit('a', 'tickers', 80_000).accepted).toBe(true)
    expect(limiter.report()['a']?.overall).toMatchObject({ requests: 14, rejected: 3, blocks: 2, highestPerMinute: 13 })
  })

  test('counts only, when it does not enforce', () => {
    const limiter = new Limiter({ ...limits, enforce: false })
    for (let i = 0; i < 30; i++) expect(limiter.admit('a', 'fills', 0).accepted).toBe(true)
    expect(limiter.report()['a']?.operations.fills).toEqual({ requests: 30, rejected: 10, highestPerSecond: 30 })
  })
})
