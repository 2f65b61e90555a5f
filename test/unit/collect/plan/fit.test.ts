import { describe, expect, test } from 'vitest'
import { planConfig } from '../../../../src/collect/plan/plan.js'
import { assumedUniverse, type PlanInstrument } from '../../../../src/collect/plan/planUniverse.js'
import { loadConfig } from '../../../../src/config.js'
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
