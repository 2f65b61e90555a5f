import type { Command } from 'commander'
import { prepareBeside } from '../prepareStore.js'
import { openStore } from '../openStore.js'
import { createLogger } from '../runtime/logger.js'
import { stopSignal } from '../runtime/shutdown.js'
import { packageVersion } from '../runtime/version.js'
import { runArchive } from '../files/archive/run.js'
import { certifyCommand } from './archiveCertify.js'
import { pruneCommand, rebuildTablesCommand } from './archivePrune.js'
import { noRemoval, removeOld } from './archiveRemoval.js'
import { restoreCommand } from './archiveRestore.js'
import { openArchive, openPublisher, tableOption } from './archiveTarget.js'
import { verifyCommand } from './archiveVerify.js'
import { exitCodes, failedOrStopped } from './failed.js'
import { type CommonOptions, configuredCommand, readConfig } from './options.js'
import { writeOut } from './output.js'
import { progressLine } from './progressLine.js'

interface RunOptions extends CommonOptions {
  readonly table?: readonly string[]
  readonly dryRun?: boolean
  readonly remove?: boolean
  readonly json?: boolean
}

const examples = `
Examples:
  market-recorder archive --config recorder.yaml
  market-recorder archive verify --config recorder.yaml
  market-recorder archive restore --config recorder.yaml --table fills --from 2026-03-01 --to 2026-04-01
  market-recorder archive certify --config recorder.yaml --table fills --from 2026-03-01 --to 2026-04-01 --symbol BTCUSDT

Without a subcommand every settled day is written that the archive does not have yet, or has otherwise than the database.
The same command again goes on where it was stopped. archive <subcommand> --help says more.`

export function archiveCommand(): Command {
  const command = configuredCommand('archive')
    .addOption(tableOption('only these (default: archive.tables)'))
    .option('--dry-run', 'only say which days would be written')
    .option('--remove', 'then remove the rows that storage keeps no longer, if they are in the archive and equal')
    .option('--json', 'print the result as JSON')
    .addHelpText('after', examples)
    .action(runIt)
  // Options that both have are read by this one, wherever they stand: subcommands take them from here.
  for (const sub of [verifyCommand(), restoreCommand(), certifyCommand(), pruneCommand(), rebuildTablesCommand()]) {
    command.addCommand(sub.exitOverride())
  }
  return command
}

async function runIt(options: RunOptions): Promise<void> {
  const config = await readConfig(options)
  const logger = createLogger('warn')
  const stop = stopSignal()
  const target = await openArchive(config, stop.signal)
  const store = await openStore(config, logger)
  const progress = progressLine()
  try {
    await prepareBeside(store, config, logger)
    const { tables, afterHours } = config.archive
    const result = await runArchive(
      store.database,
      target,
      { tables: options.table ?? tables, afterHours, isDryRun: options.dryRun === true },
      {
        now: Date.now,
        publish: config.archive.iceberg ? await openPublisher(config, store.database, target) : undefined,
        recorder: packageVersion(),
        signal: stop.signal,
        onProgress: ({ table, day, rows }) => progress.show(() => `${table} of ${day}, ${rows} rows`),
      },
    )
    progress.end()
    const isRemoving = options.remove === true && options.dryRun !== true
    const removing = { machineNow: Date.now, signal: stop.signal }
    const removal = isRemoving ? await removeOld(store.database, target, config, removing) : noRemoval
    if (removal.problem !== null) process.stderr.write(`error: ${removal.problem}\n`)
    for (const { table, day, reason } of removal.kept) {
      process.stderr.write(`error: ${table} of ${day} and later stays in the database, past its age: ${reason}\n`)
    }
    for (const problem of result.problems) process.stderr.write(`error: ${problem}\n`)
    const isWell = removal.kept.length + result.problems.length === 0 && removal.problem === null
    if (!isWell) process.exitCode = exitCodes.failed
    if (options.json === true) return await writeOut(`${JSON.stringify({ ...result, ...removal })}\n`)
    if (options.dryRun === true) {
      for (const { table, day } of result.due) await writeOut(`${table} of ${day} would be written\n`)
      return await writeOut(`${result.due.length} days of tables are due; nothing was written\n`)
    }
    for (const { table, day, version, rows, bytes, files } of result.written) {
      await writeOut(`${table} of ${day}: ${rows} rows, ${bytes} bytes in ${files} files, version ${version}\n`)
    }
    await writeOut(`${result.written.length} days of tables written to ${target.name}\n`)
    for (const line of removal.removed) await writeOut(`${line}\n`)
  } catch (error) {
    progress.end()
    throw failedOrStopped(error, stop.signal)
  } finally {
    stop.release()
    await target.close()
    await store.close()
  }
}
