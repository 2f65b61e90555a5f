import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type BookQuery, orderBookFormat, rpiOrderBookFormat } from '../../../../src/exchange/formats/orderBooks.js'
import { readRows } from '../../../../src/exchange/formats/rows.js'
import { responseBounds } from '../../../../src/exchange/response/bounds.js'
import { Levels, scanBook } from '../../../../src/exchange/response/levels.js'
import { parseResponse } from '../../../../src/exchange/response/longResponse.js'

const query: BookQuery = { category: 'SPOT', symbol: 'BTCUSDT', limit: 50 }
const request = { operation: 'orderbook', parameters: {}, query, requestTime: 1, receivedAt: 2 }

/** What comes of a response, with the sides scanned where that is possible, or by the parser alone. */
async function outcome(text: string, width: 2 | 3, isScanned: boolean): Promise<unknown> {
  try {
    const parsed = await parseResponse(Buffer.from(text), responseBounds.orderbook, isScanned ? width : 0)
    const rowsOf = (value: unknown) => [(value as { data?: unknown } | null)?.data]
    const { exact } = parsed
    const response = { rows: rowsOf(parsed.value), exactRows: exact && (() => rowsOf(exact())) }
    const read =
      width === 2
        ? await readRows(orderBookFormat, response, request)
        : await readRows(rpiOrderBookFormat, response, request)
    return { ...read, envelope: { ...(parsed.value as object), data: null } }
  } catch (error) {
    return error instanceof SyntaxError ? 'not JSON' : error
  }
}

const oddNumbers = [
  '-1',
  '0',
  '-0.0',
  '1e5',
  '01',
  '"01"',
  '"007.50"',
  '1.',
  '.5',
  '"1."',
  '"-"',
  '-',
  '""',
  'null',
  '[]',
  '"',
  ' 1',
  '"1',
  '1"',
  '1,',
]
const number = fc.oneof(
  { weight: 20, arbitrary: fc.tuple(fc.nat(), fc.nat()).map(([whole, fraction]) => `${whole}.${fraction}`) },
  { weight: 5, arbitrary: fc.nat().map((whole) => `"${whole}"`) },
  fc.constantFrom(...oddNumbers),
)
const level = fc.oneof(
  { weight: 30, arbitrary: fc.array(number, { minLength: 2, maxLength: 2 }) },
  { weight: 10, arbitrary: fc.array(number, { minLength: 3, maxLength: 3 }) },
  fc.array(number, { maxLength: 4 }),
)
const side = fc.oneof(
  {
    weight: 10,
    arbitrary: fc
      .array(level, { maxLength: 4 })
      .map((levels) => `[${levels.map((l) => `[${l.join(',')}]`).join(',')}]`),
  },
  fc.constantFrom('null', '0', '{}', '"a"', '[', '[1]', '[[1,2],]', '[[1,2] ]', '[ ]'),
)
const field = fc.oneof(
  { weight: 6, arbitrary: side.map((text) => `"a":${text}`) },
  { weight: 6, arbitrary: side.map((text) => `"b":${text}`) },
  { weight: 6, arbitrary: fc.constantFrom('"ts":"1700000000000"', '"ts":1700000000000') },
  fc.constantFrom(
    '"a" :[]',
    '"\\u0061":[]',
    '"x":"a"',
    '"x":{"a":[],"b":[]}',
    '"x":[1]',
    '"é":"é"',
    '"x":1.50',
    '"x":"\\""',
    '"x"',
  ),
)
const data = fc.array(field, { minLength: 2, maxLength: 4 }).map((fields) => `{${fields.join(',')}}`)
const part = fc.oneof(
  { weight: 8, arbitrary: data.map((text) => `"data":${text}`) },
  { weight: 8, arbitrary: fc.constant('"code":"00000"') },
  fc.constantFrom(
    '"requestTime":1700000000000',
    '"a":[]',
    '"data":null',
    '"x":{"a":[[1,2]],"b":[]}',
    '"other":"data":{}',
  ),
)
const response = fc.array(part, { minLength: 1, maxLength: 3 }).map((parts) => `{${parts.join(',')}}`)

describe('the sides of a book', () => {
  it('come out as a parser would read them, whatever the text is', async () => {
    await fc.assert(
      fc.asyncProperty(response, fc.constantFrom(2 as const, 3 as const), async (text, width) => {
        expect(await outcome(text, width, true)).toEqual(await outcome(text, width, false))
      }),
      { numRuns: 2_000 },
    )
  })

  it.each(oddNumbers)('come out as a parser would read them with %s for a number', async (odd) => {
    for (const levels of [`[${odd},1]`, `[1,${odd}]`, `[2,1],[1,${odd}]`]) {
      const text = `{"code":"00000","data":{"a":[${levels}],"b":[[1,2]],"ts":"1700000000000"},"requestTime":5}`
      expect(await outcome(text, 2, true)).toEqual(await outcome(text, 2, false))
    }
  })

  it('are scanned where they are of the ordinary form, with every digit', () => {
    const scanned = scanBook(
      '{"code":"00000","data":{"a":[[1.50,0.1],["2","-3"]],"b":[],"ts":"17"},"requestTime":5}',
      2,
    )
    expect(scanned?.asks).toEqual(
      new Levels([
        ['1.50', '2'],
        ['0.1', '-3'],
      ]),
    )
    expect(scanned?.bids).toEqual(new Levels([[], []]))
    expect(scanned?.rest).toBe('{"code":"00000","data":{"a":null,"b":null,"ts":"17"},"requestTime":5}')
  })

  it.each([
    ['levels of another width', '{"data":{"a":[[1,2,3]],"b":[]}}'],
    ['two sides of one name', '{"data":{"a":[[1,2]],"a":[[3,4]],"b":[]}}'],
    ['sides that are not those of the data', '{"x":{"a":[],"b":[]},"data":{}}'],
    ['more of the data', '{"data":{"a":[],"b":[]},"data":{"a":null,"b":null}}'],
    ['data twice', '{"data":{"a":[],"b":[]},"data":{"x":"y"}}'],
    ['a side with a blank behind its name', '{"data":{"a":[],"b":[],"a" :[[1,2]]}}'],
    ['a number in other quotes', `{"data":{"a":[["1',2]],"b":[]}}`],
    ['a torn text', '{"data":{"a":[],"b":[[1,2'],
    ['a text that ends in a string', '{"data":{"a":[],"b":[],"t'],
  ])('are left to the parser: %s', (_what, text) => {
    expect(scanBook(text, 2)).toBeNull()
  })
})
