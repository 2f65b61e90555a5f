import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { partitionValue } from '../../../../src/files/export/files.js'

describe('a symbol in the name of a folder', () => {
  test.each([
    ['BTCUSDT', 'BTCUSDT'],
    ['BTCUSD_CM', 'BTCUSD_CM'],
    ['BRK/BUSDT', 'BRK%2FBUSDT'],
    ['.AIUSDT', '.AIUSDT'],
    ["a'b*c!(d)~", 'a%27b%2Ac%21%28d%29%7E'],
    ['龙虾USDT', '%E9%BE%99%E8%99%BEUSDT'],
    ['NULL', '%4EULL'],
    ['null', '%6Eull'],
    ['__HIVE_DEFAULT_PARTITION__', '%5F_HIVE_DEFAULT_PARTITION__'],
    ['NULLUSDT', 'NULLUSDT'],
  ])('%s', (symbol, value) => {
    expect(partitionValue(symbol)).toBe(value)
    expect(decodeURIComponent(value)).toBe(symbol)
  })

  test('is never cut inside a character, is short enough, and differs for each symbol', () => {
    const symbol = fc.string({ unit: 'binary', maxLength: 200 }).filter((text) => text.isWellFormed())
    fc.assert(
      fc.property(symbol, symbol, (one, other) => {
        const value = partitionValue(one)
        expect(value).toMatch(/^[\w.%~-]*$/)
        expect(value.length).toBeLessThanOrEqual(200)
        const [kept = '', digest] = value.split('~')
        const decoded = decodeURIComponent(kept)
        expect(one.startsWith(decoded)).toBe(true)
        if (digest === undefined) expect(decoded).toBe(one)
        if (one !== other) expect(partitionValue(other)).not.toBe(value)
      }),
    )
  })

  test('of long symbols keeps as many whole characters as fit', () => {
    for (const character of ['é', '龙', '😀', 'x']) {
      for (let shift = 0; shift < 12; shift++) {
        const symbol = 'x'.repeat(shift) + character.repeat(200 - shift)
        const [kept = ''] = partitionValue(symbol).split('~')
        expect(symbol.startsWith(decodeURIComponent(kept))).toBe(true)
        expect(kept.length).toBeGreaterThan(200 - 33 - 12)
      }
    }
  })
})
