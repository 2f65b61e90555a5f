import { existsSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { createInterface } from 'node:readline'
import { Command, Option } from 'commander'
import { type Config, resolveConfig } from '../config/resolve.js'
import { parseYaml, yamlText } from '../config/yaml.js'
import { categories, type Category, futuresCategories, tradedCategories } from '../market/category.js'
import { messageOf } from '../runtime/text.js'
import { exitCodes, Failed } from './end.js'
import { namesOption, wholeNumber } from './options.js'
import { planOf } from './plan.js'
import { print, tell } from './output.js'

/** A user's decisions. An option without a decision keeps its default, and is not written. */
interface Decisions {
  readonly url?: string
  readonly record?: readonly string[]
  readonly category?: readonly Category[]
  readonly symbol?: readonly string[]
  readonly keepDays?: number
  readonly dataDir?: string
  readonly archive?: string
}

interface InitOptions extends Decisions {
  readonly out: string
  readonly yes?: boolean
  readonly force?: boolean
}

const examples = `
Examples:
  npx market-recorder init
  npx market-recorder init --yes --url https://api.example.com --record fills candles --symbol 'BTC*' 'ETH*' --keep-days 90

In a terminal it asks for what no option says; with --yes, or without a terminal, that keeps its default. It writes no
password: set DATABASE_URL in the environment to record into a database of your own.`

/** Streams that a user decides about. The lists of instruments are always recorded, because other streams need them. */
const { streams: defaultStreams, storage: defaultStorage, database: defaultDatabase } = resolveConfig({})
const streamNames = Object.keys(defaultStreams).filter((name) => name !== 'instruments' && name !== 'rpiSymbols')
const recordedByDefault = Object.entries(defaultStreams).flatMap(([name, { enabled }]) => (enabled ? [name] : []))
const offByDefault = streamNames.filter((name) => !recordedByDefault.includes(name))

export function initCommand(): Command {
  return new Command('init')
    .option('--out <file>', 'file to write', 'recorder.yaml')
    .option('--url <url>', "the service's address, without /api/v3")
    .addOption(
      namesOption('--record <stream...>', 'streams to record (default: all that the defaults record)', streamNames),
    )
    .addOption(namesOption('--category <name...>', 'categories to cover (default: all that are traded)', categories))
    .option('--symbol <glob...>', "symbols to cover, such as 'BTC*' (default: all)")
    .addOption(
      new Option('--keep-days <days>', 'remove rows of this age (default: never)').argParser(wholeNumber(1, 36_500)),
    )
    .option('--data-dir <folder>', `folder of the embedded database (default: ${defaultDatabase.dataDir})`)
    .option('--archive <folder>', 'folder for Parquet files of settled days (default: none)')
    .option('--yes', 'ask nothing')
    .option('--force', 'overwrite the file')
    .addHelpText('after', examples)
    .action(runInit)
}

async function runInit({ out, yes, force, ...given }: InitOptions): Promise<void> {
  if (force !== true && existsSync(out)) {
    tell(`error: ${out} exists; give another file with --out, or overwrite it with --force`)
    throw new Failed(exitCodes.wrongUsage)
  }
  const isAsking = yes !== true && process.stdin.isTTY && process.stdout.isTTY
  const decisions = isAsking ? await askForRest(given) : given
  const text = configurationText(decisions)
  // Checks the decisions before anything is written.
  const config = resolveConfig(process.env, parseYaml(text, out))
  await writeFile(out, text, { flag: force === true ? 'w' : 'wx' }).catch((cause: unknown) => {
    throw new Error(`${out} cannot be written: ${messageOf(cause)}; give a file in another folder with --out`, {
      cause,
    })
  })
  print(`${out}:\n\n${text}`)
  print(`What it takes of the service's limits and of the disk:\n\n${await planOf(config)}\n`)
  print(nextSteps(out, config))
}

async function askForRest(given: Decisions): Promise<Decisions> {
  const terminal = createInterface({ input: process.stdin, output: process.stdout })
  // An iterator keeps lines that were pasted before their question.
  const lines = terminal[Symbol.asyncIterator]()
  /** Asks a question. An empty line, or the value in brackets, keeps the default. */
  const ask: Ask = async (question, byDefault) => {
    terminal.setPrompt(`${question} [${byDefault}]: `)
    terminal.prompt()
    const line: IteratorResult<string, undefined> = await lines.next()
    if (line.done === true) throw new Error('the input ended; nothing was written')
    const reply = line.value.trim()
    return reply === '' || reply === byDefault ? undefined : reply
  }
  try {
    print('Press Enter for what is in brackets. Separate several words by spaces.\n')
    const knownUrl = process.env.EXCHANGE_BASE_URL ?? 'set it later'
    return defined({
      url: given.url ?? (await ask("The service's address", knownUrl)),
      record: given.record ?? (await askFrom(ask, 'What to record', streamNames, `all but ${offByDefault.join(' ')}`)),
      category: given.category ?? (await askFrom(ask, 'Categories', tradedCategories)),
      symbol: given.symbol ?? words(await ask('Symbols, such as BTC* ETHUSDT', 'all')),
      keepDays: given.keepDays ?? (await askDays(ask)),
      dataDir: given.dataDir ?? (await ask('Folder of the embedded database', defaultDatabase.dataDir)),
      archive: given.archive ?? (await ask('Folder for Parquet files of settled days', 'none')),
    })
  } finally {
    terminal.close()
  }
}

type Ask = (question: string, byDefault: string) => Promise<string | undefined>

async function askFrom<Name extends string>(ask: Ask, question: string, names: readonly Name[], byDefault = 'all') {
  for (;;) {
    const replies = words(await ask(`${question}: ${names.join(' ')}`, byDefault))
    if (replies === undefined) return undefined
    if (replies.join() === 'all') return names
    const known = names.filter((name) => replies.includes(name))
    if (known.length === replies.length) return known
    print(`  Unknown: ${replies.filter((reply) => !names.some((name) => name === reply)).join(' ')}`)
  }
}

async function askDays(ask: Ask): Promise<number | undefined> {
  for (;;) {
    const reply = await ask('Days to keep', 'for ever')
    if (reply === undefined || /^[1-9]\d{0,3}$/.test(reply)) return reply === undefined ? undefined : Number(reply)
    print('  Give a number of days, such as 90.')
  }
}

function words(reply: string | undefined): string[] | undefined {
  return reply?.split(/[\s,]+/).filter((word) => word !== '')
}

/** Leaves out undefined decisions. An absent option keeps its default, but an undefined one would be an error. */
function defined(decisions: { [Key in keyof Decisions]: Decisions[Key] | undefined }): Decisions {
  return Object.fromEntries(Object.entries(decisions).filter(([, value]) => value !== undefined))
}

/** Returns the configuration as YAML, with only the options that differ from their defaults. */
function configurationText(decisions: Decisions): string {
  const { url, record = recordedByDefault, dataDir, archive, keepDays } = decisions
  const streams = Object.fromEntries(streamNames.map((name) => [name, streamOf(name, record, decisions)]))
  const kept = streamNames.filter(
    (name) => name in defaultStorage && record.includes(name) && streams[name]?.enabled !== false,
  )
  const parts = {
    exchange: url === undefined ? {} : { baseUrl: url },
    database: dataDir === undefined ? {} : { dataDir },
    streams: Object.fromEntries(Object.entries(streams).filter(([, options]) => Object.keys(options).length > 0)),
    storage: keepDays === undefined ? {} : Object.fromEntries(kept.map((name) => [name, { retentionDays: keepDays }])),
    archive: archive === undefined ? {} : { folder: archive },
  }
  const written = Object.fromEntries(Object.entries(parts).filter(([, options]) => Object.keys(options).length > 0))
  return [
    '# Configuration of market-recorder. What is not here keeps its default: docs/configuration.md has every option.',
    '# DATABASE_URL in the environment records into that database; without it, an embedded PostgreSQL is started.',
    Object.keys(written).length === 0 ? '' : yamlText(written),
  ].join('\n')
}

interface StreamOptions {
  readonly enabled?: boolean
  readonly categories?: readonly string[]
  readonly select?: { readonly categories?: readonly string[]; readonly symbols?: readonly string[] }
}

function streamOf(name: string, record: readonly string[], { category, symbol }: Decisions): StreamOptions {
  const options = defaultStreams[name as keyof typeof defaultStreams]
  const selects = 'select' in options
  const hasCategories = 'categories' in options
  // A stream without categories to choose from records all futures.
  const possible: readonly string[] = selects
    ? options.select.categories
    : hasCategories
      ? options.categories
      : futuresCategories
  const covered = category?.filter((each) => possible.includes(each) || (selects && each === 'MARGIN'))
  const isRecorded = record.includes(name) && covered?.length !== 0
  const enabled = isRecorded === options.enabled ? {} : { enabled: isRecorded }
  if (!isRecorded) return enabled
  if (!selects) return { ...enabled, ...(covered && hasCategories && { categories: covered }) }
  const select = { ...(covered && { categories: covered }), ...(symbol && { symbols: symbol }) }
  return Object.keys(select).length === 0 ? enabled : { ...enabled, select }
}

function nextSteps(out: string, { exchange, database }: Config): string {
  const commands = [
    [`doctor --config ${out}`, 'checks the configuration, the database, the clock and the service'],
    [`start --config ${out}`, 'records until Ctrl-C'],
    ['status --watch', 'in another terminal: how it is doing'],
  ] as const
  const width = Math.max(...commands.map(([command]) => command.length))
  const lines = commands.map(([command, what]) => `  npx market-recorder ${command.padEnd(width)}   # ${what}`)
  if (exchange.baseUrl === undefined)
    lines.unshift('  export EXCHANGE_BASE_URL=https://…   # the address of the service')
  const where =
    database.url === undefined ? `an embedded PostgreSQL in ${database.dataDir}` : 'the database of DATABASE_URL'
  return `It records into ${where}. Next:\n\n${lines.join('\n')}`
}
