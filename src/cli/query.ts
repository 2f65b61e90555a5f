import Table from 'cli-table3'
import { Command, Option } from 'commander'
import { openStore } from '../app.js'
import { createLogger } from '../runtime/logger.js'
import { type QueryResult, runReadOnlyQuery } from '../store/readOnlyQuery.js'
import { type CommonOptions, configOption, dataDirOption, positiveSeconds, readConfig } from './options.js'

interface QueryOptions extends CommonOptions {
  readonly csv?: boolean
  readonly json?: boolean
  readonly timeout: number
}

export function queryCommand(): Command {
  return new Command('query')
    .description('Run one read-only SQL statement and print its rows.')
    .argument('<sql>', 'the statement')
    .addOption(configOption())
    .addOption(dataDirOption())
    .addOption(new Option('--csv', 'print CSV').conflicts('json'))
    .addOption(new Option('--json', 'print a JSON array of objects; numbers as text, exact'))
    .addOption(new Option('--timeout <seconds>', 'give up after this time').default(60).argParser(positiveSeconds))
    .addHelpText(
      'after',
      '\nExample:\n  market-recorder query "select symbol, last_price from market.latest_tickers limit 5"',
    )
    .action(runQuery)
}

async function runQuery(sql: string, options: QueryOptions): Promise<void> {
  const config = readConfig(options)
  const store = await openStore(config, createLogger('warn'))
  try {
    const result = await runReadOnlyQuery(store.database, sql, { timeoutMs: options.timeout * 1000 })
    const print = options.csv === true ? printCsv : options.json === true ? printJson : printTable
    print(result)
  } finally {
    await store.close()
  }
}

function printTable({ columns, rows }: QueryResult): void {
  const table = new Table({
    head: columns.map((column) => column.name),
    style: { head: process.stdout.isTTY ? ['cyan'] : [], border: [] },
    colAligns: columns.map((column) => (numericTypes.has(column.type) ? 'right' : 'left')),
  })
  for (const row of rows) table.push(row.map((value) => value ?? ''))
  console.log(table.toString())
  console.log(`${rows.length} ${rows.length === 1 ? 'row' : 'rows'}`)
}

const numericTypes = new Set(['int2', 'int4', 'int8', 'numeric', 'float4', 'float8'])

function printCsv({ columns, rows }: QueryResult): void {
  const lines = [columns.map((column) => column.name), ...rows].map((values) => values.map(csvValue).join(','))
  process.stdout.write(`${lines.join('\n')}\n`)
}

function csvValue(value: string | null): string {
  if (value === null) return ''
  return value === '' || /[",\n\r]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value
}

function printJson({ columns, rows }: QueryResult): void {
  const objects = rows.map((row) => Object.fromEntries(columns.map((column, i) => [column.name, row[i] ?? null])))
  process.stdout.write(`${JSON.stringify(objects, null, 2)}\n`)
}
