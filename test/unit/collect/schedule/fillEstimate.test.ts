import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { FillEstimate } from '../../../../src/collect/schedule/fillEstimate.js'

const service = 1_760_000_000_000

/** An estimate after a response at 0 with 100 fills of size 2, one each so many milliseconds. */
function estimateOf(everyMs: number) {
  const estimate = new FillEstimate()
  estimate.responded(
    Array.from({ length: 100 }, (_, index) => ({ ts: service - index * everyMs, size: '2' })),
    service,
    0,
  )
  return estimate
}

const ticker = (at: number, volume: number) => ({
  ts: service + at,
  volume24h: String(volume),
  lastPrice: String(at),
})

describe('fills that no response showed', () => {
  test('are as many as the rate makes one expect while no ticker comes', () => {
    const unseen = estimateOf(100).unseen(5_000)
    expect(unseen).toBeGreaterThan(40)
    expect(unseen).toBeLessThan(70)
  })

  test('follow the volume of a ticker that tells of many more', () => {
    const estimate = estimateOf(1_000)
    estimate.takeTicker(ticker(1, 100_000), 1)
    // 80 fills of the usual size, and as much as drops out of the day in the meantime.
    estimate.takeTicker(ticker(5_000, 100_160), 5_000)
    expect(estimate.unseen(5_000)).toBeGreaterThan(50)
  })

  test('remain nearly as expected when a day loses more at its other end than was traded', () => {
    for (const dropped of [1, 100, 90_000]) {
      const estimate = estimateOf(100)
      estimate.takeTicker(ticker(1, 100_000), 1)
      estimate.takeTicker(ticker(5_000, 100_000 - 2_000 - dropped), 5_000)
      expect(estimate.unseen(5_000), String(dropped)).toBeGreaterThan(30)
    }
  })

  test('are none where the ticker has not changed', () => {
    const estimate = estimateOf(100)
    const quiet = { volume24h: '1000', lastPrice: '1' }
    estimate.takeTicker({ ...quiet, ts: service + 1 }, 1)
    estimate.takeTicker({ ...quiet, ts: service + 5_000 }, 5_000)
    expect(estimate.unseen(5_000)).toBeLessThan(0.1)
  })
})

test('a size or a volume that no market has spoils nothing', () => {
  const estimate = estimateOf(100)
  const huge = `1${'0'.repeat(400)}`
  estimate.responded([{ ts: service + 1_000, size: huge }], service + 1_000, 1_000)
  estimate.takeTicker({ ts: service + 2_000, volume24h: huge, lastPrice: '1' }, 2_000)
  estimate.takeTicker(ticker(3_000, 100_000), 3_000)
  estimate.takeTicker(ticker(8_000, 100_100), 8_000)
  expect(estimate.unseen(8_000)).toBeGreaterThan(10)
  expect(estimate.unseen(8_000)).toBeLessThan(200)
})

test('whatever comes, an estimate is a number, and never negative', () => {
  const step = fc.record({
    waitMs: fc.integer({ min: 0, max: 100_000 }),
    volume: fc.oneof(fc.constant(null), fc.double({ min: 0, max: 1e12, noNaN: true })),
    fills: fc.integer({ min: 0, max: 100 }),
    spanMs: fc.integer({ min: 0, max: 200_000 }),
    size: fc.constantFrom('0', '0.000001', '3', '1000000'),
  })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
      const estimate = new FillEstimate()
      let at = 0
      for (const { waitMs, volume, fills, spanMs, size } of steps) {
        at += waitMs
        if (volume !== null) estimate.takeTicker(ticker(at, volume), at)
        else {
          const page = Array.from({ length: fills }, (_, fill) => ({
            ts: service + at - Math.round((fill * spanMs) / Math.max(1, fills)),
            size,
          }))
          estimate.responded(page, service + at, at)
        }
        for (const value of [estimate.unseen(at + 1_000), estimate.rate])
          if (!(value >= 0 && Number.isFinite(value))) throw new Error(`${value} after ${at} ms`)
      }
    }),
    { numRuns: 300 },
  )
})
