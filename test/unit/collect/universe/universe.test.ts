import { expect, test } from 'vitest'
import { streams } from '../../../../src/collect/streams/streams.js'
import { Universe } from '../../../../src/collect/universe/universe.js'
import { loadConfig } from '../../../../src/config/resolve.js'
import { bounds } from '../../../../src/market/bounds.js'
import { categories } from '../../../../src/market/category.js'
import { type Instrument, instrumentKinds } from '../../../../src/market/instrument.js'
import type { Ticker } from '../../../../src/market/rows.js'

const instrument = (symbol: string) => ({ category: 'SPOT', symbol, status: 'online' }) as Instrument
const ticker = (symbol: string, volume24h: string, lastPrice: string) =>
  ({
    category: 'SPOT',
    symbol,
    ts: 1,
    volume24h,
    lastPrice,
    turnover24h: volume24h,
    platformTurnover24h: null,
  }) as Ticker
const select = {
  categories: ['SPOT' as const],
  kinds: [...instrumentKinds],
  symbols: ['*'],
  exclude: [],
  busiest: Infinity,
}

test('a list replaces what was known of its category, and tickers stay with those that remain', () => {
  const universe = new Universe()
  universe.setInstruments('SPOT', [instrument('A'), instrument('B')], true)
  universe.setTickers([ticker('A', '5', '1'), ticker('GONE', '9', '1')])
  universe.setInstruments('SPOT', [instrument('A'), instrument('C')], true)
  expect(universe.select(select).map(({ symbol }) => symbol)).toEqual(['A', 'C'])
  expect(universe.tradeSign({ category: 'SPOT', symbol: 'A' })).toMatchObject({ volume24h: '5', lastPrice: '1' })
})

test('no list makes the market too large, and those that were there before keep their places', () => {
  const universe = new Universe()
  const listOf = (name: string) => Array.from({ length: 9_000 }, (_, place) => instrument(`${name}${place}`))
  for (const category of categories) universe.setInstruments(category, [instrument('FIRST')], true)
  for (const category of categories) universe.setInstruments(category, listOf('A'), false)
  const { instruments } = universe.planned()
  expect(instruments).toHaveLength(bounds.recordedInstruments)
  for (const category of categories) universe.setInstruments(category, [...listOf('B'), ...listOf('A')], false)
  expect(universe.planned().instruments).toEqual(instruments)
  expect(instruments.filter(({ symbol }) => symbol === 'FIRST').map(({ category }) => category)).toEqual(categories)
  // Places become free when a whole list lacks some.
  universe.setInstruments('MARGIN', [...listOf('B'), ...listOf('A')].slice(8_990), true)
  expect(universe.find({ category: 'MARGIN', symbol: 'B8990' })).toBeDefined()
  expect(universe.planned().instruments).toHaveLength(bounds.recordedInstruments)
})

const hasRpi = (instrument: { readonly hasRpi: boolean }) => instrument.hasRpi

test('a list that is empty or not whole adds to what is known, and forgets nothing', () => {
  const universe = new Universe()
  universe.setInstruments('SPOT', [instrument('A'), instrument('B')], true)
  universe.setRpiSymbols([{ category: 'SPOT', symbol: 'A' }], true)
  universe.setInstruments('SPOT', [], false)
  universe.setInstruments('SPOT', [instrument('C')], false)
  universe.setRpiSymbols([], false)
  expect(universe.select(select).map(({ symbol }) => symbol)).toEqual(['A', 'B', 'C'])
  expect(universe.select(select, hasRpi).map(({ symbol }) => symbol)).toEqual(['A'])
})

test('whether an instrument traded is unknown without a ticker', () => {
  const universe = new Universe()
  const key = { category: 'SPOT' as const, symbol: 'A' }
  universe.setInstruments('SPOT', [instrument('A')], true)
  expect(universe.tradeSign(key)).toBeNull()
  universe.setTickers([ticker('A', '5', '1')])
  expect(universe.tradeSign(key)).toEqual({ ts: 1, volume24h: '5', lastPrice: '1' })
})

test.each(['bid1Price', 'bid1Size', 'ask1Price', 'ask1Size'] as const)(
  'another %s claims that the book has changed, and nothing else does',
  (field) => {
    const universe = new Universe()
    const key = { category: 'SPOT' as const, symbol: 'A' }
    const first = { ...ticker('A', '5', '1'), bid1Price: '1', bid1Size: '10', ask1Price: '2', ask1Size: '20' }
    universe.setInstruments('SPOT', [instrument('A')], true)
    expect(universe.quoteSign(key)).toBeNull()
    universe.setTickers([first])
    const sign = universe.quoteSign(key)
    universe.setTickers([{ ...first, ts: 2, volume24h: '6', lastPrice: '1.5', turnover24h: '7' }])
    expect(universe.quoteSign(key)).toBe(sign)
    universe.setTickers([{ ...first, [field]: '3' }])
    expect(universe.quoteSign(key)).not.toBe(sign)
    universe.setTickers([first])
    expect(universe.quoteSign(key)).toBe(sign)
  },
)

