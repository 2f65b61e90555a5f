import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { decimalText, parquetColumn, trimmedDecimal, UnfitDecimal } from '../../../../src/files/parquet/columns.js'

const price = parquetColumn({ name: 'price', type: 'numeric' })
const prices = parquetColumn({ name: 'prices', type: '_numeric' })

const digits = (most: number) => fc.stringMatching(new RegExp(`^[0-9]{0,${most}}$`))
/** As numeric prints it: no leading zeros, a fraction of any length. */
const decimal = (whole: number, fraction: number) =>
  fc.tuple(fc.boolean(), digits(whole), digits(fraction)).map(([isNegative, a, b]) => {
    const text = `${a.replace(/^0+/, '') || '0'}${b === '' ? '' : `.${b}`}`
    return isNegative && /[1-9]/.test(text) ? `-${text}` : text
  })

/** Written with other means than those that are tested. */
function unitsOf(stored: unknown): bigint {
  return BigInt.asIntN(128, BigInt(`0x${Buffer.from(stored as Uint8Array).toString('hex')}`))
}
function textOf(stored: unknown): string {
  const units = unitsOf(stored)
  const sign = units < 0n ? '-' : ''
  const padded = (units < 0n ? -units : units).toString().padStart(19, '0')
  const fraction = padded.slice(-18).replace(/0+$/, '')
  return `${sign}${padded.slice(0, -18)}${fraction === '' ? '' : `.${fraction}`}`
}
const trimmed = (text: string) => (text.includes('.') ? text.replace(/\.?0+$/, '') : text)

describe('decimals in Parquet', () => {
  test('of up to 20 digits before the point and 18 after it are exact', () => {
    fc.assert(
      fc.property(decimal(20, 18), (text) => {
        expect(textOf(price.convert(text))).toBe(trimmed(text))
      }),
    )
  })

  test('of any shape are read back as they were, without zeros at the end, as the server prints them', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 18 }), decimal(15, 18), (scale, text) => {
        const { convert } = parquetColumn({ name: 'price', type: 'numeric' }, scale)
        const fits = text.includes('.')
          ? text.slice(0, text.indexOf('.') + 1 + scale).replace(/^-(?=[0.]*$)/, '')
          : text
        const whole = fits.replace(/\.$/, '')
        expect(decimalText(convert(whole) as Uint8Array, scale)).toBe(trimmed(whole))
        expect(trimmedDecimal(whole)).toBe(trimmed(whole))
      }),
    )
  })

  test('with more digits are never rounded: they are refused, or their zeros were none', () => {
    fc.assert(
      fc.property(decimal(30, 30), (text) => {
        let units: unknown
        try {
          units = price.convert(text)
        } catch (error) {
          expect(error).toBeInstanceOf(UnfitDecimal)
          const [whole = '', fraction = ''] = trimmed(text).replace('-', '').split('.')
          expect(whole.length > 20 || fraction.length > 18).toBe(true)
          return
        }
        expect(textOf(units)).toBe(trimmed(text))
      }),
    )
  })

  test.each(['NaN', 'Infinity', '-Infinity', ''])('are not %j', (text) => {
    expect(() => price.convert(text)).toThrow(UnfitDecimal)
  })

  test('stand in lists, with gaps', () => {
    const stored = prices.convert('{1.5,NULL,2}') as (Uint8Array | null)[]
    expect(stored.map((each) => each && unitsOf(each))).toEqual([
      1_500_000_000_000_000_000n,
      null,
      2_000_000_000_000_000_000n,
    ])
    expect(prices.convert('{}')).toEqual([])
  })

  test('are text where the column has to be', () => {
    expect(parquetColumn({ name: 'price', type: 'numeric' }, 'text').convert('1.50')).toBe('1.50')
    expect(parquetColumn({ name: 'prices', type: '_numeric' }, 'text').convert('{1.50,2}')).toEqual(['1.50', '2'])
  })
})
