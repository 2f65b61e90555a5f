import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { responseBounds } from '../../../../src/exchange/response/bounds.js'
import { parseResponse } from '../../../../src/exchange/response/longResponse.js'
import { losslessText, numbersAsText, textOf } from '../../../../src/exchange/response/lossless.js'
import { jsonNumber } from '../../../support/jsonNumber.js'

/** The text as it is parsed with every number as it was sent. */
async function parse(text: string | Buffer): Promise<unknown> {
  const { value, exact } = await parseResponse(Buffer.from(text), responseBounds.instruments)
  return exact?.() ?? value
}

describe('lossless parsing', () => {
  it('keeps every digit of every number in the data', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(jsonNumber), async (numbers) => {
        const parsed = (await parse(`{"requestTime":1760000000000,"data":[ ${numbers.join(' ,\n')} ]}`)) as {
          data: unknown[]
        }
        expect(parsed.data.map(textOf)).toEqual(numbers)
        expect(numbersAsText(parsed.data)).toEqual(numbers)
        expect(losslessText(parsed.data)).toBe(`[${numbers.join(',')}]`)
      }),
    )
  })

  it('is JSON.parse for everything that holds no numbers in its data', async () => {
    const value = fc.jsonValue().map((json) => JSON.parse(JSON.stringify(json), withoutNumbers) as unknown)
    await fc.assert(
      fc.asyncProperty(value, fc.boolean(), async (data, pretty) => {
        const text = JSON.stringify({ code: '00000', requestTime: 1_760_000_000_000, data }, null, pretty ? 2 : 0)
        expect(await parse(text)).toEqual(JSON.parse(text))
      }),
    )
  })

  it('is JSON.parse with numbers as text for everything else', async () => {
    await fc.assert(
      fc.asyncProperty(fc.jsonValue(), async (data) => {
        const text = JSON.stringify({ data: [data] })
        expect(numbersAsText(await parse(text))).toEqual(
          JSON.parse(text, (_key, inner: unknown) => (typeof inner === 'number' ? JSON.stringify(inner) : inner)),
        )
      }),
    )
  })

  it('is not misled by digits, brackets and escapes inside of strings', async () => {
    const data = ['[1,2', ':-3', '\\"{9', '\u2028', '🎲 5']
    expect(await parse(JSON.stringify({ requestTime: 1, data }))).toEqual({ requestTime: 1, data })
  })

  it('takes the last of several equal keys, as JSON.parse does', async () => {
    expect(numbersAsText(await parse('{"data":{"a":1,"a":2}}'))).toEqual({ data: { a: '2' } })
  })

  it.each([
    ['torn', '{"code":"00000","data":[{"a":"1'],
    ['torn between numbers', '{"data":[1,2'],
    ['two values', '{} {}'],
    ['leading zeros', '{"data":[01]}'],
    ['not JSON', '<html></html>'],
    ['empty', ''],
  ])('refuses text that is %s', async (_name, text) => {
    await expect(parse(text)).rejects.toThrow(SyntaxError)
  })

  it('refuses what is nested without end, before it costs a stack', async () => {
    for (const text of ['['.repeat(1_000_000), `{"data":${'{"a":'.repeat(100)}1${'}'.repeat(100)}}`])
      await expect(parse(text)).rejects.toThrow('nested')
  })

  it('refuses bytes that are not UTF-8', async () => {
    await expect(parse(Buffer.from([0x22, 0xff, 0xfe, 0x22]))).rejects.toThrow('UTF-8')
  })
})

function withoutNumbers(_key: string, value: unknown): unknown {
  return typeof value === 'number' ? String(value) : value
}
