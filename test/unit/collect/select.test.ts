import { expect, test } from 'vitest'
import { type Candidate, type Select, selectInstruments } from '../../../src/collect/select.js'

const all: Select = { categories: ['SPOT', 'USDT-FUTURES'], symbols: ['*'], exclude: [], busiest: Infinity }

const candidate = (symbol: string, more: Partial<Candidate> = {}): Candidate => ({
  category: 'SPOT',
  symbol,
  status: 'online',
  turnover24h: '0',
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

const chosen = (select: Partial<Select>) =>
  selectInstruments(market, { ...all, ...select }).map(({ category, symbol }) => `${category} ${symbol}`)

test('covers the chosen categories, the busiest first, without those that have no market', () => {
  expect(chosen({})).toEqual(['USDT-FUTURES BTCUSDT', 'SPOT BTCUSDT', 'SPOT ETHUSDT', 'SPOT HALTUSDT'])
})
test('globs include and exclude', () => {
  expect(chosen({ symbols: ['BTC*', 'HALT?SDT'] })).toEqual(['USDT-FUTURES BTCUSDT', 'SPOT BTCUSDT', 'SPOT HALTUSDT'])
  expect(chosen({ exclude: ['BTC*'] })).toEqual(['SPOT ETHUSDT', 'SPOT HALTUSDT'])
})
test('a turnover threshold and a number of the busiest narrow the choice', () => {
  expect(chosen({ minTurnover24h: '2000' })).toEqual(['USDT-FUTURES BTCUSDT', 'SPOT BTCUSDT', 'SPOT ETHUSDT'])
  expect(chosen({ busiest: 1 })).toEqual(['USDT-FUTURES BTCUSDT'])
})
test('equal turnovers are ordered by key, so that the choice does not flicker', () => {
  const equals = ['C', 'A', 'B'].map((symbol) => candidate(symbol))
  const first = selectInstruments(equals, { ...all, busiest: 2 })
  expect(selectInstruments(equals.toReversed(), { ...all, busiest: 2 })).toEqual(first)
})
