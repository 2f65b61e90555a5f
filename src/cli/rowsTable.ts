import { printable } from '../runtime/text.js'
import type { QueryRow } from '../db/readOnlyQuery.js'

interface TableColumn {
  readonly name: string
  /** The server's short name of the type. */
  readonly type: string
}

interface RowsTable {
  /** Returns what comes before the first row. */
  head(): string
  /** Returns rows as lines. Texts are cut with "…" if needed, but numbers never. */
  lines(rows: readonly QueryRow[]): string
  /** Returns what comes after the last row. */
  end(): string
}

const numericTypes = new Set(['int2', 'int4', 'int8', 'numeric', 'float4', 'float8'])
/** Smallest width of a text column. A shorter text would say too little. */
const minTextWidth = 8

/**
 * Starts a table of at most `width` characters. The first rows tell how wide its columns are, so that the rest need not
 * be in memory. A later number that is wider moves the rest of its line. If the columns do not fit, each row becomes a
 * block.
 */
export function startTable(columns: readonly TableColumn[], first: readonly QueryRow[], width = Infinity): RowsTable {
  const names = columns.map(({ name }) => printable(name))
  const areNumeric = columns.map(({ type }) => numericTypes.has(type))
  const widths = fittingWidths(names, areNumeric, first, width)
  return widths === undefined ? asBlocks(names, width) : asTable(names, areNumeric, widths)
}

/** Formats rows as one table. */
export function rowsTable(columns: readonly TableColumn[], rows: readonly QueryRow[], width = Infinity): string {
  const table = startTable(columns, rows, width)
  return `${table.head()}${table.lines(rows)}${table.end()}`.replace(/\n$/, '')
}

/** Returns the widths of the columns' contents; undefined if they cannot fit. */
function fittingWidths(
  names: readonly string[],
  areNumeric: readonly boolean[],
  rows: readonly QueryRow[],
  width: number,
): number[] | undefined {
  const widths = names.map((name, i) =>
    rows.reduce((widest, row) => Math.max(widest, longestLine(printable(row[i] ?? ''))), longestLine(name)),
  )
  const least = names.map((name, i) => {
    const natural = widths[i] ?? 0
    return areNumeric[i] === true ? natural : Math.min(natural, Math.max(minTextWidth, widthOf(name)))
  })
  // Each column has a space on both sides and a line after it. One line comes before the first column.
  const frame = names.length * 3 + 1
  const total = (all: readonly number[]) => all.reduce((sum, one) => sum + one, frame)
  if (total(least) > width) return undefined
  for (let over = total(widths) - width; over > 0; over--) {
    const shrinkable = widths.map((one, i) => (one > (least[i] ?? 0) ? one : -1))
    const widest = shrinkable.indexOf(Math.max(...shrinkable))
    widths[widest] = (widths[widest] ?? 0) - 1
  }
  return widths
}

function asTable(names: readonly string[], areNumeric: readonly boolean[], widths: readonly number[]): RowsTable {
  const rule = (left: string, between: string, right: string) =>
    `${left}${widths.map((width) => '─'.repeat(width + 2)).join(between)}${right}\n`
  const cell = (text: string, i: number) => {
    const width = widths[i] ?? 0
    const isNumeric = areNumeric[i] === true
    const length = widthOf(text)
    if (length <= width) return isNumeric ? ' '.repeat(width - length) + text : text + ' '.repeat(width - length)
    return isNumeric ? text : cut(text, width)
  }
  const line = (values: readonly string[]) => `│ ${values.map(cell).join(' │ ')} │\n`
  const rowLines = (row: QueryRow) => {
    const texts = row.map((value) => (value === null ? '' : printable(value)))
    if (!texts.some((text) => text.includes('\n'))) return line(texts)
    const split = texts.map((text) => text.split('\n'))
    const height = Math.max(...split.map((lines) => lines.length))
    return Array.from({ length: height }, (_, at) => line(split.map((lines) => lines[at] ?? ''))).join('')
  }
  return {
    head: () => `${rule('┌', '┬', '┐')}${line(names)}${rule('├', '┼', '┤')}`,
    lines: (rows) => rows.map(rowLines).join(''),
    end: () => rule('└', '┴', '┘'),
  }
}

function asBlocks(names: readonly string[], width: number): RowsTable {
  const nameWidth = Math.max(...names.map(widthOf))
  let before = 0
  const block = (row: QueryRow) =>
    [
      `── row ${++before} `.padEnd(Math.min(width, 80), '─'),
      ...names.map((name, i) => `${name}${' '.repeat(nameWidth - widthOf(name))}  ${printable(row[i] ?? '')}`),
    ].join('\n')
  return { head: () => '', lines: (rows) => rows.map((row) => `${block(row)}\n`).join(''), end: () => '' }
}

function longestLine(text: string): number {
  return text.includes('\n') ? Math.max(...text.split('\n').map(widthOf)) : widthOf(text)
}

/** Scripts whose characters take two columns of a terminal, and pictures. */
const wide =
  /^(?:\p{Script=Han}|\p{Script=Hangul}|\p{Script=Hiragana}|\p{Script=Katakana}|[\u3000-\u303f\uff01-\uff60\uffe0-\uffe6]|\p{Emoji_Presentation})/u
const characters = new Intl.Segmenter()

/** Returns the number of columns that a text takes on a terminal. */
function widthOf(text: string): number {
  if (/^[\u0020-\u007e]*$/.test(text)) return text.length
  return Array.from(characters.segment(text), ({ segment }) => widthOfCharacter(segment)).reduce((a, b) => a + b, 0)
}

function widthOfCharacter(character: string): number {
  if (wide.test(character)) return 2
  return /^[\p{Mark}\p{Cf}]+$/u.test(character) ? 0 : 1
}

/** Cuts a text to a number of columns, the last of which is "…". */
function cut(text: string, width: number): string {
  let taken = ''
  let length = 0
  for (const { segment } of characters.segment(text)) {
    if (length + widthOfCharacter(segment) > width - 1) break
    taken += segment
    length += widthOfCharacter(segment)
  }
  return `${taken}…${' '.repeat(width - 1 - length)}`
}
