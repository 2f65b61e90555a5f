import { describe, expect, test } from 'vitest'
import { queries, wrongParameters } from '../../../../src/serve/api/parameters.js'

test('parameters arrive as text and have defaults', () => {
  const given = { category: 'SPOT', symbol: 'BTCUSDT', limit: '7' }
  expect(queries.candles.parse(given)).toEqual({
    category: 'SPOT',
    symbol: 'BTCUSDT',
    type: 'market',
    interval: '1m',
    limit: 7,
  })
})

describe('a wrong parameter is told in one line', () => {
  const key = { category: 'SPOT', symbol: 'BTCUSDT' }
  test.each([
    [{ ...key, limit: '1501' }, 'limit: must be at most 1500'],
    [{ ...key, limit: '0' }, 'limit: must be at least 1'],
    [{ ...key, limit: 'many' }, 'limit: must be a number'],
    [{ ...key, limit: '1.5' }, 'limit: must be a whole number'],
    [{ symbol: 'X' }, 'category: is missing; it must be one of SPOT, USDT-FUTURES, COIN-FUTURES, USDC-FUTURES'],
    [{ category: 'SPOT' }, 'symbol: is missing; it must be text, given once'],
    [{ ...key, symbol: ['X', 'Y'] }, 'symbol: must be text, given once'],
    [{ ...key, symbol: '' }, 'symbol: must not be empty'],
    [{ ...key, interval: '1h' }, 'interval: must be one of 1m, 3m, 5m, 15m, 30m, 1H, 4H, 6H, 12H, 1D'],
    [{ ...key, colour: 'red' }, 'colour: no such parameter; see /api'],
    [{ limit: '0', x: '1' }, /^category: .*; symbol: is missing; .*; limit: .*; x: /],
  ])('%o', (given, message) => {
    expect(wrongParameters(queries.candles.safeParse(given).error?.issues ?? [], given)).toMatch(message)
  })
})
