import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { longestWaitMs, meanWaitMs } from '../../../../src/collect/schedule/fillShare.js'

const maxPollMs = 600_000

describe('how long an instrument goes unasked', () => {
  test('doubles with each response that brings nothing, up to an hour', () => {
    expect([0, 1, 2, 3, 50].map((empty) => longestWaitMs(empty, maxPollMs) / 60_000)).toEqual([10, 20, 40, 60, 60])
    expect(longestWaitMs(3, 7_200_000)).toBe(7_200_000)
  })

  test('is on average what the busiest and the idle make it, and the less the more fills there are', () => {
    expect(meanWaitMs(0, maxPollMs)).toBe(3_600_000)
    expect(meanWaitMs(1, maxPollMs)).toBeCloseTo(maxPollMs, 6)
    fc.assert(
      fc.property(
        fc.double({ min: 0, max: 1e-3, noNaN: true }),
        fc.double({ min: 1, max: 10, noNaN: true }),
        (rate, factor) => {
          const mean = meanWaitMs(rate, maxPollMs)
          expect(mean).toBeGreaterThanOrEqual(maxPollMs * (1 - 1e-9))
          expect(mean).toBeLessThanOrEqual(3_600_000 * (1 + 1e-9))
          expect(meanWaitMs(rate * factor, maxPollMs)).toBeLessThanOrEqual(mean * (1 + 1e-9))
        },
      ),
    )
  })
})
