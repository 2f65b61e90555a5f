import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createFillProcess, runMs } from '../../../../src/simulator/world/fills.js'

const hourMs = 3_600_000
const processes = fc
  .record({
    key: fc.integer(),
    perHour: fc.double({ min: 0.05, max: 40_000, noNaN: true }),
    meanSizeLots: fc.integer({ min: 2, max: 500_000_000 }),
    burstiness: fc.double({ min: 0, max: 0.9, noNaN: true }),
  })
  .map(({ key, ...rate }) => createFillProcess(key, rate))
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
      fc.property(processes, moments, fc.nat(50), (fills, at, count) => {
        const from = fills.countBefore(at)
        let sum = 0
        for (let index = from; index < from + count; index++) {
          expect(fills.sizeOf(index)).toBeGreaterThanOrEqual(1)
          sum += fills.sizeOf(index)
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

  test('over a day the rate is kept, and there are bursts with several fills in a millisecond', () => {
    const fills = createFillProcess(7, { perHour: 36_000, meanSizeLots: 10, burstiness: 0.5 })
    const start = Date.UTC(2026, 4, 5)
    const first = fills.countBefore(start)
    const count = fills.countBefore(start + 24 * hourMs) - first
    expect(count / 24).toBeGreaterThan(33_000)
    expect(count / 24).toBeLessThan(39_000)
    const times = Array.from({ length: 5_000 }, (_, i) => fills.timeOf(first + i))
    expect(new Set(times).size).toBeLessThan(times.length)
    const perMinute = Array.from({ length: 60 }, (_, minute) => {
      const from = start + minute * 60_000
      return fills.countBefore(from + 60_000) - fills.countBefore(from)
    })
    expect(Math.max(...perMinute)).toBeGreaterThan(2 * Math.min(...perMinute))
  })
})
