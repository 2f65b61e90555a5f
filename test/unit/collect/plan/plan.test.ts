import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { planConfig } from '../../../../src/collect/plan/plan.js'
import { assumedUniverse, type PlanUniverse } from '../../../../src/collect/universe/planUniverse.js'
import { type Config, loadConfig } from '../../../../src/config/resolve.js'
import { categories, isTradedCategory, tradedCategories } from '../../../../src/market/category.js'
import { instrumentKinds } from '../../../../src/market/instrument.js'
import { intervals } from '../../../../src/market/candle.js'
import { streamTraits } from '../../../../src/market/stream.js'
import { listed } from '../../../support/planUniverse.js'

const defaults = loadConfig({ env: {} })

function withStreams(change: (streams: Config['streams']) => void): Config {
  const config = structuredClone(defaults)
  change(config.streams)
  return config
}

function demandOf(config: Config, stream: string, universe: PlanUniverse = assumedUniverse()) {
  const found = planConfig(config, universe).streams.find((demand) => demand.stream === stream)
  if (!found) throw new Error(`${stream} is not planned`)
  return found
}

describe('the default configuration', () => {
  test('fits the limits at the size of the live service', () => {
    const plan = planConfig(defaults, assumedUniverse())
    expect(plan.fits).toBe(true)
    expect(plan.advice).toEqual([])
    expect(plan.universe.instruments).toEqual({
      SPOT: 3393,
      MARGIN: 320,
      'USDT-FUTURES': 804,
      'COIN-FUTURES': 25,
      'USDC-FUTURES': 50,
    })
  })
})

