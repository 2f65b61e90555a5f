import fc from 'fast-check'
import { expect, it } from 'vitest'
import { Budget } from '../../../../src/exchange/limits/budget.js'

it('departures later than a moment are counted as one by one, wherever postponed ones have come to lie', () => {
  const limit = 20
  const departure = fc.record({
    afterMs: fc.nat(50),
    // How many departures ago the one was that turns out to have left later, and by how much.
    postponed: fc.option(fc.record({ ago: fc.nat(80), byMs: fc.nat(3_000) }), { freq: 2 }),
  })
  fc.assert(
    fc.property(fc.array(departure, { maxLength: 200, size: 'max' }), fc.nat(2_000), (departures, backMs) => {
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
      for (const { afterMs, postponed } of departures) {
        nowMs += afterMs
        moments.push(nowMs)
        expect(budget.take(nowMs, nowMs, 1)).toBe(moments.length - 1)
        const number = moments.length - 1 - (postponed?.ago ?? 0)
        if (postponed !== null && number >= 0) {
          const departedMs = Math.min(nowMs, (moments[number] as number) + postponed.byMs)
          moments[number] = departedMs
          budget.postpone(number, departedMs)
        }
        const sinceMs = nowMs - backMs
        expect(budget.countSince(sinceMs)).toBe(Math.min(limit, moments.filter((ms) => ms > sinceMs).length))
      }
    }),
    { numRuns: 200 },
  )
})
