import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Quirks } from '../../../../src/simulator/world/quirks.js'
import { observedQuirks } from '../../../support/quirks.js'
import type { Scale } from '../../../../src/simulator/world/catalogue.js'
import { createWorld } from '../../../../src/simulator/world/world.js'

const dayMs = 86_400_000
const hourMs = 3_600_000
/** A Wednesday on which the exchange abroad is open. */
const open = Date.UTC(2026, 9, 7, 16)

function worldOf(scale: Scale, quirks: Partial<Quirks> = {}) {
  const all = { ...observedQuirks, ...quirks }
  return createWorld({ seed: 7, scale, activity: {}, quirks: () => all })
}
const live = worldOf('live')
const small = worldOf('small')
const spot = live.instruments('SPOT', open)

/** Decimal text as an integer of 10^-places. */
function units(decimal: string, places: number): bigint {
  const [whole = '', fraction = ''] = decimal.split('.')
  return BigInt(whole + fraction.padEnd(places, '0'))
}

describe('instruments of the market as it is', () => {
  test('the live scale has as many rows of each kind as were counted, and small a few of each', () => {
    const tokens = spot.filter((row) => row['isReality'] === 'yes')
    expect(tokens).toHaveLength(2_813)
    expect(spot.filter((row) => row['symbolType'] === 'metal')).toHaveLength(2)
    expect(Math.abs(spot.length - 3_393)).toBeLessThan(20)
    expect(Math.abs(live.instruments('USDT-FUTURES', open).length - 804)).toBeLessThan(20)
    expect(live.instruments('USDC-FUTURES', open)).toHaveLength(50)
    expect(live.instruments('MARGIN', open)).toHaveLength(320)
    const ofSmall = small.instruments('SPOT', open)
    expect(ofSmall.filter((row) => row['isReality'] === 'yes')).toHaveLength(8)
    expect(ofSmall.filter((row) => row['symbolType'] === 'metal')).toHaveLength(2)
    expect(worldOf('tiny').instrument('SPOT', 'RNVDAUSDT', open)).toMatchObject({ isReality: 'yes' })
  })

  test('symbolType says crypto of some tokens and of a stock perpetual, which isReality and isRwa tell', () => {
    const types = new Set(spot.filter((row) => row['isReality'] === 'yes').map((row) => row['symbolType']))
    expect(types).toEqual(new Set(['stock', 'crypto']))
    expect(small.instrument('USDT-FUTURES', 'HPQUSDT', open)).toMatchObject({ symbolType: 'crypto', isRwa: 'YES' })
    expect(small.instrument('USDT-FUTURES', 'BTCUSDT', open)).toMatchObject({ isRwa: 'NO' })
  })

  test('symbols of tokens begin with R, and so do those of some crypto', () => {
    for (const row of spot) if (row['isReality'] === 'yes') expect(row['symbol']).toMatch(/^R/)
    expect(small.instrument('SPOT', 'RESOLVUSDT', open)).toMatchObject({ isReality: 'no', symbolType: 'crypto' })
  })

  test('crypto rows of spot leave out isRwa and areaSymbol, token rows leave out isRwa', () => {
    for (const row of spot) {
      expect(row).not.toHaveProperty('isRwa')
      expect('areaSymbol' in row).toBe(row['isReality'] === 'yes')
    }
  })

  test('symbols need not be ASCII', () => {
    for (const symbol of ['龙虾USDT', '牛来USDT']) {
      expect(small.instrument('USDT-FUTURES', symbol, open)).toMatchObject({ symbol, type: 'perpetual' })
    }
  })

  test('coin futures: some 20 perpetuals and deliveries named after their month', () => {
    const rows = live.instruments('COIN-FUTURES', open)
    const symbols = (type: string) => rows.filter((row) => row['type'] === type).map((row) => row['symbol'])
    expect(symbols('perpetual')).toHaveLength(20)
    expect(symbols('perpetual')).toContain('BTCUSD_CM')
    expect(symbols('delivery')).toContain('BTCCMZ26')
  })

  test('a stock perpetual is an ordinary market', () => {
    const ticker = small.ticker('USDT-FUTURES', 'NVDAUSDT', open)
    const fills = small.fills('USDT-FUTURES', 'NVDAUSDT', open - hourMs, open)
    expect(fills.length).toBeGreaterThan(1_000)
    expect(ticker).not.toHaveProperty('platformTurnover24h')
    expect(small.orderBook('USDT-FUTURES', 'NVDAUSDT', open, 5).a).toHaveLength(5)
  })
})

