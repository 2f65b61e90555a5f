import { type Command, Option } from 'commander'
import { candleTypes, intervals } from '../market/candle.js'
import { categories } from '../market/category.js'
import { symbolMatcher } from '../market/instrument.js'
import { type Certificate, certify } from '../files/archive/certify.js'
import { readHints } from '../files/iceberg/catalog.js'
import { tableOption, withTarget } from './openArchive.js'
import { Failed, reportProblems } from './end.js'
import { type CommonOptions, configuredCommand, day, namesOption, requireOptions } from './options.js'
import { writeJson, writeOut } from './output.js'
import { counted } from '../runtime/text.js'

type Table = Certificate['tables'][number]
type Series = Table['series'][number]

interface CertifyOptions extends CommonOptions {
  readonly table?: readonly string[]
  readonly category?: readonly string[]
  readonly symbol: readonly string[]
  readonly interval?: readonly string[]
  readonly type?: readonly string[]
  readonly from?: string
  readonly to?: string
  readonly json?: boolean
}

export function certifyCommand(): Command {
  return configuredCommand('certify')
    .description('Report what the archive proves of a dataset: completeness by day, gaps, revisions, digests.')
    .addOption(tableOption('only these (default: archive.tables)'))
    .addOption(new Option('--from <day>', 'first day').argParser(day))
    .addOption(new Option('--to <day>', 'end, not included').argParser(day))
    .addOption(namesOption('--category <category...>', 'only these', categories))
    .option('--symbol <glob...>', 'only these, such as BTCUSDT or BTC*', ['*'])
    .addOption(namesOption('--interval <interval...>', 'of candles, only these', intervals))
    .addOption(namesOption('--type <type...>', 'of candles, only these', candleTypes))
    .option('--json', 'print the report as JSON')
    .addHelpText(
      'after',
      '\nExample:\n  npx market-recorder archive certify --config recorder.yaml --table fills --symbol BTCUSDT --from 2026-03-01 --to 2026-04-01\n\n' +
        'The report is made of the archive alone, after every file of the range was read and found as it was written.\n' +
        'archive verify compares the archive with the database that wrote it.\n' +
        'Exit code: 0, or 1 without a report when a file is not as it was written, or nothing matches.',
    )
    .action((_, command: Command) => runCertify(command.optsWithGlobals()))
}

async function runCertify(options: CertifyOptions): Promise<void> {
  const { from, to } = requireOptions({ from: options.from, to: options.to })
  const isSymbol = symbolMatcher(options.symbol)
  const isAmong = (wanted: readonly string[] | undefined, value: string) =>
    wanted === undefined || value === '' || wanted.includes(value)
  await withTarget(options, async ({ config, target, signal }) => {
    const { certificate, problems } = await certify(target, {
      pointers: await readHints(target),
      tables: options.table ?? config.archive.tables,
      from,
      to,
      signal,
      isWanted: ({ category, symbol, type, interval }) =>
        isAmong(options.category, category) &&
        // A gap of all symbols counts for each symbol.
        (symbol === '*' || isSymbol(symbol)) &&
        isAmong(options.interval, interval) &&
        isAmong(options.type, type),
    })
    reportProblems(problems)
    if (certificate === null) throw new Failed()
    await (options.json === true ? writeJson(certificate, 1) : writeOut(certificateText(certificate)))
  })
}

/** Formats a certificate as Markdown, to read and to attach. */
function certificateText({ from, to, tables }: Certificate): string {
  const head = [`# What was recorded from ${from} to ${to} (not included), UTC`, '']
  return `${[...head, ...tables.flatMap(tableLines)].join('\n')}\n`
}

function tableLines({ table, rows, digests, missing, series }: Table): string[] {
  const days = new Set(digests.map(({ day: one }) => one)).size
  const head = ['| series | complete | gaps | revisions | restatements |', '|---|---|---|---|---|']
  return [
    `## market.${table}`,
    '',
    `${counted(rows, 'row')} in ${counted(days, 'day')}${missing.length === 0 ? '' : `; not in the archive: ${missing.join(', ')}`}.`,
    '',
    ...(series.length === 0 ? [] : [...head, ...series.map(seriesLine), '', ...series.flatMap(details), '']),
    '| day | category | rows | SHA-256 of the rows |',
    '|---|---|---|---|',
    ...digests.map((one) => `| ${one.day} | ${one.category} | ${one.rows} | ${one.sha256} |`),
    '',
  ]
}

function nameOf({ category, symbol, type, interval }: Series): string {
  return [category, symbol, type, interval].filter((part) => part !== '').join(' ')
}

function seriesLine(series: Series): string {
  const { completeness, gaps, revisions, restatements } = series
  const share = completeness === null ? 'not claimed' : percent(completeness)
  return `| ${nameOf(series)} | ${share} | ${gaps.length} | ${revisions.length} | ${restatements.length} |`
}

/** Lists what is not complete. Revisions and restatements are counted only. */
function details(series: Series): string[] {
  const days = Object.entries(series.incompleteDays).map(([one, share]) => `${one} ${percent(share)}`)
  return [
    ...(days.length === 0 ? [] : [`- ${nameOf(series)}, incomplete: ${days.join(', ')}`]),
    ...series.gaps.map(
      (gap) => `- ${nameOf(series)}: gap ${gap['from_time']} to ${gap['to_time']}, ${gap['state']}: ${gap['reason']}`,
    ),
  ]
}

/** Formats a share as a percentage. Rounds down, so that an incomplete range never shows 100 %. */
function percent(share: number): string {
  return `${(Math.floor(share * 10_000) / 100).toFixed(2)} %`
}