describe('arithmetic', () => {
  test('safe rates leave room for the jitter', () => {
    const plan = planConfig({ ...defaults, exchange: { ...defaults.exchange, latencyJitterMs: 60 } }, assumedUniverse())
    expect(plan.operations.tickers.safePerSecond).toBeCloseTo(20 / 1.06, 9)
    expect(plan.operations['rpi-orderbook'].safePerSecond).toBeCloseTo(10 / 1.06, 9)
    expect(plan.overall.safePerSecond).toBeCloseTo(6000 / 60.06, 9)
  })

  test('tickers: one request a category and run, one row an instrument', () => {
    const demand = demandOf(
      withStreams(({ tickers }) =>
        Object.assign(tickers, {
          schedule: '*/10 * * * * *',
          categories: ['SPOT', 'USDC-FUTURES'],
          watchSeconds: 0,
        }),
      ),
      'tickers',
    )
    expect(demand).toMatchObject({ instruments: 3443, requestsPerSecond: 0.2, rowsPerDay: 3443 * 8640 })
  })

  test('order books: the measured bytes of 100 levels', () => {
    const demand = demandOf(
      withStreams(({ orderBooks }) => {
        Object.assign(orderBooks, { everySeconds: 10, depth: 50 })
        orderBooks.select.busiest = 150
      }),
      'order_books',
    )
    expect(demand.instruments).toBe(150)
    expect(demand.requestsPerSecond).toBeCloseTo(15, 9)
    expect(demand.bytesPerDay / demand.rowsPerDay).toBeCloseTo(2092, 6)
    expect(demand.compressedBytesPerDay / demand.rowsPerDay).toBeCloseTo(88, 6)
  })

  test('RPI books: only instruments that have RPI quotes', () => {
    const universe = listed({ symbol: 'A', hasRpi: true }, { symbol: 'B' }, { symbol: 'C', hasRpi: true })
    expect(demandOf(defaults, 'rpi_order_books', universe).requestsPerSecond).toBeCloseTo(2 / 30, 12)
  })

  test('candles: a request for each close of each interval and type', () => {
    const config = withStreams(({ candles }) => {
      candles.intervals = ['1m', '1H']
      candles.types = ['market', 'mark', 'index']
      candles.select.busiest = 10
    })
    expect(demandOf(config, 'candles').requestsPerSecond).toBeCloseTo(10 * 3 * (1 / 60 + 1 / 3600), 12)
    expect(demandOf(config, 'candles').rowsPerDay).toBeCloseTo(10 * 3 * (1440 + 24), 6)
  })

  test('candles of more than an hour are looked at hourly', () => {
    const config = withStreams(({ candles }) => {
      candles.intervals = ['1D']
      candles.select.busiest = 24
    })
    expect(demandOf(config, 'candles').requestsPerSecond).toBeCloseTo(24 / 3600, 12)
    expect(demandOf(config, 'candles').rowsPerDay).toBeCloseTo(24, 9)
  })

  test('fills: polls stay between the shortest and the longest interval', () => {
    const config = withStreams(({ tickers }) => Object.assign(tickers, { enabled: false }))
    config.exchange.limits.perSecond.fills = 100
    expect(demandOf(config, 'fills', listed({ measuredFillsPerSecond: 1e6 })).requestsPerSecond).toBe(20)
    expect(demandOf(config, 'fills', listed({ turnover24h: '0' })).requestsPerSecond).toBe(1 / 3600)
  })

  test('fills: an instrument whose responses bring nothing is asked half as often each time, down to once an hour', () => {
    const perSecond = (fillsPerSecond: number) =>
      demandOf(defaults, 'fills', listed({ measuredFillsPerSecond: fillsPerSecond })).requestsPerSecond
    expect(perSecond(0)).toBeCloseTo(1 / 3600, 12)
    // A fill in ten minutes on average: after ten minutes there is none in 1/e of the cases, after twenty in 1/e² of those.
    const [one, two, four] = [Math.exp(-1), Math.exp(-2), Math.exp(-4)]
    const weights = [1, one, one * two, (one * two * four) / (1 - Math.exp(-6))]
    const seconds = weights.reduce((sum, weight, index) => sum + weight * Math.min(3600, 600 * 2 ** index), 0)
    expect(perSecond(1 / 600)).toBeCloseTo(weights.reduce((sum, weight) => sum + weight, 0) / seconds, 12)
    expect(perSecond(33)).toBeCloseTo(1, 12)
  })

  test('fills: rates that were recorded go before those that turnover makes one expect', () => {
    const config = withStreams(({ tickers }) => Object.assign(tickers, { enabled: false }))
    const universe = listed({ turnover24h: '22400000000', measuredFillsPerSecond: 0.5 })
    expect(demandOf(config, 'fills', universe).rowsPerDay).toBe(43_200)
    const notes = planConfig(config, universe).notes.join('\n')
    expect(notes).toContain('For 1 instruments the rate is what was recorded lately.')
  })

  test('candles: a series without trades is asked less often, and others take its place', () => {
    const silent = listed({ turnover24h: '0' })
    expect(demandOf(defaults, 'candles', silent).requestsPerSecond).toBeCloseTo(1 / 480, 12)
    const config = withStreams(({ candles }) => Object.assign(candles, { types: ['mark'] }))
    expect(demandOf(config, 'candles', silent).requestsPerSecond).toBeCloseTo(1 / 60, 12)
  })

  test('disabled streams ask for nothing', () => {
    const config = withStreams((streams) => {
      for (const stream of Object.values(streams)) stream.enabled = false
    })
    expect(planConfig(config, assumedUniverse())).toMatchObject({ fits: true, streams: [], bytesPerDay: 0 })
  })
})

