import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  amountOrUnset,
  countAmount,
  type Field,
  isStorable,
  limitAmount,
  optionalAmount,
  optionalBoolean,
  optionalDecimal,
  optionalBigint,
  optionalInteger,
  optionalText,
  optionalTime,
  readDecimal,
  requiredAmount,
  requiredDecimal,
  requiredKey,
  requiredTime,
  requiredWord,
} from '../../../../src/exchange/formats/fields.js'

const refused = Symbol('refused')

function problemsOf(field: Field<unknown>, value: unknown): string[] {
  const notes = { problems: [], remarks: new Map<string, string>() }
  field(value, 'x', notes)
  return [...notes.problems, ...notes.remarks.values()]
}

/** Returns the value that a field reads, or `refused`. */
function read(field: Field<unknown>, value: unknown): unknown {
  const notes = { problems: [], remarks: new Map<string, string>() }
  const result = field(value, 'x', notes)
  return notes.problems.length + notes.remarks.size === 0 ? result : refused
}

describe('decimals', () => {
  it('stay the text they are, with all their zeros and digits', () => {
    fc.assert(
      fc.property(fc.stringMatching(/^-?\d{1,19}(\.\d{1,19})?$/), (text) => {
        expect(read(requiredDecimal, text)).toBe(text)
      }),
    )
  })

  it('lose an exponent, and nothing of their value', () => {
    fc.assert(
      fc.property(
        fc.bigInt({ min: -(10n ** 18n), max: 10n ** 18n }),
        fc.nat(18),
        fc.integer({ min: -18, max: 18 }),
        (digits, fraction, exponent) => {
          const scientific = `${scaled(digits, fraction)}e${exponent}`
          const plain = readDecimal(scientific) as string
          expect(plain).toMatch(/^-?\d+(\.\d+)?$/)
          // Compared as integers at a scale that holds every digit of both.
          expect(atScale(plain, 100)).toBe(digits * 10n ** BigInt(100 - fraction + exponent))
        },
      ),
    )
  })

  it.each([
    ['1.5e-8', '0.000000015'],
    ['1E3', '1000'],
    ['-1.25e1', '-12.5'],
    ['0.00120e2', '0.120'],
    ['1.50e0', '1.50'],
  ])('%s is %s', (text, plain) => {
    expect(readDecimal(text)).toBe(plain)
  })

  it.each([
    '',
    ' 1',
    '1 ',
    '+1',
    '.5',
    '1.',
    '1,5',
    'NaN',
    'Infinity',
    '0x10',
    '1e',
    '1e99999',
    '--1',
    '１',
    '9'.repeat(39),
    `0.${'0'.repeat(37)}12`,
    `-1.${'0'.repeat(38)}`,
    '1e38',
    '1e400',
    '1e-39',
  ])('%j is none', (text) => {
    expect(readDecimal(text)).toBeUndefined()
  })

  it.each(['9'.repeat(38), `-0.${'0'.repeat(37)}1`, '1e37', '1e-38'])(
    '%s has 38 digits, which is not too many',
    (text) => {
      expect(readDecimal(text)).toBeDefined()
    },
  )

  it('that are amounts are 0 or more', () => {
    for (const field of [requiredAmount, optionalAmount, amountOrUnset, countAmount, limitAmount]) {
      for (const value of ['-2', '-0.000001', '-1e-30']) expect(read(field, value)).toBe(refused)
      for (const value of ['-0', '7', '1e3']) expect(read(field, value)).toBe(readDecimal(value))
    }
  })

  it.each([true, {}, [], ['1']])('%j is none', (value) => {
    expect(read(requiredDecimal, value)).toBe(refused)
  })
})

