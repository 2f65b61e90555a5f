import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { numbersAsText, parseLossless } from '../../../../src/exchange/response/lossless.js'
import { parseNumbersAsText } from '../../../../src/exchange/response/textNumbers.js'
import { jsonNumber } from '../../../support/jsonNumber.js'

const text = fc.oneof(
  fc.string().map((value) => JSON.stringify(value)),
  fc.constantFrom('"1,-2"', '"\\\\"', '"\\"3"', '"🎲 [4"'),
)

/** JSON of any shape, with any numbers and spaces. */
const json = fc.letrec<{ value: string }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    jsonNumber,
    text,
    fc.constantFrom('null', 'true'),
    fc.array(tie('value'), { maxLength: 4 }).map((all) => `[ ${all.join(' ,\n')}]`),
    fc
      .array(fc.tuple(text, tie('value')), { maxLength: 4 })
      .map((all) => `{${all.map(([name, value]) => `${name} : ${value}`).join(',')} }`),
  ),
})).value
/** The same with something else in one place. */
const changed = fc
  .tuple(json, fc.nat(), fc.nat(2), fc.constantFrom('', '0', '-', '.', 'e', '1 ', ',', ':', '"', ']', '}', '[', '{'))
  .map(([whole, at, length, insert]) => {
    const place = at % (whole.length + 1)
    return whole.slice(0, place) + insert + whole.slice(place + length)
  })

/** In a list in an envelope, as the data of a response is; undefined for what is no JSON. */
const inEnvelope = (data: string) => `{"data":[${data}]}`
function asText(data: string): unknown {
  return orUndefined(() => parseNumbersAsText(Buffer.from(inEnvelope(data)).toString()))
}
function lossless(data: string): unknown {
  // As the bytes say it: half of a surrogate pair has none.
  return orUndefined(() => numbersAsText(parseLossless(Buffer.from(inEnvelope(data)).toString())))
}
function orUndefined(parse: () => unknown): unknown {
  try {
    return parse()
  } catch {
    return undefined
  }
}

describe('numbers as text', () => {
  it('are what a lossless parser makes of them, digit by digit', () => {
    fc.assert(
      fc.property(json, (data) => {
        expect(asText(data)).toEqual(lossless(data))
      }),
      { numRuns: 500 },
    )
  })

  it('are nothing else in text that is broken: the same, or none', () => {
    fc.assert(
      fc.property(changed, (data) => {
        const result = asText(data)
        if (result !== undefined) expect(result).toEqual(lossless(data))
      }),
      { numRuns: 2_000 },
    )
  })

  it.each(['01', '-', '1.', '.5', '1e', '1e+', '+1', '1 2', '{1:2}', '{"a":1,2:3}', '{"a":1,2}', '-x', '1"a"', '"a"1'])(
    'do not make JSON of %s',
    (data) => {
      expect(asText(data)).toBeUndefined()
      expect(lossless(data)).toBeUndefined()
    },
  )

  it('are numbers in the envelope', () => {
    const text = '{"code":0,"requestTime":1760000000000,"data":{"a":[1.50]}}'
    expect(parseNumbersAsText(text)).toEqual({ code: 0, requestTime: 1760000000000, data: { a: ['1.50'] } })
  })

  it('leave a field its name, whatever it is', () => {
    const parsed = parseNumbersAsText('{"data":{"__proto__":[1],"a":2}}') as { data: object }
    expect(Object.entries(parsed.data)).toEqual([
      ['__proto__', ['1']],
      ['a', '2'],
    ])
    expect(Object.getPrototypeOf(parsed.data)).toBe(Object.prototype)
  })
})