describe('tokens', () => {
  const symbols = spot.filter((row) => row['isReality'] === 'yes').map((row) => String(row['symbol']))
  const turnover = (symbol: string, at: number) => Number(live.ticker('SPOT', symbol, at)?.['turnover24h'])

  test('the turnover of the ticker is many times that of spot BTC, what was traded here far less', () => {
    const row = live.ticker('SPOT', 'RNVDAUSDT', open) ?? {}
    expect(Number(row['turnover24h'])).toBeGreaterThan(10 * turnover('BTCUSDT', open))
    expect(Number(row['platformTurnover24h'])).toBeLessThan(Number(row['turnover24h']) / 1_000)
    const total = symbols.reduce((sum, symbol) => sum + turnover(symbol, open), 0)
    expect(total).toBeGreaterThan(1e11)
    expect(total).toBeLessThan(3e12)
  })

  test('the 24h volume rises with the hours of the exchange abroad and stands still over nights and weekends', () => {
    const steps = (from: number) => [0, 1, 2, 3].map((step) => turnover('RNVDAUSDT', from + step * 60_000))
    expect(new Set(steps(open)).size).toBe(4)
    expect(steps(open)).toEqual(steps(open).toSorted((a, b) => a - b))
    for (const closed of [Date.UTC(2026, 9, 8, 3), Date.UTC(2026, 9, 10, 16)])
      expect(new Set(steps(closed)).size).toBe(1)
    const always = worldOf('tiny', { stockExchangeHours: 'always' })
    const weekend = [0, 60_000].map((later) => {
      return Number(always.ticker('SPOT', 'RNVDAUSDT', Date.UTC(2026, 9, 10, 16) + later)?.['turnover24h'])
    })
    expect(weekend[1]).toBeGreaterThan(weekend[0] ?? Number.NaN)
  })

  test('platformTurnover24h is exactly what was traded here, or "" or "0"', () => {
    const values = new Set<string>()
    for (const symbol of symbols.slice(0, 300)) {
      const row = live.ticker('SPOT', symbol, open) ?? {}
      const ts = Number(row['ts'])
      const value = row['platformTurnover24h'] ?? 'absent'
      // Of the first, more is said to be traded than its fills show; the others agree with theirs.
      if (symbol === 'RNVDAUSDT' || ts === 0) continue
      const fills = live.fills('SPOT', symbol, ts - dayMs + 1, ts + 1)
      const paid = fills.reduce((sum, fill) => sum + units(fill.price, 18) * units(fill.size, 18), 0n)
      expect(Number(value)).toBeCloseTo(Number(paid) / 1e36, 3)
      values.add(value)
    }
    expect(values).toContain('')
    expect(values).toContain('0')
    expect(values.size).toBeGreaterThan(20)
  })

  test('many have no fills at all, and the newest fill of many others is many hours old', () => {
    const newest = symbols.map((symbol) => Number(live.latestFills('SPOT', symbol, open, 1)[0]?.ts))
    const share = (test: (ts: number) => boolean) => newest.filter(test).length / newest.length
    expect(share(Number.isNaN)).toBeGreaterThan(0.3)
    expect(share((ts) => open - ts > 6 * hourMs)).toBeGreaterThan(0.2)
    expect(share((ts) => open - ts < hourMs)).toBeGreaterThan(0.05)
  })

  test('most of their books are empty although the ticker shows a bid and an ask', () => {
    const empty = symbols.filter((symbol) => live.orderBook('SPOT', symbol, open, 5).a.length === 0)
    expect(empty.length / symbols.length).toBeGreaterThan(0.7)
    for (const symbol of empty.slice(0, 50)) {
      const row = live.ticker('SPOT', symbol, open)
      expect(Number(row?.['bid1Price'])).toBeGreaterThan(0)
      expect(Number(row?.['ask1Price'])).toBeGreaterThan(Number(row?.['bid1Price']))
    }
  })

  test('their candles leave out nights and weekends, as many of 15 minutes as were counted', () => {
    const some = symbols.filter((_, place) => place % 12 === 0)
    const missing = some.flatMap((symbol) => {
      const series = { category: 'SPOT', symbol, type: 'market', interval: '15m' } as const
      const rows = live.candles(series, open - 60 * dayMs, open, open)
      return rows.length === 0 ? [] : [60 * 96 - rows.length]
    })
    expect(missing.filter((count) => count >= 2_157 && count <= 3_259).length).toBeGreaterThan(5)
  })

  test('the same fills whatever was asked before, none in nights and weekends', () => {
    const fresh = worldOf('small')
    fc.assert(
      fc.property(fc.integer({ min: Date.UTC(2025, 0), max: Date.UTC(2027, 0) }), (at) => {
        const rows = small.latestFills('SPOT', 'RSPYUSDT', at, 5)
        expect(fresh.latestFills('SPOT', 'RSPYUSDT', at, 5)).toEqual(rows)
        for (const { ts } of rows) {
          const date = new Date(Number(ts))
          expect(date.getUTCDay() % 6).not.toBe(0)
          expect(date.getUTCHours()).toBeGreaterThanOrEqual(8)
        }
      }),
    )
  })
})

