import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { expectedShare, fillShortage, worthOfTickers } from '../../../../src/collect/schedule/fillShare.js'

describe('a budget that does not suffice', () => {
  test.for([
    [650, null],
    [670, 'bursts may cost fills'],
    [2_100, 'the busiest instruments lose fills'],
  ] as const)('is told of before fills are lost: %d fills a second with 20 requests', ([fillsPerSecond, told]) => {
    const shortage = fillShortage(fillsPerSecond, 20)
    if (told === null) expect(shortage).toBeNull()
    else expect(shortage).toContain(told)
  })

  test('tickers are looked at more often where bursts cost fills, not in a quiet or small market', () => {
    const worth = (fillsPerSecond: number, allowed: number) => worthOfTickers(fillsPerSecond, allowed, () => 60)
    const values = [0, 20, 70, 110, 400, 4_000].map((fillsPerSecond) => worth(fillsPerSecond, 18))
    expect(values).toEqual([0, 0, 0, 1, 1, 1])
    expect(worth(1, 0)).toBe(1)
    expect(worth(0, 0)).toBe(0)
  })

  test('captures less the more fills there are to a request, never more than pages hold', () => {
    fc.assert(
      fc.property(
        fc.double({ min: 0.01, max: 1e5, noNaN: true }),
        fc.double({ min: 0.1, max: 100, noNaN: true }),
        (fills, requests) => {
          const share = expectedShare(fills, requests)
          expect(share).toBeGreaterThan(0)
          expect(share).toBeLessThanOrEqual(1)
          expect(share * fills).toBeLessThanOrEqual(100 * requests * (1 + 1e-9))
          expect(expectedShare(fills * 2, requests)).toBeLessThanOrEqual(share + 1e-12)
        },
      ),
    )
  })
})
