import fc from 'fast-check'
import { expect, test } from 'vitest'
import { rowsTable } from '../../../src/cli/query.js'
import { printable, printableJson, printableValue } from '../../../src/runtime/text.js'

// oxlint-disable-next-line no-control-regex -- control characters are what it is about
const commands = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069\u2028\u2029]/
const nasty = fc.string({
  unit: fc.oneof(fc.constantFrom('\u001b', '\u009b', '\u0007', '\u202e', '\u2066', '\r', '\b', '\u0000'), fc.string()),
})

test('nothing that commands a terminal is left, and the rest is as it was', () => {
  fc.assert(
    fc.property(nasty, (text) => {
      expect(printable(text)).not.toMatch(commands)
    }),
  )
  expect(printable('\u001b[2J\u009b31m\u202eABC\tĸ龙虾🎲\n')).toBe('\\x1b[2J\\x9b31m\\u202eABC\tĸ龙虾🎲\n')
})

test('JSON says the same afterwards', () => {
  fc.assert(
    fc.property(fc.dictionary(nasty, nasty), (value) => {
      const text = printableJson(JSON.stringify(value))
      expect(text).not.toMatch(commands)
      expect(JSON.parse(text)).toEqual(value)
    }),
  )
  expect(JSON.parse(printableJson('{"a":\r\n 1}'))).toEqual({ a: 1 })
})

test('names and values of objects are made printable, too', () => {
  expect(printableValue({ '\u001b': ['\u009b', { a: '\u202e', b: 1, c: null }] })).toEqual({
    '\\x1b': ['\\x9b', { a: '\\u202e', b: 1, c: null }],
  })
})

test('a table shows what commands a terminal without giving the command', () => {
  const table = rowsTable([{ name: 'symbol\u001b[31m', type: 'text' }], [['\u001b]0;title\u0007'], [null]])
  expect(table).not.toMatch(commands)
  expect(table).toContain('\\x1b]0;title\\x07')
})