describe('oddities that can be made up', () => {
  const launchTime = Date.UTC(2026, 0, 5)
  const odd = { category: 'SPOT', symbol: 'ODDUSDT', launchTime, fillsPerHour: 600 } as const

  test('outsideTape and lastFillBefore: the ticker claims ever more and the fills stay the same old hundred', () => {
    const world = worldOf('tiny')
    world.put({ ...odd, outsideTape: { turnoverPerDay: 5e9, hours: 'always' }, lastFillBefore: launchTime + dayMs })
    const volume = (at: number) => Number(world.ticker('SPOT', 'ODDUSDT', at)?.['volume24h'])
    expect(volume(open + 60_000)).toBeGreaterThan(volume(open))
    const fills = world.latestFills('SPOT', 'ODDUSDT', open, 100)
    expect(fills).toHaveLength(100)
    expect(world.latestFills('SPOT', 'ODDUSDT', open + dayMs, 100)).toEqual(fills)
  })

  test('book: empty, still or frozen', () => {
    const world = worldOf('tiny')
    const books = (book: 'empty' | 'still' | 'frozen' | 'live') => {
      world.put({ ...odd, symbol: `ODD${book}`, book })
      return [open, open + dayMs].map((at) => world.orderBook('SPOT', `ODD${book}`, at, 3))
    }
    const [empty] = books('empty')
    const [still, stillLater] = books('still')
    const [frozen, frozenLater] = books('frozen')
    const [moving, movingLater] = books('live')
    expect(empty).toMatchObject({ a: [], b: [] })
    expect(still?.a).toEqual(stillLater?.a)
    expect(still?.ts).not.toBe(stillLater?.ts)
    expect(frozen).toEqual(frozenLater)
    expect(moving?.a).not.toEqual(movingLater?.a)
  })

  test('candles: none at all; rowFields and tickerFields: any flag', () => {
    const world = worldOf('tiny')
    world.put({
      ...odd,
      candles: 'none',
      rowFields: { symbolType: 'weather', isMoon: 'yes', status: null },
      tickerFields: { turnover24h: '99999999999', lastPrice: null },
    })
    const series = { category: 'SPOT', symbol: 'ODDUSDT', type: 'market', interval: '1m' } as const
    expect(world.candles(series, open - hourMs, open, open)).toEqual([])
    const row = world.instrument('SPOT', 'ODDUSDT', open)
    expect(row).toMatchObject({ symbolType: 'weather', isMoon: 'yes' })
    expect(row).not.toHaveProperty('status')
    expect(world.ticker('SPOT', 'ODDUSDT', open)).toMatchObject({ turnover24h: '99999999999' })
    expect(world.ticker('SPOT', 'ODDUSDT', open)).not.toHaveProperty('lastPrice')
  })
})
