import { type Command, Option } from 'commander'
import { prepareBeside } from '../prepareStore.js'
import { openStore } from '../openStore.js'
import { createLogger } from '../runtime/logger.js'
import { stopSignal } from '../runtime/shutdown.js'
import { restoreArchive } from '../files/archive/restore.js'
import { openArchive, tableOption } from './archiveTarget.js'
import { exitCodes, failedOrStopped } from './failed.js'
import { type CommonOptions, configuredCommand, day, readConfig } from './options.js'
import { writeOut } from './output.js'

interface RestoreOptions extends CommonOptions {
  readonly table?: readonly string[]
  readonly from?: string
  readonly to?: string
  readonly json?: boolean
}

export function restoreCommand(): Command {
  return configuredCommand('restore')
    .description('Bring days back into the database, coverage and gaps included. What is there already stays as it is.')
    .addOption(tableOption('only these (default: archive.tables)'))
    .addOption(new Option('--from <day>', 'first day (default: the oldest)').argParser(day))
    .addOption(new Option('--to <day>', 'end, not included (default: all days)').argParser(day))
    .option('--json', 'print the result as JSON')
    .addHelpText(
      'after',
      '\nExample:\n  market-recorder archive restore --config recorder.yaml --table fills --from 2026-03-01 --to 2026-04-01',
    )
    .action((_, command: Command) => runRestore(command.optsWithGlobals()))
}

async function runRestore(options: RestoreOptions): Promise<void> {
  const config = await readConfig(options)
  const logger = createLogger('warn')
  const stop = stopSignal()
  const target = await openArchive(config, stop.signal)
  const store = await openStore(config, logger, { mayCreate: true })
  try {
    await prepareBeside(store, config, logger)
    const { table: tables = config.archive.tables, from, to } = options
    const { restored, problems } = await restoreArchive(
      store.database,
      target,
      { tables, from, to },
      {
        signal: stop.signal,
        onDay: ({ table, day: done, rows, inserted }) =>
          process.stderr.write(`${table} of ${done}: ${rows} rows, ${inserted} of them new\n`),
      },
    )
    for (const problem of problems) process.stderr.write(`error: ${problem}\n`)
    if (problems.length > 0) process.exitCode = exitCodes.failed
    const inserted = restored.reduce((sum, one) => sum + one.inserted, 0)
    if (options.json === true) return await writeOut(`${JSON.stringify(restored)}\n`)
    await writeOut(`${restored.length} days of tables restored, ${inserted} rows were new\n`)
  } catch (error) {
    throw failedOrStopped(error, stop.signal)
  } finally {
    stop.release()
    await target.close()
    await store.close()
  }
}
