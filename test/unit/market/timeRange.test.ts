import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { intersect, normalized, type Ranges, subtract, totalMs, union } from '../../../src/market/timeRange.js'

const arbitraryRanges = fc
  .array(fc.tuple(fc.integer({ min: 0, max: 60 }), fc.integer({ min: 0, max: 12 })), { maxLength: 8 })
  .map((pairs) => normalized(pairs.map(([from, length]) => ({ from, to: from + length }))))

/** The whole numbers in ranges: what each operation must do to them is plain. */
function points(ranges: Ranges): Set<number> {
  return new Set(ranges.flatMap(({ from, to }) => Array.from({ length: to - from }, (_, i) => from + i)))
}

function isNormal(ranges: Ranges): boolean {
  return ranges.every(({ from, to }, i) => from < to && (i === 0 || (ranges[i - 1]?.to ?? 0) < from))
}

describe('ranges', () => {
  it('are united, subtracted and intersected as the points in them are', () => {
    fc.assert(
      fc.property(arbitraryRanges, arbitraryRanges, (a, b) => {
        const [inA, inB] = [points(a), points(b)]
        const results = [
          [union(a, b), new Set([...inA, ...inB])],
          [subtract(a, b), new Set([...inA].filter((point) => !inB.has(point)))],
          [intersect(a, b), new Set([...inA].filter((point) => inB.has(point)))],
        ] as const
        for (const [ranges, expected] of results) {
          expect(points(ranges)).toEqual(expected)
          expect(isNormal(ranges)).toBe(true)
          expect(totalMs(ranges)).toBe(expected.size)
        }
      }),
    )
  })
})
