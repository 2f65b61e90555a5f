import fc from 'fast-check'
import { expect, test } from 'vitest'
import { fundingSteps } from '../../../src/market/funding.js'
import { hourMs } from '../../../src/market/values.js'

const hours = fc.constantFrom(1, 2, 4, 8)
/** Settlements of an instrument whose interval changes now and then, each interval for at least two steps. */
const settlements = fc
  .array(fc.tuple(hours, fc.integer({ min: 2, max: 9 })), { minLength: 1, maxLength: 5 })
  .map((stretches) => {
    const times = [0]
    for (const [interval, count] of stretches)
      for (let step = 0; step < count; step++) times.push((times.at(-1) ?? 0) + interval * hourMs)
    return times
  })

test('every step between settlements that follow one another is whole, whichever interval they have', () => {
  fc.assert(
    fc.property(settlements, (times) => {
      expect(fundingSteps(times).filter(({ isWhole }) => isWhole !== true)).toEqual([])
    }),
  )
})

test('a settlement that lacks in the middle of an interval leaves one step that is not whole', () => {
  fc.assert(
    fc.property(hours, fc.integer({ min: 3, max: 20 }), fc.integer({ min: 2, max: 17 }), (interval, count, place) => {
      fc.pre(place < count - 1)
      const times = Array.from({ length: count + 1 }, (_, index) => index * interval * hourMs)
      const [from, to] = [(place - 1) * interval * hourMs, (place + 1) * interval * hourMs]
      const known = times.filter((_, index) => index !== place)
      const broken = fundingSteps(known).filter(({ isWhole }) => isWhole !== true)
      const isNewest = place === count - 1
      expect(broken).toEqual([{ from, to, isWhole: isNewest && interval < 8 ? null : false }])
    }),
  )
})

test('the newest step is in doubt while it is longer than the one before', () => {
  expect(fundingSteps([0, hourMs, 5 * hourMs]).at(-1)?.isWhole).toBe(null)
  expect(fundingSteps([0, hourMs, 5 * hourMs, 9 * hourMs]).map(({ isWhole }) => isWhole)).toEqual([true, true, true])
  expect(fundingSteps([0, hourMs, 5 * hourMs, 6 * hourMs]).map(({ isWhole }) => isWhole)).toEqual([true, false, true])
  expect(fundingSteps([0, hourMs])).toEqual([{ from: 0, to: hourMs, isWhole: null }])
  expect(fundingSteps([0, 2 * hourMs, 3 * hourMs]).map(({ isWhole }) => isWhole)).toEqual([false, true])
  expect(fundingSteps([0, 9 * hourMs])).toEqual([{ from: 0, to: 9 * hourMs, isWhole: false }])
})
