import { text as readAll } from 'node:stream/consumers'
import { type Command, Option } from 'commander'
import Table from 'cli-table3'
import { openReader } from '../openStore.js'
import { counted, csvLine, printable, printableJson } from '../runtime/text.js'
import {
  type ArrayElements,
  errorExcerpt,
  parseArray,
  type QueryColumn,
  type QueryResult,
  type QueryRow,
  readInBatches,
  runReadOnlyQuery,
} from '../db/readOnlyQuery.js'
import { FailedAt } from './end.js'
import { type CommonOptions, configuredCommand, positiveSeconds, readConfig, wholeNumber } from './options.js'
import { warnings, writeOut } from './output.js'

interface QueryOptions extends CommonOptions {
  readonly csv?: boolean
  readonly json?: boolean
  readonly timeout: number
  readonly rows: number
}

const examples = `
Examples:
  market-recorder query "select symbol, last_price from market.latest_tickers limit 5"
  market-recorder query --csv "select * from market.candles where symbol = 'BTCUSDT'" > candles.csv
  market-recorder query - < question.sql

Times are in UTC, as PostgreSQL writes them (2026-03-01 12:00:00.5+00). For ISO 8601: to_json(ts) in the query, or export.`

export function queryCommand(): Command {
  return configuredCommand('query')
    .argument('<sql>', 'the statement; - reads it from standard input')
    .addOption(new Option('--csv', 'print CSV').conflicts('json'))
    .addOption(new Option('--json', 'print a JSON array of objects; decimals and 64-bit numbers as text, exact'))
    .addOption(new Option('--timeout <seconds>', 'give up after this time').default(60).argParser(positiveSeconds))
    .addOption(
      new Option('--rows <number>', 'maximum number of rows to print')
        .default(1000)
        .argParser(wholeNumber(0, 999_999_999)),
    )
    .addHelpText('after', examples)
    .action(runQuery)
}

async function runQuery(argument: string, options: QueryOptions): Promise<void> {
  const config = await readConfig(options)
  const sql = argument === '-' ? await readAll(process.stdin) : argument
  const timeoutMs = options.timeout * 1000
  const store = await openReader(config, warnings, timeoutMs)
  try {
    if (options.csv === true || options.json === true) {
      const print = options.csv === true ? printCsv : printJson
      await readInBatches(store, sql, { timeoutMs, batchRows: 1000 }, print)
    } else {
      await printTable(await runReadOnlyQuery(store, sql, { timeoutMs, maxRows: options.rows }))
    }
  } catch (error) {
    const excerpt = errorExcerpt(sql, error)
    if (excerpt.length === 0) throw error
    const { describeError } = await import('../db/databaseError.js')
    throw new FailedAt(describeError(error), excerpt, { cause: error })
  } finally {
    await store.close()
  }
}

async function printTable({ columns, rows, isTruncated }: QueryResult): Promise<void> {
  if (rows.length > 0) await writeOut(`${rowsTable(columns, rows, process.stdout.columns)}\n`)
  const count = counted(rows.length, 'row')
  await writeOut(isTruncated ? `the first ${count}; --rows, --csv and --json give more\n` : `${count}\n`)
}

type Batches = AsyncIterable<readonly QueryRow[]>

async function printCsv(columns: readonly QueryColumn[], batches: Batches): Promise<void> {
  // Control characters are escaped on a terminal only. Files and programs get each character as it is.
  const shown = (text: string) => (process.stdout.isTTY ? printable(text) : text)
  const line = (row: QueryRow) => `${csvLine(row.map((value, i) => csvText(columns[i], value)))}\n`
  await writeOut(shown(`${csvLine(columns.map(({ name }) => name))}\n`))
  for await (const rows of batches) await writeOut(shown(rows.map(line).join('')))
}

async function printJson(columns: readonly QueryColumn[], batches: Batches): Promise<void> {
  const names = columns.map(({ name }) => JSON.stringify(name))
  let separator = '['
  for await (const rows of batches) {
    const objects = rows.map((row) => {
      const fields = columns.map(({ type }, i) => `${names[i]}: ${jsonValue(type, row[i] ?? null)}`)
      const text = `${separator}\n  {${fields.join(', ')}}`
      separator = ','
      return text
    })
    await writeOut(printableJson(objects.join('')))
  }
  await writeOut(separator === '[' ? '[]\n' : '\n]\n')
}

/** Formats a boolean for CSV as `true` or `false`. PostgreSQL's `t` would be a text to other programs. */
function csvText(column: QueryColumn | undefined, value: string | null): string | null {
  return column?.type === 'bool' && value !== null ? String(value === 't') : value
}

/** Formats a value as JSON. A type that not every reader reads exactly becomes a string. */
function jsonValue(type: string, value: string | null): string {
  if (value === null) return 'null'
  if (type === 'bool') return String(value === 't')
  // PostgreSQL's name of an array type is an underscore and the name of its elements' type.
  if (type.startsWith('_')) return jsonArray(type.slice(1), parseArray(value))
  const isJson = type === 'int2' || type === 'int4' || type === 'json' || type === 'jsonb'
  return isJson ? value : JSON.stringify(value)
}

function jsonArray(type: string, elements: ArrayElements): string {
  const values = elements.map((element) =>
    element === null || typeof element === 'string' ? jsonValue(type, element) : jsonArray(type, element),
  )
  return `[${values.join(', ')}]`
}

interface TableColumn {
  readonly name: string
  /** The server's short name of the type. */
  readonly type: string
}
type Row = readonly (string | null)[]

const numericTypes = new Set(['int2', 'int4', 'int8', 'numeric', 'float4', 'float8'])
/** Smallest width of a text column. A shorter text would say too little. */
const minTextWidth = 8

/**
 * Formats rows as a table of at most `width` characters. Texts are cut with "…" if needed, but numbers never. If the
 * table is still too wide, each row becomes a block.
 */
export function rowsTable(given: readonly TableColumn[], values: readonly Row[], width = Infinity): string {
  const columns = given.map(({ name, type }) => ({ name: printable(name), type }))
  const rows = values.map((row) => row.map((value) => (value === null ? null : printable(value))))
  const widths = fittingWidths(columns, rows, width)
  return widths === undefined ? asBlocks(columns, rows, width) : asTable(columns, rows, widths)
}

/** Returns the widths of the columns' contents; undefined if they cannot fit. */
function fittingWidths(columns: readonly TableColumn[], rows: readonly Row[], width: number): number[] | undefined {
  const widths = columns.map(({ name }, i) =>
    rows.reduce((widest, row) => Math.max(widest, longestLine(row[i] ?? '')), longestLine(name)),
  )
  const least = columns.map(({ name, type }, i) => {
    const natural = widths[i] ?? 0
    return numericTypes.has(type) ? natural : Math.min(natural, Math.max(minTextWidth, name.length))
  })
  // Each column has a space on both sides and a line after it. One line comes before the first column.
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
