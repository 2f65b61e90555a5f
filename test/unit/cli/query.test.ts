import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { rowsTable, startTable } from '../../../src/cli/query.js'

const columns = [
  { name: 'symbol', type: 'text' },
  { name: 'price', type: 'numeric' },
]

describe('a table of rows', () => {
  test('sets numbers to the right, NULL as nothing', () => {
    expect(
      rowsTable(columns, [
        ['BTCUSDT', '1.50'],
        [null, '12345.678'],
      ]),
    ).toBe(
      [
        '┌─────────┬───────────┐',
        '│ symbol  │     price │',
        '├─────────┼───────────┤',
        '│ BTCUSDT │      1.50 │',
        '│         │ 12345.678 │',
        '└─────────┴───────────┘',
      ].join('\n'),
    )
  })

  test('cuts texts where it must, and never a number', () => {
    expect(rowsTable(columns, [['A-VERY-LONG-SYMBOL', '0.123456789012345678']], 40)).toBe(
      [
        '┌───────────────┬──────────────────────┐',
        '│ symbol        │                price │',
        '├───────────────┼──────────────────────┤',
        '│ A-VERY-LONG-… │ 0.123456789012345678 │',
        '└───────────────┴──────────────────────┘',
      ].join('\n'),
    )
  })

  test('goes on with the widths of its first rows: a wider number stays whole, a wider text is cut', () => {
    const table = startTable(columns, [['BTCUSDT', '1.50']])
    expect(
      table.head() + table.lines([['BTCUSDT', '1.50']]) + table.lines([['LONGERUSDT', '123456.7']]) + table.end(),
    ).toBe(
      [
        '┌─────────┬───────┐',
        '│ symbol  │ price │',
        '├─────────┼───────┤',
        '│ BTCUSDT │  1.50 │',
        '│ LONGER… │ 123456.7 │',
        '└─────────┴───────┘',
        '',
      ].join('\n'),
    )
  })

  test('gives characters the columns that they take, and each line of a text a line', () => {
    expect(
      rowsTable(columns, [
        ['龙虾USDT', '1'],
        ['a\nbc', '2'],
      ]),
    ).toBe(
      [
        '┌──────────┬───────┐',
        '│ symbol   │ price │',
        '├──────────┼───────┤',
        '│ 龙虾USDT │     1 │',
        '│ a        │     2 │',
        '│ bc       │       │',
        '└──────────┴───────┘',
      ].join('\n'),
    )
  })

  test('sets rows as blocks when even that is too wide', () => {
    expect(rowsTable(columns, [['BTCUSDT', '0.123456789012345678']], 20)).toBe(
      ['── row 1 ───────────', 'symbol  BTCUSDT', 'price   0.123456789012345678'].join('\n'),
    )
  })

  test('fits the width, or holds every value whole', () => {
    const row = fc.tuple(fc.string({ maxLength: 60 }).filter(isPlain), fc.bigInt().map(String))
    fc.assert(
      fc.property(fc.array(row, { minLength: 1, maxLength: 5 }), fc.integer({ min: 20, max: 120 }), (rows, width) => {
        const text = rowsTable(columns, rows, width)
        for (const [, number] of rows) expect(text).toContain(number)
        if (text.startsWith('┌')) {
          for (const line of text.split('\n')) expect(line.length).toBeLessThanOrEqual(width)
        } else {
          for (const [symbol] of rows) expect(text).toContain(symbol)
        }
      }),
    )
  })
})

/** Returns true if each character takes one column of a terminal. */
function isPlain(text: string): boolean {
  return /^[\u0021-\u007e]*$/.test(text)
}
