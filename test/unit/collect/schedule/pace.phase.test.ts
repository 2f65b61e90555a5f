import fc from 'fast-check'
import { expect, test } from 'vitest'
import { nextPlace, stablePhase } from '../../../../src/collect/schedule/pace.js'
import { categories } from '../../../../src/market/category.js'

const key = fc.record({ category: fc.constantFrom(...categories), symbol: fc.string({ minLength: 1, maxLength: 20 }) })

test('a phase lies in the cycle and is the same every time', () => {
  fc.assert(
    fc.property(key, (instrument) => {
      const phase = stablePhase(instrument)
      expect(phase).toBeGreaterThanOrEqual(0)
      expect(phase).toBeLessThan(1)
      expect(stablePhase({ ...instrument })).toBe(phase)
    }),
  )
})

test('a symbol has another place in another category', () => {
  expect(new Set(categories.map((category) => stablePhase({ category, symbol: 'BTCUSDT' }))).size).toBe(
    categories.length,
  )
})

test('phases spread over the cycle', () => {
  const tenths = new Array<number>(10).fill(0)
  for (let i = 0; i < 1000; i++) {
    const tenth = Math.floor(stablePhase({ category: 'SPOT', symbol: `COIN${i}USDT` }) * 10)
    tenths[tenth] = (tenths[tenth] ?? 0) + 1
  }
  expect(Math.min(...tenths)).toBeGreaterThan(60)
  expect(Math.max(...tenths)).toBeLessThan(140)
})

test('the next time is later, at most a period away, and pinned to absolute time', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 0, max: 4e12 }),
      fc.integer({ min: 1, max: 86_400 }),
      fc.double({ min: 0, max: 0.999, noNaN: true }),
      (now, seconds, phase) => {
        const period = seconds * 1000
        const due = nextPlace(now, period, phase)
        expect(due).toBeGreaterThan(now - 1)
        expect(due - now).toBeLessThanOrEqual(period + 1)
        expect(nextPlace(due + 1, period, phase) - due).toBeCloseTo(period, 2)
      },
    ),
  )
})