describe('what cannot fit', () => {
  test('says which options to change', () => {
    const config = withStreams(({ orderBooks }) => {
      orderBooks.select.busiest = Infinity
      orderBooks.select.kinds = [...instrumentKinds]
    })
    const plan = planConfig(config, assumedUniverse())
    expect(plan.fits).toBe(false)
    expect(plan.advice).toEqual([
      {
        stream: 'order_books',
        requestsPerSecond: expect.closeTo(427.2, 9) as number,
        affordablePerSecond: 20 / 1.1,
        alternatives: [
          'raise streams.orderBooks.everySeconds',
          'lower streams.orderBooks.select.busiest or set it to fit',
        ],
      },
    ])
  })

  test('a list of one is not to be shortened', () => {
    const alternatives = (intervals: readonly string[]) => {
      const config = withStreams(({ candles }) => {
        Object.assign(candles, { intervals, types: ['market'] })
        candles.select.busiest = Infinity
      })
      return planConfig(config, assumedUniverse()).advice.flatMap((advice) => advice.alternatives)
    }
    expect(alternatives(['1m'])).toEqual(['lower streams.candles.select.busiest or set it to fit'])
    expect(alternatives(['1m', '5m'])).toContain('shorten streams.candles.intervals')
  })

  test('the overall limit alone can be too small', () => {
    const config = withStreams(({ orderBooks, rpiOrderBooks, fills, candles }) => {
      orderBooks.select.busiest = 150
      rpiOrderBooks.select.busiest = 200
      fills.select.busiest = Infinity
      candles.select.busiest = 600
    })
    config.exchange.limits.overallPerMinute = 1500
    const plan = planConfig(config, assumedUniverse())
    expect(plan.fits).toBe(false)
    expect(Object.values(plan.operations).every((use) => use.share <= 1)).toBe(true)
    // Max-min fair: whoever has to give way is left with the same share, and nobody below an equal part.
    const shares = plan.advice.map((advice) => advice.affordablePerSecond)
    expect(plan.advice.map((advice) => advice.stream)).toContain('order_books')
    expect(Math.max(...shares)).toBeCloseTo(Math.min(...shares), 9)
    expect(Math.min(...shares)).toBeGreaterThan(plan.overall.safePerSecond / plan.streams.length)
  })

  test('there is no advice where a stream leaves unused what is reserved for it, and all fits', () => {
    const config = withStreams(({ instruments, rpiSymbols, tickers, orderBooks, rpiOrderBooks, ...streams }) => {
      for (const stream of [instruments, rpiSymbols, tickers, orderBooks, rpiOrderBooks]) stream.enabled = false
      Object.assign(streams.candles, { intervals: ['5m', '12H'], types: ['mark'] })
      Object.assign(streams.fills, { maxPollSeconds: 2 })
      streams.fills.select.busiest = 1
      streams.candles.select.busiest = Infinity
    })
    Object.assign(config.exchange, { latencyJitterMs: 0 })
    config.exchange.limits.overallPerMinute = 4
    const one = { category: 'COIN-FUTURES', status: 'online', kind: 'crypto', symbol: 'S0', hasRpi: false } as const
    const instruments = [{ ...one, measuredFillsPerSecond: null, turnover24h: '94750' }]
    const plan = planConfig(config, { kind: 'listed', instruments })
    expect({ fits: plan.fits, advice: plan.advice }).toEqual({ fits: true, advice: [] })
  })

  test('there is advice for whatever does not fit, and without the streams that it names everything fits', () => {
    let refused = 0
    fc.assert(
      fc.property(arbitraryConfig, arbitraryUniverse, (config, universe) => {
        const { fits, advice } = planConfig(config, universe)
        expect(fits).toBe(advice.length === 0)
        if (fits) return
        refused += 1
        const without = structuredClone(config)
        for (const { stream, alternatives } of advice) {
          expect(alternatives.length).toBeGreaterThan(0)
          without.streams[streamTraits[stream].options].enabled = false
        }
        expect(planConfig(without, universe).fits).toBe(true)
      }),
      { numRuns: 150 },
    )
    expect(refused).toBeGreaterThan(20)
  })

  test('the advice names options that are in the configuration', () => {
    const named = (text: string) => text.match(/streams\.[\w.]+/)?.[0].split('.') ?? []
    fc.assert(
      fc.property(arbitraryConfig, (config) => {
        for (const text of planConfig(config, smallUniverse).advice.flatMap(({ alternatives }) => alternatives)) {
          expect(config).toHaveProperty(named(text))
        }
      }),
      { numRuns: 50 },
    )
  })
})

describe('notes', () => {
  test('ranking by turnover without tickers is pointed out', () => {
    const config = withStreams(({ tickers }) => Object.assign(tickers, { enabled: false }))
    expect(planConfig(config, assumedUniverse()).notes.join()).toContain('enable streams.tickers')
    expect(planConfig(defaults, assumedUniverse()).notes.join()).not.toContain('enable streams.tickers')
  })

  test('a selection that covers nothing is pointed out', () => {
    const config = withStreams(({ orderBooks }) => Object.assign(orderBooks.select, { symbols: ['NOSUCH'] }))
    expect(planConfig(config, listed({})).notes.join()).toContain('order_books covers no instrument')
  })
})

