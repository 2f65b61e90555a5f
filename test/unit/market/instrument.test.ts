import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { hasWildcard, kindOf, symbolMatcher } from '../../../src/market/instrument.js'
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

describe('a glob of symbols', () => {
  const all = [
    'BTCUSDT',
    'BTC/EUR',
    '.AIUSDT',
    'BRK/BUSDT',
    '!BTC',
    '龙虾USDT',
    '[A]',
    'A{B,C}',
    'a+(b)',
    'x\\y',
    '😀USD',
    'ΑΣΑ',
  ]
  const matching = (...globs: string[]) => all.filter((symbol) => symbolMatcher(globs)(symbol))

  test.each([
    ['*', all],
    ['btc*', ['BTCUSDT', 'BTC/EUR']],
    ['BTC?EUR', ['BTC/EUR']],
    ['.ai*', ['.AIUSDT']],
    ['*/b*', ['BRK/BUSDT']],
    ['!BTC', ['!BTC']],
    ['[A-Z]', []],
    ['[a]', ['[A]']],
    ['A{B,C}', ['A{B,C}']],
    ['a+(b)', ['a+(b)']],
    ['x\\y', ['x\\y']],
    ['龙?USDT', ['龙虾USDT']],
    ['?usd', ['😀USD']],
    ['??usd', []],
    ['**USDT', ['BTCUSDT', '.AIUSDT', 'BRK/BUSDT', '龙虾USDT']],
    ['ασ*', ['ΑΣΑ']],
    ['α*α', ['ΑΣΑ']],
    ['BTC', []],
    ['', []],
  ])('%s', (glob, expected) => {
    expect(matching(glob)).toEqual(expected)
  })

  test('several match what any of them matches, none match nothing, and left out they match all', () => {
    expect(matching('!*', '[*')).toEqual(['!BTC', '[A]'])
    expect(matching()).toEqual([])
    expect(all.every(symbolMatcher(undefined))).toBe(true)
  })

  test('every symbol matches itself, and itself with any part replaced by a star', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), fc.nat(), fc.nat(), (symbol, a, b) => {
        const characters = Array.from(symbol)
        const [from = 0, to = 0] = [a, b].map((n) => n % (characters.length + 1)).toSorted((x, y) => x - y)
        const glob = [...characters.slice(0, from), '*', ...characters.slice(to)].join('')
        expect(symbolMatcher([symbol])(symbol)).toBe(true)
        expect(symbolMatcher([glob])(symbol)).toBe(true)
        expect(symbolMatcher([symbol.replaceAll(/./gsu, '?')])(symbol)).toBe(true)
      }),
    )
  })

  // To try all ways would take for ever.
  test('many stars take no time', () => {
    expect(symbolMatcher([`${'*a'.repeat(49)}*b`])('a'.repeat(200))).toBe(false)
  })

  test('is one only with a star or a question mark', () => {
    expect(['BTC*', 'B?'].every(hasWildcard)).toBe(true)
    expect(['BTC', '!BTC', '[A]', '{A,B}', '龙虾', '.AI', 'BRK/B'].some(hasWildcard)).toBe(false)
  })
})
