import { type Command, Option } from 'commander'
import picomatch from 'picomatch'
import { categories } from '../market/category.js'
import type { Config } from '../config/resolve.js'
import { certify } from '../files/archive/certify.js'
import { verifyArchive } from '../files/archive/verify.js'
import type { ArchiveTarget } from '../files/archive/target.js'
import { certificateText } from './archiveCertificate.js'
import { openArchive, tableOption } from './archiveTarget.js'
import { Failed } from './failed.js'
import { type CommonOptions, configuredCommand, day, readConfig } from './options.js'
import { writeOut } from './output.js'

interface CertifyOptions extends CommonOptions {
  readonly table?: readonly string[]
  readonly category?: readonly string[]
  readonly symbol: readonly string[]
  readonly interval?: readonly string[]
  readonly type?: readonly string[]
  readonly from: string
  readonly to: string
  readonly json?: boolean
}

export function certifyCommand(): Command {
  return configuredCommand('certify')
    .description('Report what the archive proves of a dataset: completeness by day, gaps, revisions, digests.')
    .addOption(tableOption('only these (default: archive.tables)'))
    .requiredOption('--from <day>', 'first day', day)
    .requiredOption('--to <day>', 'end, not included', day)
    .addOption(new Option('--category <category...>', 'only these').choices(categories))
    .option('--symbol <glob...>', 'only these, such as BTCUSDT or BTC*', ['*'])
    .option('--interval <interval...>', 'of candles, only these')
    .option('--type <type...>', 'of candles, only these')
    .option('--json', 'print the report as JSON')
    .addHelpText(
      'after',
      '\nExample:\n  market-recorder archive certify --config recorder.yaml --table fills --symbol BTCUSDT --from 2026-03-01 --to 2026-04-01\n\n' +
        'The report is made of the archive alone, after every file of it was read and found as it was written.\n' +
        'Exit code: 0, or 1 when a file is not as it was written: then there is no report.',
    )
    .action((_, command: Command) => runCertify(command.optsWithGlobals()))
}

async function runCertify(options: CertifyOptions): Promise<void> {
  const config = await readConfig(options)
  const target = await openArchive(config)
  try {
    await certifyFrom(target, config, options)
  } finally {
    await target.close()
  }
}

async function certifyFrom(target: ArchiveTarget, config: Config, options: CertifyOptions): Promise<void> {
  const { from, to } = options
  const tables = options.table ?? config.archive.tables
  const isSymbol = picomatch([...options.symbol])
  const isAmong = (wanted: readonly string[] | undefined, value: string) =>
    wanted === undefined || value === '' || wanted.includes(value)
  const problems: string[] = []
  for await (const result of verifyArchive(target, { tables, from, to })) problems.push(...result.problems)
  for (const problem of problems) process.stderr.write(`error: ${problem}\n`)
  if (problems.length > 0) throw new Failed()
  const certificate = await certify(target, {
    tables,
    from,
    to,
    isWanted: ({ category, symbol, type, interval }) =>
      isAmong(options.category, category) &&
      // A gap of all symbols is one of each.
      (symbol === '*' || isSymbol(symbol)) &&
      isAmong(options.interval, interval) &&
      isAmong(options.type, type),
  })
  await writeOut(options.json === true ? `${JSON.stringify(certificate, null, 1)}\n` : certificateText(certificate))
}