describe('an assumed market', () => {
  test('plain names bound the number of instruments, globs do not', () => {
    const covered = (symbols: string[]) =>
      demandOf(
        withStreams(({ fills }) => Object.assign(fills.select, { categories: ['SPOT'], symbols })),
        'fills',
      ).instruments
    expect(covered(['BTCUSDT', 'ETHUSDT'])).toBe(2)
    expect(covered(['BTC*'])).toBe(580)
  })
})

const arbitraryBusiest = fc.oneof(fc.constant(Infinity), fc.constant('fit' as const), fc.integer({ min: 1, max: 5000 }))

const arbitraryConfig = fc
  .record({
    overall: fc.oneof(fc.constant(6000), fc.integer({ min: 1, max: 6000 })),
    perSecond: fc.integer({ min: 1, max: 40 }),
    jitterMs: fc.integer({ min: 0, max: 10_000 }),
    tickers: fc.constantFrom('* * * * * *', '*/5 * * * * *', '0 * * * * *'),
    traded: fc.subarray([...tradedCategories], { minLength: 1 }),
    everySeconds: fc.integer({ min: 1, max: 600 }),
    busiest: fc.tuple(arbitraryBusiest, arbitraryBusiest, arbitraryBusiest, arbitraryBusiest),
    maxPollSeconds: fc.integer({ min: 2, max: 1000 }),
    intervals: fc.shuffledSubarray([...intervals], { minLength: 1 }),
    types: fc.shuffledSubarray(['market', 'mark', 'index', 'premium'] as const, { minLength: 1 }),
    enabled: fc.array(fc.boolean(), { minLength: 7, maxLength: 7 }),
  })
  .map((given) => {
    const config = structuredClone(defaults)
    const { streams, exchange } = config
    exchange.latencyJitterMs = given.jitterMs
    exchange.limits.overallPerMinute = given.overall
    for (const operation of ['orderbook', 'rpi-orderbook', 'fills', 'candles', 'tickers', 'instruments'] as const) {
      exchange.limits.perSecond[operation] = given.perSecond
    }
    streams.tickers.schedule = given.tickers
    streams.tickers.categories = given.traded
    streams.orderBooks.everySeconds = given.everySeconds
    streams.rpiOrderBooks.everySeconds = given.everySeconds
    streams.fills.maxPollSeconds = given.maxPollSeconds
    streams.candles.intervals = given.intervals
    streams.candles.types = given.types
    const selecting = [streams.orderBooks, streams.rpiOrderBooks, streams.fills, streams.candles]
    for (const [index, stream] of selecting.entries()) stream.select.busiest = given.busiest[index] ?? Infinity
    for (const [index, stream] of Object.values(streams).entries()) stream.enabled = given.enabled[index] ?? true
    return config
  })

const smallUniverse: PlanUniverse = {
  kind: 'assumed',
  instruments: assumedUniverse().instruments.filter((_, index) => index % 10 === 0),
}

const arbitraryUniverse: fc.Arbitrary<PlanUniverse> = fc.oneof(
  fc.constant(smallUniverse),
  fc
    .array(
      fc.record({
        category: fc.constantFrom(...categories),
        status: fc.constantFrom('online', 'offline', null),
        kind: fc.constantFrom(...instrumentKinds),
        measuredFillsPerSecond: fc.oneof(fc.constant(null), fc.double({ min: 0, max: 50, noNaN: true })),
        turnover24h: fc.oneof(fc.constant(null), fc.integer({ min: 0, max: 2_000_000_000 }).map(String)),
        hasRpi: fc.boolean(),
      }),
      { maxLength: 300 },
    )
    .map((rows) => ({
      kind: 'listed' as const,
      instruments: rows.map((row, index) => ({
        ...row,
        hasRpi: row.hasRpi && isTradedCategory(row.category),
        symbol: `S${index}`,
      })),
    })),
)
