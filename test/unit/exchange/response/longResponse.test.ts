import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { responseBounds, maxRowBytes } from '../../../../src/exchange/response/bounds.js'
import { parseResponse, UnparsedRow } from '../../../../src/exchange/response/longResponse.js'
import { losslessText, parseLossless } from '../../../../src/exchange/response/lossless.js'

const bounds = responseBounds.instruments
const padding = ' '.repeat(40_000)

/** Rows with numbers, strings that look like syntax, and nesting. */
const row = fc.oneof(
  fc.jsonValue({ maxDepth: 3 }).map((value) => JSON.stringify(value)),
  fc.constantFrom('1.50', '[1.10,"]"]', '{"a":"},{","b":0.10}', '"\\\"[,"', '{"__proto__":{"x":"1"}}', ' [ ] '),
)

describe('a long response, taken apart at its rows', () => {
  it('is what it is when parsed in one go', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(row, { maxLength: 30 }), fc.boolean(), async (rows, isPadded) => {
        const data = `[${rows.join(isPadded ? `${padding},` : ' ,\n')}]`
        const text = `{"code":"00000","requestTime":1760000000000,"data":${data}${padding},"msg":"a,[b"}`
        const { value, exact, surplusRows } = await parseResponse(Buffer.from(text), bounds)
        expect(losslessText(exact?.() ?? value)).toBe(losslessText(parseLossless(text)))
        expect(surplusRows).toBe(0)
      }),
    )
  })

  it('is refused unread when it is longer than any response of its operation', async () => {
    const book = (length: number) => Buffer.from(`{"data":{"a":[${'1,'.repeat(length)}1]}}`)
    const { bytes } = responseBounds.orderbook
    await expect(parseResponse(book(bytes / 2), responseBounds.orderbook)).rejects.toThrow(`more than ${bytes} bytes`)
    await expect(parseResponse(book(bytes / 4), responseBounds.orderbook)).resolves.toMatchObject({ surplusRows: 0 })
  })

  it('is refused for what JSON refuses', async () => {
    const data = [
      '[,]',
      '["a",]',
      '[,"a"]',
      '["a",,"b"]',
      '["a" "b"]',
      '["a"}',
      '["a"',
      '[{]',
      '[{"a":}]',
      '[[1,2]',
      '["a"]]',
      '["a"],"x":[nonsense]',
      '[tru]',
      '[01]',
      '[1.]',
      '["\\q"]',
      '["a"] ["b"]',
    ]
    for (const text of data) {
      const body = Buffer.from(`{"code":"00000","data":${text}${padding}}`)
      await expect(parseResponse(body, bounds), text).rejects.toThrow(SyntaxError)
    }
  })

  it('is read up to its bound, and what is beyond it is counted', async () => {
    const rows = Array.from({ length: 30_000 }, (_, i) => `{"n":${i}}`)
    const body = Buffer.from(`{"code":"00000","data":[${rows.join(',')}]}`)
    const { value, surplusRows } = await parseResponse(body, bounds)
    const { data } = value as { data: unknown[] }
    expect(data).toHaveLength(bounds.rows)
    expect(losslessText(data.at(-1))).toBe(rows[bounds.rows - 1])
    expect(surplusRows).toBe(rows.length - bounds.rows)
  })

  it('holds no row that is too long to be parsed, and the others all the same', async () => {
    const long = `{"x":"${'y'.repeat(maxRowBytes)}"}`
    const { value } = await parseResponse(Buffer.from(`{"data":["a",${long},"b"]}`), bounds)
    const { data } = value as { data: unknown[] }
    expect(data).toEqual(['a', expect.any(UnparsedRow), 'b'])
    expect((data[1] as UnparsedRow).bytes.toString()).toBe(long)
  })

  it('is refused when most of it is something else than rows', async () => {
    const stuff = JSON.stringify(Array.from({ length: 100_000 }, () => ({})))
    for (const text of [`{"data":{"x":${stuff}}}`, `{"data":[],"x":{"y":${stuff}}}`, stuff, `{"data":${stuff},"y":[]}`])
      await expect(parseResponse(Buffer.from(text), { bytes: 1, rows: 2 }).then(({ value }) => value)).rejects.toThrow(
        SyntaxError,
      )
  })
})
