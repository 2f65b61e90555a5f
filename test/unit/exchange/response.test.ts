import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { jsonText, numbersAsText, parseJson, readResponse, textOf } from '../../../src/exchange/response.js'
import { oneLine } from '../../../src/market/oneLine.js'
import { jsonNumber } from '../../support/jsonNumber.js'

const parse = (text: string) => parseJson(text)

describe('lossless parsing', () => {
  it('keeps every digit of every number in the data', () => {
    fc.assert(
      fc.property(fc.array(jsonNumber), (numbers) => {
        const parsed = parse(`{"requestTime":1760000000000,"data":[ ${numbers.join(' ,\n')} ]}`) as {
          data: unknown[]
        }
        expect(parsed.data.map(textOf)).toEqual(numbers)
        expect(numbersAsText(parsed.data)).toEqual(numbers)
        expect(jsonText(parsed.data)).toBe(`[${numbers.join(',')}]`)
      }),
    )
  })

  it('is JSON.parse for everything that holds no numbers in its data', () => {
    const value = fc.jsonValue().map((json) => JSON.parse(JSON.stringify(json), withoutNumbers) as unknown)
    fc.assert(
      fc.property(value, fc.boolean(), (data, pretty) => {
        const text = JSON.stringify({ code: '00000', requestTime: 1_760_000_000_000, data }, null, pretty ? 2 : 0)
        expect(parse(text)).toEqual(JSON.parse(text))
      }),
    )
  })

  it('is JSON.parse with numbers as text for everything else', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (data) => {
        const text = JSON.stringify({ data: [data] })
        expect(numbersAsText(parse(text))).toEqual(
          JSON.parse(text, (_key, inner: unknown) => (typeof inner === 'number' ? JSON.stringify(inner) : inner)),
        )
      }),
    )
  })

  it('is not misled by digits, brackets and escapes inside of strings', () => {
    const data = ['[1,2', ':-3', '\\"{9', '\u2028', '🎲 5']
    expect(parse(JSON.stringify({ requestTime: 1, data }))).toEqual({ requestTime: 1, data })
  })

  it('takes the last of several equal keys, as JSON.parse does', () => {
    expect(numbersAsText(parse('{"data":{"a":1,"a":2}}'))).toEqual({ data: { a: '2' } })
  })

  it.each([
    ['torn', '{"code":"00000","data":[{"a":"1'],
    ['torn between numbers', '{"data":[1,2'],
    ['two values', '{} {}'],
    ['leading zeros', '{"data":[01]}'],
    ['not JSON', '<html></html>'],
    ['empty', ''],
  ])('refuses text that is %s', (_name, text) => {
    expect(() => parse(text)).toThrow(SyntaxError)
  })

  it('refuses what is nested without end, before it costs a stack', () => {
    const nested = (depth: number) => `{"data":${'{"a":'.repeat(depth)}1${'}'.repeat(depth)}}`
    for (const text of [`${'['.repeat(1_000_000)}${']'.repeat(1_000_000)}`, nested(32)])
      expect(() => parse(text)).toThrow('nested')
    expect(numbersAsText(parse(nested(2)))).toEqual({ data: { a: { a: '1' } } })
  })

  it('loses no other row to one whose first of two equal keys is nested without end', () => {
    const deep = `{"a":${'['.repeat(20_000)}${']'.repeat(20_000)},"a":1.5}`
    const body = Buffer.from(`{"code":"00000","requestTime":1760000000000,"data":[${deep},{"a":1.5}]}`)
    const raw = { status: 200, body, remaining: undefined, retryAfterMs: undefined, location: undefined }
    const { rows } = readResponse(oneLine, { operation: 'tickers', parameters: {} }, raw)
    expect(rows.map(String)).toEqual([deep, '{"a":1.5}'])
    expect(() => parseJson(deep, 2)).toThrow('nested')
  })

  it('refuses bytes that are not UTF-8', () => {
    const body = Buffer.from([0x22, 0xff, 0xfe, 0x22])
    const raw = { status: 200, body, remaining: undefined, retryAfterMs: undefined, location: undefined }
    expect(() => readResponse(oneLine, { operation: 'tickers', parameters: {} }, raw)).toThrow('UTF-8')
  })
})

it('a failure says what to do, however much text the service sends with it', () => {
  const body = Buffer.from(JSON.stringify({ code: '40034', msg: '\u202e'.repeat(40_000), data: null }))
  const raw = { status: 400, body, remaining: undefined, retryAfterMs: undefined, location: undefined }
  const read = () =>
    readResponse(oneLine, { operation: 'fills', parameters: { category: 'SPOT', symbol: 'AUSDT' } }, raw)
  expect(read).toThrow(/^fills SPOT AUSDT: unknown-symbol: code 40034 "\u202e{99}…" .*; check the category and symbol$/)
})

function withoutNumbers(_key: string, value: unknown): unknown {
  return typeof value === 'number' ? String(value) : value
}
