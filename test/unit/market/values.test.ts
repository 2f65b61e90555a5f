import fc from 'fast-check'
import { expect, test } from 'vitest'
import { readDecimal } from '../../../src/exchange/formats/fields.js'
import { trimmed } from '../../../src/market/values.js'

test('texts of one decimal are equal, and of others different, as the service may spell them', () => {
  const places = 6
  const zeros = fc.integer({ min: 0, max: 3 }).map((count) => '0'.repeat(count))
  const units = fc.oneof(fc.constant(0), fc.integer({ min: -2_000_000, max: 2_000_000 }))
  const spelled = fc
    .tuple(units, fc.constantFrom('', '-'), zeros, zeros, fc.boolean())
    .map(([value, zeroSign, ...rest]) => {
      const [before, after, isScientific] = rest
      const sign = value < 0 ? '-' : value === 0 ? zeroSign : ''
      const digits = String(Math.abs(value)).padStart(places + 1, '0')
      const plain = `${digits.slice(0, -places)}.${digits.slice(-places)}${after}`
      const text = isScientific
        ? `${sign}${before}${digits}${after}e-${places + after.length}`
        : `${sign}${before}${plain}`
      return { value, text: readDecimal(text) ?? '' }
    })
  fc.assert(
    fc.property(spelled, spelled, (a, b) => {
      expect(Number(trimmed(a.text)) * 10 ** places).toBeCloseTo(a.value, 3)
      expect(trimmed(a.text) === trimmed(b.text)).toBe(a.value === b.value)
    }),
  )
})

test.each([
  ['-0.000000', '0'],
  ['-0', '0'],
  ['000', '0'],
  ['00.50', '0.5'],
  ['-007.10', '-7.1'],
  ['100', '100'],
  ['0.0', '0'],
])('%s is %s', (decimal, text) => {
  expect(trimmed(decimal)).toBe(text)
})
