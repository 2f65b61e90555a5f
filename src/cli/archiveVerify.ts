import { type Command, Option } from 'commander'
import { openDatabase } from '../db/database.js'
import { openStore } from '../openStore.js'
import { createLogger } from '../runtime/logger.js'
import { stopSignal } from '../runtime/shutdown.js'
import { type VerifiedDay, verifyArchive } from '../files/archive/verify.js'
import { verifyTables } from '../files/iceberg/check.js'
import { openArchive, tableOption } from './archiveTarget.js'
import { Failed } from './failed.js'
import { type CommonOptions, configuredCommand, day, readConfig } from './options.js'
import { writeOut } from './output.js'

interface VerifyOptions extends CommonOptions {
  readonly table?: readonly string[]
  readonly from?: string
  readonly to?: string
  readonly offline?: boolean
  readonly json?: boolean
}

export function verifyCommand(): Command {
  return configuredCommand('verify')
    .description(
      'Read the archive and compare it with its manifests, and with the database where that has the day, too.',
    )
    .addOption(tableOption('only these (default: all)'))
    .addOption(new Option('--from <day>', 'first day (default: the oldest)').argParser(day))
    .addOption(new Option('--to <day>', 'end, not included (default: all days)').argParser(day))
    .option('--offline', 'leave the database alone')
    .option('--json', 'print one JSON array')
    .addHelpText(
      'after',
      '\nExample:\n  market-recorder archive verify --config recorder.yaml --offline\n\n' +
        'A day that is damaged, or that the database has otherwise, is written anew by the next archive.\n' +
        'Exit code: 0 when everything is as it was written, 1 when anything is not.',
    )
    .action((_, command: Command) => runVerify(command.optsWithGlobals()))
}

async function runVerify(options: VerifyOptions): Promise<void> {
  const config = await readConfig(options)
  const stop = stopSignal()
  const target = await openArchive(config, stop.signal)
  const store = options.offline === true ? null : await openStore(config, createLogger('warn'))
  // Look up rows that archive files name over a read-only connection, which needs no further rights.
  const rowReader = store && openDatabase({ url: store.readUrl, isReadOnly: true })
  const results: VerifiedDay[] = []
  const count = { days: 0, rows: 0, compared: 0, problems: 0 }
  try {
    const days = verifyArchive(target, {
      tables: options.table,
      from: options.from,
      to: options.to,
      database: store?.database,
      rowReader: rowReader ?? undefined,
      signal: stop.signal,
    })
    for await (const result of days) {
      count.days++
      count.rows += result.rows
      count.compared += result.isEqual === null ? 0 : 1
      count.problems += result.problems.length
      if (options.json === true) results.push(result)
      else for (const problem of result.problems) await writeOut(`${result.table} of ${result.day}: ${problem}\n`)
    }
    const isWhole = options.table === undefined && options.from === undefined && options.to === undefined
    for await (const { table, problem } of isWhole && store !== null ? verifyTables(store.database.db, target) : []) {
      count.problems++
      if (options.json === true) {
        results.push({ table, day: '', version: 0, rows: 0, isEqual: null, problems: [problem] })
      } else await writeOut(`${table}: ${problem}\n`)
    }
  } finally {
    stop.release()
    await target.close()
    await rowReader?.close()
    await store?.close()
  }
  if (options.json === true) await writeOut(`${JSON.stringify(results)}\n`)
  else {
    const { days, rows, compared, problems } = count
    if (store === null) await writeOut('the database was not asked which days it has archived\n')
    await writeOut(
      `${days} days of tables read, ${rows} rows, ${compared} compared with the database: ${problems === 0 ? 'ok' : `${problems} problems`}\n`,
    )
  }
  if (count.problems > 0) throw new Failed()
}
