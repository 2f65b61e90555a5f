import { type Command, Option } from 'commander'
import picomatch from 'picomatch'
import { categories } from '../market/category.js'
import { stopSignal } from '../runtime/shutdown.js'
import { certify } from '../files/archive/certify.js'
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
        'The report is made of the archive alone, after every file of the range was read and found as it was written.\n' +
        'archive verify compares the archive with the database that wrote it.\n' +
        'Exit code: 0, or 1 without a report when a file is not as it was written, or nothing matches.',
    )
    .action((_, command: Command) => runCertify(command.optsWithGlobals()))
}

async function runCertify(options: CertifyOptions): Promise<void> {
  const config = await readConfig(options)
  const stop = stopSignal()
  const target = await openArchive(config, stop.signal)
  const isSymbol = picomatch([...options.symbol])
  const isAmong = (wanted: readonly string[] | undefined, value: string) =>
    wanted === undefined || value === '' || wanted.includes(value)
  try {
    const { certificate, problems } = await certify(target, {
      tables: options.table ?? config.archive.tables,
      from: options.from,
      to: options.to,
      signal: stop.signal,
      isWanted: ({ category, symbol, type, interval }) =>
        isAmong(options.category, category) &&
        // A gap of all symbols is one of each.
        (symbol === '*' || isSymbol(symbol)) &&
        isAmong(options.interval, interval) &&
        isAmong(options.type, type),
    })
    for (const problem of problems) process.stderr.write(`error: ${problem}\n`)
    if (certificate === null) throw new Failed()
    await writeOut(options.json === true ? `${JSON.stringify(certificate, null, 1)}\n` : certificateText(certificate))
  } finally {
    stop.release()
    await target.close()
  }
}