describe('not set', () => {
  const schemas = { optionalDecimal, optionalInteger, optionalTime, optionalBoolean, optionalText, countAmount }

  it.each(Object.entries(schemas))('is null for %s when absent, null or empty', (_name, schema) => {
    for (const value of [undefined, null, '']) expect(read(schema, value)).toBeNull()
  })

  it('is 0 and -1 for times and limits, -1 for counts, and neither for what can be negative', () => {
    for (const value of ['0', '-1']) {
      expect(read(optionalTime, value)).toBeNull()
      expect(read(limitAmount, value)).toBeNull()
      expect(read(optionalDecimal, value)).toBe(value)
    }
    expect(read(optionalInteger, '-1')).toBeNull()
    expect(read(optionalInteger, '0')).toBe(0)
    expect(read(countAmount, '-1')).toBeNull()
    expect(read(countAmount, '0')).toBe('0')
  })

  it('is an error where a value is needed', () => {
    for (const schema of [requiredDecimal, requiredTime, requiredKey, requiredWord(['buy', 'sell'])])
      for (const value of [undefined, null, '']) expect(read(schema, value)).toBe(refused)
  })
})

describe('other values', () => {
  it('times are milliseconds between 1970 and the year 10000', () => {
    expect(read(requiredTime, '1760000000000')).toBe(1_760_000_000_000)
    for (const value of ['0', '-5', '1.5', '253402300800000', '1e12', 'soon'])
      expect(read(requiredTime, value)).toBe(refused)
  })

  it('integers are exact or none', () => {
    expect(read(optionalInteger, '2147483647')).toBe(2_147_483_647)
    expect(read(optionalInteger, '2147483648')).toBe(refused)
    expect(read(optionalBigint, '9007199254740991')).toBe(Number.MAX_SAFE_INTEGER)
    for (const value of ['9007199254740993', '1.0', '1e3', 'x']) expect(read(optionalBigint, value)).toBe(refused)
  })

  it('booleans are words in any capitals', () => {
    for (const value of ['YES', 'yes', 'Yes', 'true', true]) expect(read(optionalBoolean, value)).toBe(true)
    for (const value of ['NO', 'no', 'false', false]) expect(read(optionalBoolean, value)).toBe(false)
    for (const value of ['maybe', '1', 'y']) expect(read(optionalBoolean, value)).toBe(refused)
  })

  it('words are spelled as ours, however they are capitalised', () => {
    expect(read(requiredWord(['USDT-FUTURES']), 'usdt-futures')).toBe('USDT-FUTURES')
    expect(read(requiredWord(['buy', 'sell']), 'hold')).toBe(refused)
  })

  it('texts that no database can hold are refused', () => {
    for (const text of ['a\0b', '\ud800', 'x'.repeat(1001)]) expect(read(optionalText, text)).toBe(refused)
    expect(read(optionalText, '🎲 ok')).toBe('🎲 ok')
    expect(isStorable({ a: [{ 'b\0': 1 }] })).toBe(false)
    expect(isStorable({ a: ['x', null, { b: '\udc00' }] })).toBe(false)
    expect(isStorable({ a: ['x', null, { b: true }] })).toBe(true)
  })

  it('what is refused is named with what was expected', () => {
    expect(problemsOf(optionalDecimal, 'abc')).toEqual(['x: expected a decimal number of at most 38 digits, got "abc"'])
    expect(problemsOf(requiredTime, undefined)).toEqual(['x: expected a time in milliseconds, got nothing'])
  })
})

/** The decimal text of `digits` divided by ten to the power of `fraction`. */
function scaled(digits: bigint, fraction: number): string {
  const text = (digits < 0n ? -digits : digits).toString().padStart(fraction + 1, '0')
  const whole = text.slice(0, text.length - fraction)
  return `${digits < 0n ? '-' : ''}${whole}${fraction === 0 ? '' : `.${text.slice(text.length - fraction)}`}`
}

function atScale(plain: string, scale: number): bigint {
  const [whole = '', fraction = ''] = plain.split('.')
  const sign = whole.startsWith('-') ? -1n : 1n
  return sign * BigInt(whole.replace('-', '') + fraction.padEnd(scale, '0'))
}
