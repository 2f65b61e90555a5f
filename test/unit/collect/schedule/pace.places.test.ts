import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { keepSteady } from '../../../../src/collect/schedule/pace.js'
import { planConfig } from '../../../../src/collect/plan/plan.js'
import { assumedUniverse, type PlanInstrument } from '../../../../src/collect/universe/planUniverse.js'
import { loadConfig } from '../../../../src/config/resolve.js'
import { listed } from '../../../support/planUniverse.js'

const defaults = loadConfig({ env: {} })

describe('what fits', () => {
  const crowd = (count: number, changes: Partial<PlanInstrument> = {}) =>
    listed(
      ...Array.from({ length: count }, (_, i) => ({
        symbol: `S${i}`,
        turnover24h: '1000000',
        hasRpi: true,
        ...changes,
      })),
    )

  test('as many instruments as the limits leave room for, and it is said how many they leave none for', () => {
    const plan = planConfig(defaults, crowd(5000))
    expect(plan.fits).toBe(true)
    const books = plan.streams.find(({ stream }) => stream === 'order_books')
    // 20 a second, 10 % of them for the jitter and of the rest as much for second attempts: each instrument every 10 s.
    expect(books?.instruments).toBe(163)
    expect(books?.leftOut).toEqual({ kind: 0, turnover: 0, number: 0, limits: 5000 - 163 })
    expect(plan.notes.join('\n')).toContain('order_books leaves out 4,837 for which the limits leave no room.')
  })

  test('never refuses, whatever the tickers claim', () => {
    const plan = planConfig(defaults, crowd(3000, { turnover24h: '22400000000' }))
    expect(plan.fits).toBe(true)
    expect(plan.notes.join('\n')).toMatch(/Fills need \d+ requests\/s and get 18: the busiest/)
  })

  test('tokenised stocks are left out by default, and counted', () => {
    const plan = planConfig(defaults, assumedUniverse())
    for (const { stream, leftOut } of plan.streams) {
      if (['order_books', 'rpi_order_books', 'fills', 'candles'].includes(stream)) expect(leftOut.kind).toBe(2813)
    }
  })

  test('streams of a named size come first; the others share what is left', () => {
    const config = structuredClone(defaults)
    config.exchange.limits.overallPerMinute = 1200
    config.streams.orderBooks.select.busiest = 150
    const plan = planConfig(config, crowd(5000))
    expect(plan.fits).toBe(true)
    expect(plan.streams.find(({ stream }) => stream === 'order_books')?.instruments).toBe(150)
    expect(plan.overall.share).toBeGreaterThan(0.9)
  })
})

describe('places', () => {
  const rankings = fc.uniqueArray(fc.integer({ min: 0, max: 99 }), { maxLength: 60 })
  test('go to the first of the ranking, and whoever has one keeps it near the end', () => {
    const has =
      (...names: string[]) =>
      (name: string) =>
        names.includes(name)
    const one = () => 1
    expect(keepSteady(['A', 'B', 'C'], one, 2, has())).toEqual(['A', 'B'])
    const many = Array.from({ length: 30 }, (_, i) => `N${i}`)
    // N20 is just behind the last of twenty places, N25 too far behind.
    expect(keepSteady(many, one, 20, has('N20'))).toEqual([...many.slice(0, 19), 'N20'])
    expect(keepSteady(many, one, 20, has('N25'))).toEqual(many.slice(0, 20))
  })

  test('are never exceeded, and a second choice from the same ranking changes nothing', () => {
    fc.assert(
      fc.property(rankings, rankings, fc.integer({ min: 0, max: 50 }), (ranked, before, places) => {
        const costOf = (one: number) => 1 / (1 + (one % 4))
        const chosen = keepSteady(ranked, costOf, places, (one) => before.includes(one))
        expect(chosen.reduce((sum, one) => sum + costOf(one), 0)).toBeLessThanOrEqual(places + 1e-6)
        expect(keepSteady(ranked, costOf, places, (one) => chosen.includes(one))).toEqual(chosen)
      }),
    )
  })
})
