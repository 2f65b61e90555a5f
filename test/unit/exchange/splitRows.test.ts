import fc from 'fast-check'
import { expect, it } from 'vitest'
import { splitRows } from '../../../src/exchange/splitRows.js'

const spaced = fc.constantFrom(undefined, 1, '\t')
const text = fc.oneof(fc.string(), fc.constantFrom('"', '\\', '\\"', '],[', '},{', '"data":[', ' é€😀'))
const value = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    text,
    fc.double({ noNaN: true, noDefaultInfinity: true }),
    fc.constantFrom(null, true, {}, []),
    fc.array(tie('value'), { maxLength: 4 }),
    fc.dictionary(text, tie('value'), { maxKeys: 4 }),
  ),
})).value

it('the rows of any response are those that JSON.parse finds, and what is left is its envelope', () => {
  fc.assert(
    fc.property(fc.array(value), fc.dictionary(text, value), fc.boolean(), spaced, (data, others, isNested, space) => {
      const fields = { ...others, data: isNested ? { beside: 'data', list: data } : data, last: [1] }
      const body = Buffer.from(JSON.stringify(fields, null, space))
      const split = splitRows(body, isNested ? 'list' : undefined, 1_000)
      expect(split?.rows.map((row) => JSON.parse(row.toString()) as unknown)).toEqual(JSON.parse(JSON.stringify(data)))
      expect(JSON.parse(split?.envelope.toString() ?? '')).toEqual(
        JSON.parse(JSON.stringify({ ...fields, data: isNested ? { beside: 'data', list: [] } : [] })),
      )
    }),
  )
})

it('rows beyond the bound are counted', () => {
  expect(splitRows(Buffer.from('{"data":[1,2,3,4]}'), undefined, 3)).toMatchObject({ surplusRows: 1 })
})

it('a text that ends early has no rows, wherever it ends', () => {
  const whole = JSON.stringify({ code: '00000', data: [{ a: 'x\\"', b: [1, { c: null }] }, 'y', 7, []], z: 1 })
  for (let end = 0; end < whole.length; end++)
    expect(splitRows(Buffer.from(whole.slice(0, end)), undefined, 9), whole.slice(0, end)).toBeUndefined()
})

it.each(['', '<html>', '[]', '{}', '{"data":{}}', '{"data":[,]}', '{"data" [1]}', '{"d":[1]}', '{"data":[1,]}'])(
  'there are no rows in %s',
  (body) => expect(splitRows(Buffer.from(body), undefined, 9)).toBeUndefined(),
)

it('any bytes are taken without a throw, in one pass', () => {
  fc.assert(
    fc.property(fc.array(fc.constantFrom('{', '}', '[', ']', '"', '\\', ',', ':', '"data"', '1', ' ')), (parts) => {
      splitRows(Buffer.from(parts.join('')), undefined, 9)
      splitRows(Buffer.from(`{"data":${parts.join('')}`), 'list', 9)
    }),
  )
})
