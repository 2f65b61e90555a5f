import { expect, test } from 'vitest'
import { type PlanInstrument, rankInstruments, type Select } from '../../../../src/collect/universe/planUniverse.js'
import { instrumentKinds } from '../../../../src/market/instrument.js'

const all: Omit<Select, 'busiest'> = {
  categories: ['SPOT', 'USDT-FUTURES'],
  kinds: [...instrumentKinds],
  symbols: ['*'],
  exclude: [],
}

const candidate = (symbol: string, more: Partial<PlanInstrument> = {}): PlanInstrument => ({
  category: 'SPOT',
  symbol,
  status: 'online',
  kind: 'crypto',
  turnover24h: '0',
  hasRpi: false,
  measuredFillsPerSecond: null,
  ...more,
})

const market = [
  candidate('ETHUSDT', { turnover24h: '2000' }),
  candidate('BTCUSDT', { turnover24h: '30000.5' }),
  candidate('BTCUSDT', { category: 'USDT-FUTURES', turnover24h: '90000' }),
  candidate('BTCUSDT', { category: 'MARGIN', turnover24h: null }),
  candidate('OLDUSDT', { status: 'offline', turnover24h: '99999' }),
  candidate('NEWUSDT', { status: 'listed' }),
  candidate('HALTUSDT', { status: 'limit_open', turnover24h: '10' }),
]

const rank = (instruments: readonly PlanInstrument[], select: Omit<Select, 'busiest'>) =>
  rankInstruments({ kind: 'listed', instruments }, select)
const chosen = (select: Partial<Select>) =>
  rank(market, { ...all, ...select }).ranked.map(({ category, symbol }) => `${category} ${symbol}`)

test('covers the chosen categories, the busiest first, without those that have no market', () => {
  expect(chosen({})).toEqual(['USDT-FUTURES BTCUSDT', 'SPOT BTCUSDT', 'SPOT ETHUSDT', 'SPOT HALTUSDT'])
})
test('globs include and exclude', () => {
  expect(chosen({ symbols: ['BTC*', 'HALT?SDT'] })).toEqual(['USDT-FUTURES BTCUSDT', 'SPOT BTCUSDT', 'SPOT HALTUSDT'])
  expect(chosen({ symbols: ['btc*'], exclude: ['eth*'] })).toEqual(['USDT-FUTURES BTCUSDT', 'SPOT BTCUSDT'])
  expect(chosen({ exclude: ['btc*'] })).toEqual(chosen({ exclude: ['BTC*'] }))
  expect(chosen({ exclude: ['BTC*'] })).toEqual(['SPOT ETHUSDT', 'SPOT HALTUSDT'])
})
test('a turnover threshold narrows the choice', () => {
  expect(chosen({ minTurnover24h: '2000' })).toEqual(['USDT-FUTURES BTCUSDT', 'SPOT BTCUSDT', 'SPOT ETHUSDT'])
})
test('only the kinds that are named are covered, and the others are counted', () => {
  const tokens = ['RA', 'RB'].map((symbol) => candidate(symbol, { kind: 'tokenised_stock', turnover24h: '9' }))
  const { ranked, leftOut } = rank([...market, ...tokens], {
    ...all,
    kinds: ['crypto'],
    minTurnover24h: '2000',
  })
  expect(ranked.map(({ symbol }) => symbol)).toEqual(['BTCUSDT', 'BTCUSDT', 'ETHUSDT'])
  // Those without a market or of another category are nobody's to miss.
  expect(leftOut).toEqual({ kind: 2, turnover: 1 })
})
test('equal turnovers are ordered by key, so that the choice does not flicker', () => {
  const equals = ['C', 'A', 'B'].map((symbol) => candidate(symbol))
  const { ranked } = rank(equals, all)
  expect(rank(equals.toReversed(), all).ranked).toEqual(ranked)
})
