import { describe, expect, test } from 'vitest'
import { kindOf } from '../../../src/market/instrument.js'
import { turnoverHere } from '../../../src/market/rows.js'

const unset = { category: 'SPOT', isReality: null, isRwa: null, symbolType: null } as const

describe('the kind of an instrument', () => {
  test.each([
    ['a coin whose flags are left out', { symbolType: 'crypto' }, 'crypto'],
    ['a coin of which nothing is said', {}, 'crypto'],
    ['a token, even one that is called crypto', { isReality: true, symbolType: 'crypto' }, 'tokenised_stock'],
    ['a token that is said to stand for a real-world asset, too', { isReality: true, isRwa: true }, 'tokenised_stock'],
    ['a perpetual of a stock', { category: 'USDT-FUTURES', isRwa: true, symbolType: 'stock' }, 'rwa_perpetual'],
    ['a metal', { symbolType: 'metal', isRwa: true }, 'metal'],
    ['a commodity in another case', { symbolType: 'Commodity' }, 'commodity'],
    ['a real-world asset that is called crypto', { isRwa: true, symbolType: 'crypto' }, 'rwa_token'],
    ['a type that nobody knew', { symbolType: 'weather' }, 'other'],
  ] as const)('%s', (_what, signs, kind) => {
    expect(kindOf({ ...unset, ...signs })).toBe(kind)
  })
})

describe('turnover here', () => {
  test.each([
    ['a token: the part that was traded here', 'tokenised_stock', '21900505300.4446', '1729836.5035', '1729836.5035'],
    ['a token without that part: none, and never the tape elsewhere', 'tokenised_stock', '22400000000', null, '0'],
    ['a token with a zero there', 'tokenised_stock', '22400000000', '0', '0'],
    ['a coin: its turnover', 'crypto', '374000000', null, '374000000'],
    ['a coin whose unused field is zero', 'crypto', '374000000', '0', '374000000'],
    ['a ticker that says nothing', 'crypto', null, null, null],
  ] as const)('%s', (_what, kind, turnover24h, platformTurnover24h, here) => {
    expect(turnoverHere(kind, { turnover24h, platformTurnover24h })).toBe(here)
  })
})
