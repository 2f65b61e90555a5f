import fc from 'fast-check'
import { expect, test } from 'vitest'
import { csvLine } from '../../../src/runtime/text.js'

/** A reader of RFC 4180, for one line whose values may hold line ends. */
function valuesOf(line: string): (string | null)[] {
  const values: (string | null)[] = []
  let rest = `${line},`
  while (rest !== '') {
    const quoted = /^"((?:[^"]|"")*)",/.exec(rest)
    const match = quoted ?? /^([^",]*),/.exec(rest)
    if (match === null) throw new Error(`not CSV: ${rest}`)
    const text = match[1] ?? ''
    values.push(quoted === null && text === '' ? null : text.replaceAll('""', '"'))
    rest = rest.slice(match[0].length)
  }
  return values
}

test('every value comes back from a line of CSV, and NULL is not an empty text', () => {
  const value = fc.option(fc.string({ unit: fc.constantFrom('a', '"', ',', '\n', '\r', ' ', 'é') }))
  fc.assert(
    fc.property(fc.array(value, { minLength: 1 }), (values) => {
      expect(valuesOf(csvLine(values))).toEqual(values)
    }),
  )
})
