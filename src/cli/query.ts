import { text as readAll } from 'node:stream/consumers'
import { type Command, Option } from 'commander'
import { openReader } from '../openStore.js'
import { counted, csvLine, printable, printableJson } from '../runtime/text.js'
import {
  type ArrayElements,
  errorExcerpt,
  parseArray,
  type QueryColumn,
  type QueryRow,
  readInBatches,
} from '../db/readOnlyQuery.js'
import { FailedAt } from './end.js'
import { type CommonOptions, configuredCommand, positiveSeconds, readConfig, wholeNumber } from './options.js'
import { warnings, writeData } from './output.js'

interface QueryOptions extends CommonOptions {
  readonly csv?: boolean
  readonly json?: boolean
  readonly timeout: number
  readonly rows: number
}

const examples = `
Examples:
  npx market-recorder query "select symbol, last_price from market.latest_tickers limit 5"
  npx market-recorder query --csv "select * from market.candles where symbol = 'BTCUSDT'" > candles.csv
  npx market-recorder query - < question.sql

Times are in UTC, as PostgreSQL writes them (2026-03-01 12:00:00.5+00). For ISO 8601: to_json(ts) in the query, or export.`

export function queryCommand(): Command {
  return configuredCommand('query')
    .argument('<sql>', 'the statement; - reads it from standard input')
    .addOption(
      new Option('--csv', 'print CSV; NULL is an empty field, which alone is an empty line, as in COPY').conflicts(
        'json',
      ),
    )
    .addOption(new Option('--json', 'print a JSON array of objects; decimals and 64-bit numbers as text, exact'))
    .addOption(new Option('--timeout <seconds>', 'give up after this time').default(60).argParser(positiveSeconds))
    .addOption(
      new Option('--rows <number>', 'maximum number of rows in the table')
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
    const print = options.csv === true ? printCsv : options.json === true ? printJson : tableOf(options.rows)
    // One more than a table has by default tells whether there are more.
    await readInBatches(store, sql, { timeoutMs, batchRows: 1001 }, print)
  } catch (error) {
    const excerpt = errorExcerpt(sql, error)
    if (excerpt.length === 0) throw error
    const { describeError } = await import('../db/databaseError.js')
    throw new FailedAt(describeError(error), excerpt, { cause: error })
  } finally {
    await store.close()
  }
}

type Batches = AsyncIterable<readonly QueryRow[]>

/** Returns a function that prints the first `maxRows` rows as a table, batch by batch. */
function tableOf(maxRows: number) {
  return async (columns: readonly QueryColumn[], batches: Batches) => {
    let printed = 0
    let isTruncated = false
    let table: ReturnType<typeof startTable> | undefined
    for await (const batch of batches) {
      const rows = batch.slice(0, maxRows - printed)
      isTruncated = rows.length < batch.length
      printed += rows.length
      if (rows.length > 0) {
        const head = table === undefined
        table ??= startTable(columns, rows, process.stdout.columns)
        await writeData((head ? table.head() : '') + table.lines(rows))
      }
      if (isTruncated) break
    }
    await writeData(table?.end() ?? '')
    const count = counted(printed, 'row')
    await writeData(isTruncated ? `the first ${count}; --rows, --csv and --json give more\n` : `${count}\n`)
  }
}

async function printCsv(columns: readonly QueryColumn[], batches: Batches): Promise<void> {
  // Control characters are escaped on a terminal only. Files and programs get each character as it is.
  const shown = (text: string) => (process.stdout.isTTY ? printable(text) : text)
  const line = (row: QueryRow) => `${csvLine(row.map((value, i) => csvText(columns[i], value)))}\n`
  await writeData(shown(`${csvLine(columns.map(({ name }) => name))}\n`))
  for await (const rows of batches) await writeData(shown(rows.map(line).join('')))
}

async function printJson(columns: readonly QueryColumn[], batches: Batches): Promise<void> {
  const names = columns.map(({ name }) => JSON.stringify(name))
  const twice = names.find((name, i) => names.indexOf(name) < i)
  // A reader of the objects would see only the last of them.
  if (twice !== undefined) throw new Error(`two columns are named ${twice}; rename one with "as", or use --csv`)
  let separator = '['
  for await (const rows of batches) {
    const objects = rows.map((row) => {
      const fields = columns.map(({ type }, i) => `${names[i]}: ${jsonValue(type, row[i] ?? null)}`)
      const text = `${separator}\n  {${fields.join(', ')}}`
      separator = ','
      return text
    })
    await writeData(printableJson(objects.join('')))
  }
  await writeData(separator === '[' ? '[]\n' : '\n]\n')
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
