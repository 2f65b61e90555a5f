import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { numbersAsText, parseLossless } from '../../../../src/exchange/response/lossless.js'
import { inspect } from '../../../../src/exchange/response/shape.js'
import { withQuotedNumbers } from '../../../../src/exchange/response/quotedNumbers.js'
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
function quoted(data: string): unknown {
  const result = withQuotedNumbers(Buffer.from(inEnvelope(data)))
  return result === null ? undefined : orUndefined(() => JSON.parse(result.text) as unknown)
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

describe('numbers in quotes', () => {
  it('give what a lossless parser gives, digit by digit', () => {
    fc.assert(
      fc.property(json, (data) => {
        expect(quoted(data)).toEqual(lossless(data))
      }),
      { numRuns: 500 },
    )
  })

  it('give nothing else for text that is broken: the same, or none', () => {
    fc.assert(
      fc.property(changed, (data) => {
        const result = quoted(data)
        if (result !== undefined) expect(result).toEqual(lossless(data))
      }),
      { numRuns: 2_000 },
    )
  })

  it.each(['01', '-', '1.', '.5', '1e', '1e+', '+1', '1 2', '{1:2}', '{"a":1,2:3}', '{"a":1,2}', '-x', '1"a"', '"a"1'])(
    'do not make %s into JSON',
    (data) => {
      expect(quoted(data)).toBeUndefined()
      expect(lossless(data)).toBeUndefined()
    },
  )

  it('leave the numbers of the envelope as they are', () => {
    const body = Buffer.from('{"code":0,"requestTime":1760000000000,"data":{"a":[1.50]}}')
    expect(withQuotedNumbers(body)?.text).toBe('{"code":0,"requestTime":1760000000000,"data":{"a":["1.50"]}}')
  })

  it.each(['{"a":[1,[2]]}', '[]', '{"a":{"b":{"c":[]}}}', '{"a":"[[[{"}', '"1"', '{"a":["[1]\\"",{"b":null}]}'])(
    'tell the depth of %s and whether there are any, as a look at the shape does',
    async (data) => {
      const body = Buffer.from(inEnvelope(data))
      const { depth, holdsNumbers } = await inspect(body, 0)
      expect(withQuotedNumbers(body)).toMatchObject({ depth, holdsNumbers })
    },
  )

  it('of a long body have a room of their own', () => {
    const data = Array.from({ length: 20_000 }, (_, number) => `${number}.50`)
    const long = withQuotedNumbers(Buffer.from(inEnvelope(data.join(','))))
    const short = withQuotedNumbers(Buffer.from(inEnvelope('1,2')))
    expect(JSON.parse(long?.text ?? '')).toEqual({ data })
    expect(short?.text).toBe('{"data":["1","2"]}')
  })
})
