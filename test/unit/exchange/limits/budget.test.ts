import fc from 'fast-check'
import { expect, it } from 'vitest'
import { Budget } from '../../../../src/exchange/limits/budget.js'

it('departures later than a moment are counted as one by one, wherever postponed ones have come to lie', () => {
  const departure = fc.record({ afterMs: fc.nat(50), postponedMs: fc.option(fc.nat(500), { freq: 3, nil: 0 }) })
  fc.assert(
    fc.property(
      fc.array(departure, { maxLength: 60 }),
      fc.integer({ min: -100, max: 3_500 }),
      fc.nat(30),
      (departures, sinceMs, max) => {
        const limit = 20
        const budget = new Budget({
          limit,
          windowMs: 1_000,
          latencyJitterMs: 0,
          spacingGuardMs: 6,
          catchUpMs: 0,
          startMs: 0,
        })
        const moments: number[] = []
        let nowMs = 0
        for (const { afterMs, postponedMs } of departures) {
          nowMs += afterMs
          const number = budget.take(nowMs, nowMs, 1)
          budget.postpone(number, nowMs + postponedMs, nowMs)
          moments.push(nowMs + postponedMs)
        }
        const later = moments.slice(-2 * limit).filter((ms) => ms > sinceMs)
        expect(budget.countSince(sinceMs)).toBe(later.length)
        expect(budget.countSince(sinceMs, max)).toBe(Math.min(max, later.length))
      },
    ),
  )
})
