import fc from 'fast-check'
import { expect, test } from 'vitest'
import { candlesSince } from '../../../../src/collect/poll/candlePoller.js'
import { intervalMs, intervals } from '../../../../src/market/candle.js'

test('a response reaches back to every candle that had not settled when the last one came', () => {
  fc.assert(
    fc.property(
      fc.constantFrom(...intervals),
      fc.integer({ min: 0, max: 600_000 }),
      fc.integer({ min: 0, max: 5_000_000 }),
      fc.integer({ min: 0, max: 86_400_000 }),
      (interval, settleMs, sinceMs, phaseMs) => {
        const lengthMs = intervalMs[interval]
        const before = Date.UTC(2026, 0, 5) + phaseMs
        const now = before + sinceMs
        const limit = candlesSince(before, now, { interval, settleMs })
        // The newest candle counts, whether it has begun to trade or not.
        const oldestShown = Math.floor(now / lengthMs) * lengthMs - (limit - 1) * lengthMs
        const firstUnsettled = Math.floor((before - settleMs) / lengthMs) * lengthMs
        expect(oldestShown <= firstUnsettled || limit === 1000).toBe(true)
      },
    ),
  )
})
