import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createCommonFactor } from '../../../../src/simulator/world/prices.js'
import { createFillProcess } from '../../../../src/simulator/world/market.js'
import { hourMs } from '../../../../src/market/values.js'
import { runMs } from '../../../../src/simulator/world/marketFills.js'

const common = createCommonFactor(4)
const processes = fc
  .record({
    key: fc.integer(),
    perHour: fc.double({ min: 0.05, max: 40_000, noNaN: true }),
    meanSizeLots: fc.integer({ min: 2, max: 500_000_000 }),
    burstiness: fc.oneof(fc.constant(0), fc.double({ min: 0.01, max: 0.9, noNaN: true })),
  })
  .map(({ key, ...rate }) => createFillProcess(key, rate, common))
const moments = fc.integer({ min: Date.UTC(2019, 0), max: Date.UTC(2031, 0) })

describe('fill process', () => {
  test('time and index are inverse: every fill lies just after the fills before it', () => {
    fc.assert(
      fc.property(processes, moments, fc.nat(200), (fills, at, further) => {
        const index = fills.countBefore(at) + further
        const ts = fills.timeOf(index)
        expect(ts).toBeGreaterThanOrEqual(at)
        expect(fills.countBefore(ts)).toBeLessThanOrEqual(index)
        expect(fills.countBefore(ts + 1)).toBeGreaterThan(index)
        expect(fills.timeOf(index + 1)).toBeGreaterThanOrEqual(ts)
      }),
    )
  })

  test('the size of a range is the sum of its fills, in whole lots of at least one', () => {
    fc.assert(
      fc.property(processes, moments, fc.nat(600), (fills, at, count) => {
        const from = fills.countBefore(at)
        let sum = 0
        for (let index = from; index < from + count; index++) {
          const size = fills.sizeOf(index)
          if (size < 1 || !Number.isSafeInteger(size)) expect.fail(`a fill of ${size} lots`)
          sum += size
        }
        expect(fills.sizeOfRange(from, from + count)).toBe(sum)
      }),
    )
  })

  test('the runs of an hour hold each of its fills once, in order', () => {
    fc.assert(
      fc.property(processes, moments, (fills, at) => {
        const hour = Math.floor(at / hourMs)
        const from = fills.countBefore(at)
        const to = fills.countBefore((hour + 1) * hourMs)
        let next = from
        fills.eachRun(hour, from, to, (run, first, count) => {
          expect(first).toBe(next)
          expect(count).toBeGreaterThan(0)
          expect(Math.floor(fills.timeOf(first) / runMs)).toBe(run)
          expect(Math.floor(fills.timeOf(first + count - 1) / runMs)).toBe(run)
          next += count
        })
        expect(next).toBe(to)
      }),
      { numRuns: 30 },
    )
  })

  test('a sweep happens within one millisecond, and is found from each of its fills and among all', () => {
    let seen = 0
    fc.assert(
      fc.property(fc.integer(), moments, fc.double({ min: 1, max: 40_000, noNaN: true }), (key, at, perHour) => {
        const fills = createFillProcess(key, { perHour, meanSizeLots: 9, burstiness: 0.5 }, common)
        const from = fills.countBefore(at)
        const found: number[] = []
        fills.eachSweep(from, from + 3_000, ({ first, count }) => {
          expect(first).toBeGreaterThanOrEqual(from)
          expect(first + count).toBeLessThanOrEqual(from + 3_000)
          expect(fills.timeOf(first + count - 1)).toBe(fills.timeOf(first))
          for (let index = first; index < first + count; index++) {
            found.push(index)
            expect(fills.sweepOf(index)).toEqual({ first, count })
          }
          seen++
        })
        const among = new Set(found)
        for (let index = from; index < from + 3_000; index += 7) {
          const sweep = fills.sweepOf(index)
          const isWhole = sweep !== null && sweep.first >= from && sweep.first + sweep.count <= from + 3_000
          expect(among.has(index)).toBe(isWhole)
        }
      }),
      { numRuns: 20 },
    )
    expect(seen).toBeGreaterThan(100)
  })

  test('the same answers in whatever order they are asked for', () => {
    fc.assert(
      fc.property(fc.integer(), fc.array(moments, { minLength: 5, maxLength: 20 }), (key, times) => {
        const rate = { perHour: 20_000, meanSizeLots: 700, burstiness: 0.5 }
        const askedAlone = times.map((at) => {
          const fills = createFillProcess(key, rate, createCommonFactor(4))
          const index = fills.countBefore(at)
          return [index, fills.timeOf(index + 3), fills.sizeOf(index), fills.sizeOfRange(index, index + 900)]
        })
        const fills = createFillProcess(key, rate, common)
        const indexes = times
          .toReversed()
          .map((at) => fills.countBefore(at))
          .toReversed()
        const askedTogether = indexes.map((index) => [
          index,
          fills.timeOf(index + 3),
          fills.sizeOf(index),
          fills.sizeOfRange(index, index + 900),
        ])
        expect(askedTogether).toEqual(askedAlone)
      }),
      { numRuns: 5 },
    )
  })

  test('without burstiness fills come at an even rate', () => {
    const fills = createFillProcess(7, { perHour: 3_600, meanSizeLots: 10, burstiness: 0 }, common)
    const start = Date.UTC(2026, 4, 5, 13, 30)
    const perMinute = Array.from({ length: 30 }, (_, minute) => {
      const from = start + minute * 60_000
      return fills.countBefore(from + 60_000) - fills.countBefore(from)
    })
    expect(new Set(perMinute)).toEqual(new Set([60]))
  })
})
