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
import { startTable } from './rowsTable.js'

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
