import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { tradedCategories } from '../../../../src/market/category.js'
import { plainQuirks } from '../../../support/quirks.js'
import { createWorld } from '../../../../src/simulator/world/world.js'

const dayMs = 86_400_000
const world = createWorld({ seed: 2, scale: 'tiny', activity: { scale: 0.15 }, quirks: () => plainQuirks })
const moments = fc.integer({ min: Date.UTC(2026, 0), max: Date.UTC(2027, 0) })
/** The tickers of all instruments that trade here; those of tokens follow a tape abroad. */
const rows = (at: number) =>
  tradedCategories
    .flatMap((category) => world.tickers(category, at).map((row) => ({ category, row })))
    .filter(({ row }) => row['platformTurnover24h'] === undefined)

/** Sum of decimals of the same number of places, as decimal text. */
function sum(decimals: readonly string[]): string {
  const places = decimals[0]?.split('.')[1]?.length ?? 0
  const total = String(decimals.reduce((all, decimal) => all + BigInt(decimal.replace('.', '')), 0n))
  const padded = total.padStart(places + 1, '0')
  return places === 0 ? padded : `${padded.slice(0, -places)}.${padded.slice(-places)}`
}

describe('tickers', () => {
  test('the last price is that of the last fill, and the 24h volume exactly the sum of the fills of the 24 hours', () => {
    fc.assert(
      fc.property(moments, fc.nat(), (at, pick) => {
        const all = rows(at)
        const { category, row } = all[pick % all.length] ?? { category: 'SPOT' as const, row: {} }
        const symbol = String(row['symbol'])
        const ts = Number(row['ts'])
        expect(row['lastPrice']).toBe(world.latestFills(category, symbol, ts, 1)[0]?.price)
        const fills = world.fills(category, symbol, ts - dayMs + 1, ts + 1)
        const field = category === 'COIN-FUTURES' ? 'turnover24h' : 'volume24h'
        expect(row[field]).toBe(sum(fills.map((fill) => fill.size)))
      }),
      { numRuns: 25 },
    )
  })

  test('a fill exactly 24 hours ago is no longer in the volume, one of this millisecond is', () => {
    const at = Date.UTC(2026, 4, 5)
    const lag = at - Number(world.ticker('SPOT', 'BTCUSDT', at)?.['ts'])
    const fills = world.fills('SPOT', 'BTCUSDT', at - 4 * dayMs, at)
    // Tickers are renewed every half second: of these fills, some happened just when there was a new one.
    const onTheDot = fills.filter(({ ts }) => (Number(ts) + lag) % 500 === 0).slice(0, 8)
    expect(onTheDot.length).toBeGreaterThan(5)
    for (const ts of onTheDot.flatMap((fill) => [Number(fill.ts), Number(fill.ts) + dayMs])) {
      const row = world.ticker('SPOT', 'BTCUSDT', ts + lag)
      expect(row?.['ts']).toBe(String(ts))
      const day = world.fills('SPOT', 'BTCUSDT', ts - dayMs + 1, ts + 1)
      expect(row?.['volume24h']).toBe(sum(day.map((fill) => fill.size)))
    }
  })

  test('the volume and the last price stay the same while nothing is traded', () => {
    const symbol = 'QUIETUSDT'
    const launchTime = Date.UTC(2026, 1, 1)
    world.put({ category: 'SPOT', symbol, launchTime, fillsPerHour: 12 })
    const start = launchTime + 40 * dayMs
    let changes = 0
    for (let at = start; at < start + dayMs; at += 60_000) {
      const before = world.ticker('SPOT', symbol, at)
      const after = world.ticker('SPOT', symbol, at + 60_000)
      const [from, to] = [Number(before?.['ts']), Number(after?.['ts'])]
      // The sum changes with the fills that come in and with those that fall out at the other end of the day.
      const moved =
        world.fills('SPOT', symbol, from + 1, to + 1).length +
        world.fills('SPOT', symbol, from - dayMs + 1, to - dayMs + 1).length
      const isSame = before?.['volume24h'] === after?.['volume24h'] && before?.['lastPrice'] === after?.['lastPrice']
      expect(isSame).toBe(moved === 0)
      if (moved > 0) changes++
    }
    expect(changes).toBeGreaterThan(20)
  })

  test('low, last and high are in order; the best prices are those of the book at the same moment', () => {
    fc.assert(
      fc.property(moments, (at) => {
        for (const { category, row } of rows(at)) {
          const lag = at - Number(row['ts'])
          expect(lag).toBeGreaterThanOrEqual(500)
          expect(lag).toBeLessThanOrEqual(1_700)
          expect(Number(row['lowPrice24h'])).toBeLessThanOrEqual(Number(row['lastPrice']))
          expect(Number(row['lastPrice'])).toBeLessThanOrEqual(Number(row['highPrice24h']))
          const book = world.orderBook(category, String(row['symbol']), Number(row['ts']), 1)
          expect(book.b[0]).toEqual([row['bid1Price'], row['bid1Size']])
          expect(book.a[0]).toEqual([row['ask1Price'], row['ask1Size']])
        }
      }),
      { numRuns: 20 },
    )
  })

  test('futures fields are given for futures only, delivery fields for delivery futures only', () => {
    const at = Date.UTC(2026, 9, 1)
    const spot = world.ticker('SPOT', 'BTCUSDT', at) ?? {}
    const perpetual = world.ticker('USDT-FUTURES', 'BTCUSDT', at) ?? {}
    const delivery = world.ticker('USDT-FUTURES', 'BTCUSDTZ26', at) ?? {}
    const reality = world.ticker('SPOT', 'RNVDAUSDT', at) ?? {}
    expect(spot).not.toHaveProperty('markPrice')
    expect(perpetual['indexPrice']).toMatch(/^\d+\.\d{16}$/)
    expect(perpetual).not.toHaveProperty('deliveryTime')
    expect(delivery['deliveryStatus']).toBe('delivery_normal')
    expect(Number(delivery['deliveryTime'])).toBe(Date.UTC(2026, 11, 25, 8))
    expect(spot).not.toHaveProperty('platformTurnover24h')
    expect(reality).toHaveProperty('platformTurnover24h')
  })
})