test('RPI books are chosen among the symbols on the RPI list, whichever list came first', () => {
  const universe = new Universe()
  universe.setRpiSymbols([{ category: 'SPOT', symbol: 'B' }], true)
  universe.setInstruments('SPOT', [instrument('A'), instrument('B')], true)
  expect(universe.select(select, hasRpi).map(({ symbol }) => symbol)).toEqual(['B'])
  universe.setRpiSymbols([{ category: 'SPOT', symbol: 'A' }], true)
  expect(universe.select(select, hasRpi).map(({ symbol }) => symbol)).toEqual(['A'])
})

test('a tokenised stock ranks by what was traded here, not by the tape of a stock exchange elsewhere', () => {
  const universe = new Universe()
  const token = (symbol: string) => ({ ...instrument(symbol), isReality: true })
  universe.setInstruments('SPOT', [instrument('BTC'), token('RNVDA'), token('RSPY'), token('RQQQ')], true)
  const outside = { turnover24h: '22400000000' }
  universe.setTickers([
    { ...ticker('BTC', '370000', '1') },
    { ...ticker('RNVDA', '1', '1'), ...outside, platformTurnover24h: '1729836.5035' },
    { ...ticker('RSPY', '1', '1'), ...outside, platformTurnover24h: '0' },
    { ...ticker('RQQQ', '1', '1'), ...outside, platformTurnover24h: null },
  ])
  expect(universe.select(select).map(({ symbol }) => symbol)).toEqual(['RNVDA', 'BTC', 'RQQQ', 'RSPY'])
  expect(universe.select({ ...select, minTurnover24h: '1' }).map(({ symbol }) => symbol)).toEqual(['RNVDA', 'BTC'])
})

test('of a tokenised stock candles are asked for as far as it has them', () => {
  const defaults = loadConfig({ env: {} })
  const { candles } = defaults.streams
  const config = {
    ...defaults,
    streams: {
      ...defaults.streams,
      candles: {
        ...candles,
        types: ['market' as const, 'mark' as const],
        intervals: ['1m' as const, '30m' as const],
        select,
      },
    },
  }
  const universe = new Universe()
  universe.setInstruments('SPOT', [instrument('BTC'), { ...instrument('RNVDA'), isReality: true }], true)
  const targets = streams.candles.targetsOf(config, universe.select(select), universe)
  expect(targets.map(({ symbol, type, interval }) => `${symbol} ${type} ${interval}`)).toEqual([
    'BTC market 1m',
    'BTC market 30m',
    'BTC mark 1m',
    'BTC mark 30m',
    'RNVDA market 1m',
  ])
})

test('rates that were recorded stay with an instrument through new lists, until none is recorded', () => {
  const universe = new Universe()
  universe.setFillRates([{ category: 'SPOT', symbol: 'A', perSecond: 2.5 }])
  universe.setInstruments('SPOT', [instrument('A'), instrument('B')], true)
  universe.setInstruments('SPOT', [instrument('A'), instrument('B')], true)
  const rates = () => universe.planned().instruments.map((known) => known.measuredFillsPerSecond)
  expect(rates()).toEqual([2.5, null])
  // A without fills in the last days has no rate any more, listed or listed again.
  universe.setFillRates([{ category: 'SPOT', symbol: 'B', perSecond: 1 }])
  expect(rates()).toEqual([null, 1])
  universe.setInstruments('SPOT', [instrument('B')], true)
  universe.setInstruments('SPOT', [instrument('B'), instrument('A')], true)
  expect(rates()).toEqual([1, null])
})

test('one whose responses show no trades ranks last, whatever its ticker claims, until they show one', () => {
  const universe = new Universe()
  universe.setInstruments('SPOT', [instrument('ODD'), instrument('BTC')], true)
  universe.setTickers([ticker('ODD', '20000000000', '1'), ticker('BTC', '370000', '1')])
  const ranking = () => universe.select(select).map(({ symbol }) => symbol)
  expect(ranking()).toEqual(['ODD', 'BTC'])
  universe.setSilent({ category: 'SPOT', symbol: 'ODD' }, true)
  universe.setTickers([ticker('ODD', '30000000000', '1')])
  expect(ranking()).toEqual(['BTC', 'ODD'])
  expect(universe.planned().instruments.find(({ symbol }) => symbol === 'ODD')?.measuredFillsPerSecond).toBe(0)
  universe.setSilent({ category: 'SPOT', symbol: 'ODD' }, false)
  expect(ranking()).toEqual(['ODD', 'BTC'])
})

test('the age of tickers follows the last list, also after the clock of the service was set back', () => {
  const universe = new Universe()
  const at = (ts: number, symbol: string) => ({ ...ticker(symbol, '5', '1'), ts }) as Ticker
  universe.setTickers([at(5_000, 'A'), at(4_000, 'B')])
  expect(universe.tickersAt('SPOT')).toBe(5_000)
  universe.setTickers([at(1_400, 'A'), at(1_500, 'B')])
  expect(universe.tickersAt('SPOT')).toBe(1_500)
})
