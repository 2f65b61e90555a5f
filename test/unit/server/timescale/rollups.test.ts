import fc from 'fast-check'
import { expect, test } from 'vitest'
import { refreshRanges, rollups } from '../../../../src/server/timescale/rollups.js'

const minuteMs = 60_000
const hourMs = 60 * minuteMs
const dayMs = 24 * hourMs
const range = fc
  .tuple(fc.integer({ min: 0, max: 10 * 1440 }), fc.integer({ min: 1, max: 3000 }))
  .map(([from, length]) => ({ from: from * minuteMs, to: (from + length) * minuteMs }))
const [ofCandles, ...longer] = rollups

test('all rollups are refreshed over the same whole days, and candles are never read where they were dropped', () => {
  const bounds = { final: fc.integer({ min: -1, max: 240 }), end: fc.integer({ min: 0, max: 300 }) }
  fc.assert(
    fc.property(fc.array(range), fc.record(bounds), (ranges, { final, end }) => {
      const at = { final: final * hourMs, end: end * hourMs }
      const read = ranges.filter(({ to }) => to > at.final)
      const isTouched = (day: number) => read.some(({ from, to }) => from < day + dayMs && to > day)
      for (const rollup of rollups) {
        const found = refreshRanges(rollup, ranges, at)
        const first = rollup === ofCandles ? at.final : -Infinity
        const hours = Array.from({ length: 300 }, (_, hour) => hour)
        const isIn = (hour: number) => found.some(({ from, to }) => from <= hour * hourMs && to >= (hour + 1) * hourMs)
        const isWanted = (hour: number) =>
          isTouched(Math.floor(hour / 24) * dayMs) && hour * hourMs >= first && (hour + 1) * hourMs <= at.end
        // One comparison for all hours: each takes longer than what it compares.
        expect(hours.filter(isIn), rollup.name).toEqual(hours.filter(isWanted))
      }
    }),
  )
})

test('a minute of yesterday is its whole day in every rollup, and one of this hour is nothing yet', () => {
  const bounds = { final: -Infinity, end: 2 * dayMs }
  for (const rollup of rollups) {
    const at = 30 * hourMs
    expect(refreshRanges(rollup, [{ from: at, to: at + minuteMs }], bounds)).toEqual([{ from: dayMs, to: 2 * dayMs }])
    expect(refreshRanges(rollup, [{ from: 2 * dayMs + 1, to: 2 * dayMs + hourMs }], bounds)).toEqual([])
  }
})

test('a day whose first candles were dropped is still refreshed as a whole from the rollups that stay', () => {
  const bounds = { final: dayMs + 6 * hourMs + 1, end: 3 * dayMs }
  const ranges = [{ from: dayMs + 8 * hourMs, to: dayMs + 9 * hourMs }]
  expect(ofCandles && refreshRanges(ofCandles, ranges, bounds)).toEqual([
    { from: dayMs + 6 * hourMs + 5 * minuteMs, to: 2 * dayMs },
  ])
  for (const rollup of longer) expect(refreshRanges(rollup, ranges, bounds)).toEqual([{ from: dayMs, to: 2 * dayMs }])
})
