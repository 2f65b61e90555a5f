import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { inBytes } from '../../../../src/runtime/text.js'
import {
  compactDecimal,
  count,
  decimal,
  duration,
  moment,
  percent,
  spreadDigits,
} from '../../../../src/serve/page/format.js'

describe('decimals', () => {
  test.each([
    ['1234567.8900', '1,234,567.8900'],
    ['-1234.5', '−1,234.5'],
    ['0.000000000000000001', '0.000000000000000001'],
    ['1234567890123456789012345', '1,234,567,890,123,456,789,012,345'],
    ['240', '240'],
  ])('%s is shown as %s', (text, shown) => {
    expect(decimal(text)).toBe(shown)
  })

  test('every digit is shown', () => {
    fc.assert(
      fc.property(fc.stringMatching(/^(0|[1-9]\d{0,30})(\.\d{1,30})?$/), (text) => {
        expect(decimal(text).replaceAll(',', '')).toBe(text)
      }),
    )
  })
})

test.each([
  [999, '999 ms'],
  [1500, '1.5 s'],
  [45_000, '45 s'],
  [600_000, '10 min'],
  [86_400_000, '24 h'],
  [864_000_000, '10 d'],
])('%i ms is %s', (ms, text) => {
  expect(duration(ms)).toBe(text)
})

test('other figures', () => {
  expect(count(9_999)).toBe('9,999')
  expect(count(12_345)).toBe('12.3K')
  expect([count(3_210_000), compactDecimal('4560000000.5')]).toEqual(['3.2M', '4.6B'])
  expect(inBytes(1_500_000)).toBe('1.5 MB')
  expect(percent('-0.00734')).toBe('−0.73 %')
  expect(percent('0.000149', 4)).toBe('+0.0149 %')
  expect(moment(1_800_000_000_123)).toBe('2027-01-15 08:00:00.123')
})

test('spreads that hardly differ have more decimals', () => {
  expect([[1.0941, 1.1069], [1.1, 1.16], [1.1, 1.1], []].map(spreadDigits)).toEqual([4, 2, 2, 2])
})
