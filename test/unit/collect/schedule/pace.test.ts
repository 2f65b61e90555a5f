import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { afterResponse, fullPace, type Pace, waitMs, waitWhenClaimedMs } from '../../../../src/collect/schedule/pace.js'

const limits = { everyMs: 10_000, maxMs: 600_000 }
const after = (responses: readonly { brought: boolean; claimed: boolean }[]): Pace =>
  responses.reduce((pace, response) => afterResponse(pace, response), fullPace)
const responses = fc.array(fc.record({ brought: fc.boolean(), claimed: fc.boolean() }), { maxLength: 60 })

describe('the pace of requests', () => {
  test('doubles the wait with each response that brings nothing, up to the longest', () => {
    const waits = [0, 1, 2, 5, 6, 50].map((count) => waitMs({ fruitless: count, misled: 0 }, limits))
    expect(waits).toEqual([10_000, 20_000, 40_000, 320_000, 600_000, 600_000])
  })

  test('is full again with the first response that brings something', () => {
    fc.assert(
      fc.property(responses, fc.boolean(), (before, claimed) => {
        const pace = after([...before, { brought: true, claimed }])
        expect([waitMs(pace, limits), waitWhenClaimedMs(pace, limits)]).toEqual([limits.everyMs, limits.everyMs])
      }),
    )
  })

  test('nothing waits for longer than the longest wait, or comes before the shortest', () => {
    fc.assert(
      fc.property(
        responses,
        fc.integer({ min: 1, max: 1e6 }),
        fc.integer({ min: 1, max: 1e6 }),
        (given, everyMs, more) => {
          const pace = after(given)
          const bounds = { everyMs, maxMs: everyMs + more }
          for (const wait of [waitMs(pace, bounds), waitWhenClaimedMs(pace, bounds)]) {
            expect(wait).toBeGreaterThanOrEqual(bounds.everyMs)
            expect(wait).toBeLessThanOrEqual(bounds.maxMs)
          }
          expect(waitWhenClaimedMs(pace, bounds)).toBeLessThanOrEqual(waitMs(pace, bounds))
        },
      ),
    )
  })

  test('a ticker that is always wrong wakes nothing; one that is right for the first time does so at once', () => {
    const wrong = after(Array.from({ length: 40 }, () => ({ brought: false, claimed: true })))
    expect(waitWhenClaimedMs(wrong, limits)).toBe(waitMs(wrong, limits))
    const silent = after(Array.from({ length: 40 }, () => ({ brought: false, claimed: false })))
    expect(waitWhenClaimedMs(silent, limits)).toBe(limits.everyMs)
  })
})
