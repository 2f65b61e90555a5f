import Table from 'cli-table3'
import { printable } from '../runtime/text.js'

interface TableColumn {
  readonly name: string
  /** The server's short name of the type. */
  readonly type: string
}
type Row = readonly (string | null)[]

const numericTypes = new Set(['int2', 'int4', 'int8', 'numeric', 'float4', 'float8'])
/** A text that is cut shorter than this says too little. */
const minTextWidth = 8

/**
 * Rows as a table of at most `width` characters. Texts are cut with "…" where they must be, numbers never: what does not fit even
 * then is set as one block a row.
 */
export function rowsTable(given: readonly TableColumn[], values: readonly Row[], width = Infinity): string {
  const columns = given.map(({ name, type }) => ({ name: printable(name), type }))
  const rows = values.map((row) => row.map((value) => (value === null ? null : printable(value))))
  const widths = fittingWidths(columns, rows, width)
  return widths === undefined ? asBlocks(columns, rows, width) : asTable(columns, rows, widths)
}

/** Widths of the columns' contents; undefined when they cannot be made to fit. */
function fittingWidths(columns: readonly TableColumn[], rows: readonly Row[], width: number): number[] | undefined {
  const widths = columns.map(({ name }, i) =>
    rows.reduce((widest, row) => Math.max(widest, longestLine(row[i] ?? '')), longestLine(name)),
  )
  const least = columns.map(({ name, type }, i) => {
    const natural = widths[i] ?? 0
    return numericTypes.has(type) ? natural : Math.min(natural, Math.max(minTextWidth, name.length))
  })
  // Every column has a blank on both sides and a line after it; there is a line before the first.
  const frame = columns.length * 3 + 1
  const total = (all: readonly number[]) => all.reduce((sum, one) => sum + one, frame)
  if (total(least) > width) return undefined
  while (total(widths) > width) {
    const shrinkable = widths.map((one, i) => (one > (least[i] ?? 0) ? one : -1))
    const widest = shrinkable.indexOf(Math.max(...shrinkable))
    widths[widest] = (widths[widest] ?? 0) - 1
  }
  return widths
}

function asTable(columns: readonly TableColumn[], rows: readonly Row[], widths: readonly number[]): string {
  const table = new Table({
    head: columns.map(({ name }) => name),
    style: { head: [], border: [], compact: true },
    colWidths: widths.map((one) => one + 2),
    colAligns: columns.map(({ type }) => (numericTypes.has(type) ? 'right' : 'left')),
  })
  for (const row of rows) table.push(row.map((value) => value ?? ''))
  return table.toString()
}

function asBlocks(columns: readonly TableColumn[], rows: readonly Row[], width: number): string {
  const nameWidth = Math.max(...columns.map(({ name }) => name.length))
  return rows
    .flatMap((row, index) => [
      `── row ${index + 1} `.padEnd(Math.min(width, 80), '─'),
      ...columns.map(({ name }, i) => `${name.padEnd(nameWidth)}  ${row[i] ?? ''}`),
    ])
    .join('\n')
}

function longestLine(text: string): number {
  return Math.max(...text.split('\n').map((line) => line.length))
}
