import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { plainQuirks } from '../../../support/quirks.js'
import { createWorld } from '../../../../src/simulator/world/world.js'

const world = createWorld({ seed: 3, scale: 'tiny', activity: {}, quirks: () => plainQuirks })
const moments = fc.integer({ min: Date.UTC(2026, 0), max: Date.UTC(2027, 0) })
const markets = fc.constantFrom<['SPOT' | 'USDC-FUTURES', string]>(
  ['SPOT', 'BTCUSDT'],
  ['SPOT', 'WEIUSDT'],
  ['USDC-FUTURES', 'BTCPERP'],
)
/** Compares decimals of the same number of places without rounding them. */
const digits = (decimal: string): bigint => BigInt(decimal.replace('.', ''))

describe('order books', () => {
  test('asks ascend, bids descend, they do not cross, and no price stands twice', () => {
    fc.assert(
      fc.property(markets, moments, ([category, symbol], at) => {
        const book = world.orderBook(category, symbol, at, 200)
        const prices = [...book.b.toReversed(), ...book.a].map(([price]) => digits(price))
        expect(prices).toHaveLength(400)
        for (const [i, price] of prices.entries()) if (i > 0) expect(price > (prices[i - 1] ?? price)).toBe(true)
        expect((prices[0] ?? 0n) > 0n).toBe(true)
      }),
      { numRuns: 30 },
    )
  })

  test('a deeper book begins with the shallower one; the RPI book has the same levels', () => {
    const at = Date.UTC(2026, 8, 9, 1, 2, 3)
    const deep = world.orderBook('SPOT', 'BTCUSDT', at, 1_000)
    expect(deep.a).toHaveLength(1_000)
    expect(deep.a.slice(0, 5)).toEqual(world.orderBook('SPOT', 'BTCUSDT', at, 5).a)
    const rpi = world.rpiOrderBook('SPOT', 'BTCUSDT', at, 1_000)
    expect(rpi.b.map(([price, size]) => [price, size])).toEqual(deep.b)
    expect(rpi.b.some((level) => Number(level[2]) > 0)).toBe(true)
  })

  test('polling within a tenth of a second gives the same snapshot, later another one', () => {
    const at = Date.UTC(2026, 8, 9, 1, 2, 3)
    expect(world.orderBook('SPOT', 'BTCUSDT', at + 99, 5)).toEqual(world.orderBook('SPOT', 'BTCUSDT', at, 5))
    expect(world.orderBook('SPOT', 'BTCUSDT', at + 100, 5).ts).not.toBe(world.orderBook('SPOT', 'BTCUSDT', at, 5).ts)
    expect(world.orderBook('SPOT', 'BTCUSDT', at + 9_000, 5)).not.toEqual(world.orderBook('SPOT', 'BTCUSDT', at, 5))
  })

  test('some carry more digits than a double holds', () => {
    const { a } = world.orderBook('SPOT', 'WEIUSDT', Date.UTC(2026, 8, 9), 5)
    const longest = Math.max(...a.map(([, size]) => size.replace('.', '').length))
    expect(longest).toBeGreaterThanOrEqual(25)
    expect(a[0]?.[0]).toMatch(/^0\.\d{18}$/)
  })

  test('before the launch and after the end the book is empty', () => {
    const launchTime = Date.UTC(2026, 6, 1)
    world.put({ category: 'SPOT', symbol: 'SOONUSDT', launchTime, offTime: launchTime + 1_000 })
    expect(world.orderBook('SPOT', 'SOONUSDT', launchTime - 1, 5)).toMatchObject({ a: [], b: [] })
    expect(world.orderBook('SPOT', 'SOONUSDT', launchTime, 5).a).toHaveLength(5)
    expect(world.orderBook('SPOT', 'SOONUSDT', launchTime + 1_000, 5)).toMatchObject({ a: [], b: [] })
  })
})
