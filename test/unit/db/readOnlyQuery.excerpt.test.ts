import fc from 'fast-check'
import { expect, test } from 'vitest'
import { excerptAt } from '../../../src/db/readOnlyQuery.js'

test('shows the line and a caret below the character', () => {
  expect(excerptAt('select a\nfron b\nlimit 5', 9)).toEqual(['line 2: fron b', '        ^'])
  expect(excerptAt('select', 6)).toEqual(['line 1: select', '              ^'])
  expect(excerptAt("select '😀', x", 12)).toEqual(["line 1: select '😀', x", '                    ^'])
  expect(excerptAt('', 0)).toEqual(['line 1: ', '        ^'])
})

test('cuts long lines around the character', () => {
  const [line = '', caret = ''] = excerptAt(`${'a'.repeat(500)}X${'b'.repeat(500)}`, 500)
  expect(line.length).toBeLessThan(90)
  expect(line[caret.length - 1]).toBe('X')
})

test('points at the character, whatever the text', () => {
  const text = fc.string({ unit: fc.constantFrom('a', ' ', '\n', 'é', ';'), maxLength: 200 })
  fc.assert(
    fc.property(text, fc.nat(200), (sql, index) => {
      const [line = '', caret = ''] = excerptAt(sql, index)
      expect(caret).toMatch(/^ +\^$/)
      const shown = line[caret.length - 1] ?? '\n'
      expect(shown).toBe(sql[Math.min(index, sql.length)] ?? '\n')
    }),
  )
})
