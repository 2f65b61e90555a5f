import fc from 'fast-check'
import { expect, test } from 'vitest'
import { wholeBuckets } from '../../../../src/server/timescale/rollups.js'

const hourMs = 3_600_000
const range = fc
  .tuple(fc.integer({ min: 0, max: 500 }), fc.integer({ min: 1, max: 60 }))
  .map(([from, length]) => ({ from, to: from + length }))

test('ranges become whole buckets, ascending, apart, with everything before the end in them', () => {
  fc.assert(
    fc.property(
      fc.array(range),
      fc.integer({ min: 1, max: 40 }),
      fc.integer({ min: 0, max: 50 }),
      (ranges, width, n) => {
        const end = n * width
        const buckets = wholeBuckets(ranges, width, end)
        for (const [i, { from, to }] of buckets.entries()) {
          expect(from % width).toBe(0)
          expect(to % width).toBe(0)
          expect(from).toBeLessThan(to)
          expect(to).toBeLessThanOrEqual(end)
          expect(from).toBeGreaterThan(buckets[i - 1]?.to ?? -1)
        }
        const isIn = (all: typeof ranges, from: number, to: number) => all.some((r) => r.from < to && r.to > from)
        for (let at = 0; at < 600; at += width) {
          expect(isIn(buckets, at, at + width)).toBe(at + width <= end && isIn(ranges, at, at + width))
        }
      },
    ),
  )
})

test('a minute of yesterday is its whole day, and one of this hour is nothing yet', () => {
  const end = 48 * hourMs
  expect(wholeBuckets([{ from: 30 * hourMs, to: 30 * hourMs + 60_000 }], 24 * hourMs, end)).toEqual([
    { from: 24 * hourMs, to: end },
  ])
  expect(wholeBuckets([{ from: 48 * hourMs + 1, to: 49 * hourMs }], 24 * hourMs, end)).toEqual([])
})
