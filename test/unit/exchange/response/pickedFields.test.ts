import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { maxRowBytes, responseBounds } from '../../../../src/exchange/response/bounds.js'
import { parseResponse, UnparsedRow } from '../../../../src/exchange/response/longResponse.js'
import { inspect } from '../../../../src/exchange/response/shape.js'
import { FieldNames, pickFields } from '../../../../src/exchange/response/pickedFields.js'
import { anyCharacter } from '../../../../scripts/fuzzInputs.js'

const names = ['symbol', 'ts', 'ask1Price', 'bid1Price']
const only = new FieldNames(names)
const pick = (text: string) => {
  const body = Buffer.from(`xx${text}yy`)
  return pickFields(body, 2, body.length - 2, only)
}
const picked = (row: Record<string, unknown>) =>
  Object.fromEntries(names.flatMap((name) => (name in row ? [[name, row[name]]] : [])))

/** Mostly names that are looked for or nearly so, and values as a service sends them. */
const aName = fc.oneof(fc.constantFrom(...names, 'ask1Size', 'symbo', 'symbols', ''), fc.string())
const aPlainText = fc.stringMatching(/^[0-9.\-ABCz {}[\],:]{0,12}$/)
const aValue = fc.oneof(
  { weight: 6, arbitrary: aPlainText },
  fc.string({ unit: anyCharacter }),
  fc.jsonValue({ maxDepth: 2 }),
)
const aRow = fc.dictionary(aName, aValue, { noNullPrototype: true })
const blanks = fc.constantFrom(undefined, 1, '\t', '  ')

describe('picking fields', () => {
  it('finds what a parser finds, or leaves the row to it', () => {
    fc.assert(
      fc.property(aRow, blanks, (row, indent) => {
        const found = pick(JSON.stringify(row, null, indent))
        if (found !== undefined) expect(found).toEqual(picked(row))
      }),
      { numRuns: 2_000 },
    )
  })

  it('leaves no ordinary row to the parser', () => {
    const ordinary = fc.dictionary(
      fc.oneof(fc.constantFrom(...names), fc.stringMatching(/^[a-z0-9]{1,9}$/)),
      aPlainText,
      { noNullPrototype: true, minKeys: 1 },
    )
    fc.assert(
      fc.property(ordinary, blanks, (row, indent) => {
        expect(pick(JSON.stringify(row, null, indent))).toEqual(picked(row))
      }),
    )
    expect(pick('{"symbol":"A","other":12.5,"more":null,"ts":"1"}')).toEqual({ symbol: 'A', ts: '1' })
    expect(pick('{"symbol":"A","symbol":"B"}')).toEqual({ symbol: 'B' })
  })

  it.each([
    '{}',
    '[]',
    '{"symbol":"A",}',
    '{"symbol":"A"',
    '{"symbol" "A"}',
    '{"symbol":"A"}}',
    '{symbol:"A"}',
    '{"symbol":12}',
    '{"a":{"symbol":"A"}}',
    '{"symbol":"\\u0041"}',
    '{"symbol":"é"}',
    '',
    '{"a',
    '{"a":',
    '{"symbol":"A"} x',
    '{"symbol":"A","x":nonsense}',
    '{"symbol":"A","x":}',
    '{"symbol":"A","x":,"ts":"1"}',
    '{"symbol":"A","x":NaN}',
    '{"symbol":"A","x":1 2 3}',
    '{"symbol":"A","x":1"y":2}',
    '{"symbol":"A","x":[1}',
  ])('leaves %s to the parser', (text) => expect(pick(text)).toBeUndefined())

  it('reads a long list as a parser does, whatever its rows are', async () => {
    const anElement = fc.oneof({ weight: 8, arbitrary: aRow }, fc.jsonValue({ maxDepth: 2 }))
    await fc.assert(
      fc.asyncProperty(fc.array(anElement, { maxLength: 20 }), async (elements) => {
        const rows = [...elements, { filler: 'x'.repeat(40_000) }]
        const body = Buffer.from(JSON.stringify({ code: '00000', requestTime: 1, data: rows }))
        const whole = (await parseResponse(body, responseBounds.tickers)).value as { data: unknown[] }
        const { value } = await parseResponse(body, responseBounds.tickers, only)
        const { data, ...envelope } = value as { data: unknown[] }
        expect(envelope).toEqual({ code: '00000', requestTime: 1 })
        const seen = (row: unknown) => (isRecord(row) ? picked(row) : row)
        expect(data.map(seen)).toEqual(whole.data.map(seen))
      }),
    )
  })

  it('looks into no row that is too long to be parsed', async () => {
    const long = `{"symbol":"A","x":"${'x'.repeat(maxRowBytes)}"}`
    const body = Buffer.from(`{"data":[${[long, '{"symbol":"B"}', long].join(',')}]}`)
    const { value } = await parseResponse(body, responseBounds.tickers, only)
    expect((value as { data: unknown[] }).data).toEqual([
      expect.any(UnparsedRow),
      { symbol: 'B' },
      expect.any(UnparsedRow),
    ])
  })

  it('lets others have their turn, on top of what looking over the text does', async () => {
    const rows = Array.from({ length: 10_000 }, () => `{"symbol":"C","x":"${'y'.repeat(150)}"}`)
    const body = Buffer.from(`{"data":[${rows.join(',')}]}`)
    const looking = await turnsOf(() => inspect(body, responseBounds.tickers.rows))
    const all = await turnsOf(() => parseResponse(body, responseBounds.tickers, only))
    expect(all - looking).toBeGreaterThan(10)
  })

  it('does not take what is no JSON for a list', async () => {
    const body = (rows: string) => Buffer.from(`{"code":"00000","data":[${rows},{"filler":"${'x'.repeat(40_000)}"}]}`)
    for (const rows of ['{"symbol":"A"},,{"symbol":"B"}', '{"symbol":"A",}', '{"symbol":A}', '{"symbol":"A","x":y}'])
      await expect(parseResponse(body(rows), responseBounds.tickers, only)).rejects.toThrow(SyntaxError)
  })
})

/** How often others have their turn meanwhile. */
async function turnsOf(work: () => Promise<unknown>): Promise<number> {
  let turns = 0
  const count = () => {
    turns++
    next = setImmediate(count)
  }
  let next = setImmediate(count)
  await work()
  clearImmediate(next)
  return turns
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
