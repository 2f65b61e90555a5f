import { type Command, Option } from 'commander'
import { openStore } from '../openStore.js'
import { createLogger } from '../runtime/logger.js'
import { runArchive } from '../files/archive/run.js'
import { certifyCommand } from './archiveCertify.js'
import { type OpenParts, tableOption, withArchive, withTarget } from './openArchive.js'
import { Failed, reportProblems } from './end.js'
import { type CommonOptions, configuredCommand, day } from './options.js'
import { progressLine, tell, writeJson, writeOut } from './output.js'
import { pruneArchive, type VerifiedDay, verifyArchive } from '../files/archive/verify.js'
import { readHints, readPointers } from '../files/iceberg/catalog.js'
import type { RecorderDatabase } from '../db/database.js'
import { timeTables } from '../market/stream.js'
import { type Config, storageOf } from '../config/resolve.js'
import { removalTime } from '../ledger/forget.js'
import { adoptArchive } from '../files/archive/adopt.js'
import { requireOwnArchive } from '../files/archive/owner.js'
import { withArchiveLock } from '../files/archive/state.js'
import { type Day, dayEnd, dayOf } from '../files/layout/tables.js'
import type { ArchiveTarget } from '../files/layout/target.js'
import { removeArchived } from '../files/archive/removal.js'
import { type MachineMs, sum } from '../market/values.js'
import { restoreArchive } from '../files/archive/restore.js'
import { systemClock } from '../runtime/clock.js'
import { counted } from '../runtime/text.js'

interface RunOptions extends CommonOptions {
  readonly table?: readonly string[]
  readonly dryRun?: boolean
  readonly remove?: boolean
  readonly json?: boolean
}

const example = `
Example:
  npx market-recorder archive --config recorder.yaml

Without a subcommand every settled day is written that the archive does not have yet, or has otherwise than the database.
The same command again goes on where it was stopped. archive <subcommand> --help says more.`

export function archiveCommand(): Command {
  const command = configuredCommand('archive')
    .addOption(tableOption('only these (default: archive.tables)'))
    .option('--dry-run', 'only say which days are due, with rows or without')
    .option('--remove', 'then remove the rows that storage keeps no longer, if they are in the archive and equal')
    .option('--json', 'print the result as JSON')
    .addHelpText('after', example)
    .action(runIt)
  // This command reads all options that subcommands share with it. The subcommands take them from it.
  for (const sub of [verifyCommand(), restoreCommand(), certifyCommand(), pruneCommand(), adoptCommand()]) {
    command.addCommand(sub.exitOverride())
  }
  return command
}

async function runIt(options: RunOptions): Promise<void> {
  const progress = progressLine()
  const run = async ({ config, target, store: { database }, signal }: OpenParts) => {
    const { tables, afterHours, snapshotDays } = config.archive
    const isDryRun = options.dryRun === true
    const result = await runArchive(
      database,
      target,
      { tables: options.table ?? tables, afterHours, snapshotDays, isDryRun },
      {
        now: Date.now,
        signal,
        onProgress: ({ table, day, rows }) => progress.show(() => `${table} of ${day}, ${rows} rows`),
      },
    )
    progress.end()
    const isRemoving = options.remove === true && !isDryRun
    const removal = isRemoving
      ? await removeOld(database, target, config, { machineNow: () => systemClock.now(), signal })
      : noRemoval
    const problems = [
      ...(removal.problem === null ? [] : [removal.problem]),
      ...removal.kept.map(
        ({ table, day, reason }) => `${table} of ${day} and later stays in the database, past its age: ${reason}`,
      ),
      ...result.problems,
    ]
    reportProblems(problems)
    if (options.json === true) return writeJson({ ...result, ...removal })
    if (isDryRun) {
      for (const range of rangesOf(result.due)) await writeOut(`${range} due\n`)
      return writeOut(
        `${counted(result.due.length, 'day')} of tables due; nothing was written, and days without rows never are\n`,
      )
    }
    for (const { table, day, rows, bytes, files } of result.written) {
      await writeOut(`${table} of ${day}: ${counted(rows, 'row')}, ${bytes} bytes in ${counted(files, 'file')}\n`)
    }
    const isNothingDue = result.written.length + problems.length === 0
    const when = isNothingDue ? `: a day is due ${afterHours} hours after its end, or when it has changed` : ''
    await writeOut(`${counted(result.written.length, 'day')} of tables written to ${target.name}${when}\n`)
    for (const line of removal.removed) await writeOut(`${line}\n`)
  }
  await withArchive(options, run, { isPreparing: true }).finally(() => progress.end())
}

/** Names days of tables. Those that follow one another are one line. */
export function rangesOf(days: Awaited<ReturnType<typeof runArchive>>['due']): string[] {
  const ranges: { readonly table: string; readonly first: Day; last: Day; count: number }[] = []
  for (const { table, day } of days) {
    const range = ranges.at(-1)
    if (range?.table === table && dayOf(dayEnd(range.last)) === day)
      Object.assign(range, { last: day, count: range.count + 1 })
    else ranges.push({ table, first: day, last: day, count: 1 })
  }
  return ranges.map(({ table, first, last, count }) =>
    count === 1 ? `${table} of ${first}` : `${table} of ${first} to ${last}, ${count} days,`,
  )
}

interface OldRemoval extends Awaited<ReturnType<typeof removeArchived>> {
  /** Why no table was checked; null if they were. */
  readonly problem: string | null
}

const noRemoval: OldRemoval = { removed: [], kept: [], problem: null }

/** Removes archived rows past their age. The age counts by the earlier of this machine's clock and the database's. */
export async function removeOld(
  database: RecorderDatabase,
  target: ArchiveTarget,
  config: Config,
  { machineNow, signal }: { readonly machineNow: () => MachineMs; readonly signal?: AbortSignal },
): Promise<OldRemoval> {
  const storage = storageOf(config)
  const tables = timeTables.flatMap(({ name }) => {
    const { retentionDays, isArchived } = storage[name]
    return retentionDays === undefined || !isArchived ? [] : [{ name, retentionDays }]
  })
  if (tables.length === 0) return noRemoval
  const time = await removalTime(database.db, { machineNow })
  if ('problem' in time) return { ...noRemoval, problem: time.problem }
  const options = { now: () => time.now, ...(signal && { signal }) }
  return { ...(await removeArchived(database, target, tables, options)), problem: null }
}

function pruneCommand(): Command {
  return configuredCommand('prune')
    .description('Remove files that no snapshot names: of former snapshots, and of interrupted runs.')
    .option('--dry-run', 'only say what would be removed')
    .addHelpText('after', '\nExample:\n  npx market-recorder archive prune --config recorder.yaml --dry-run')
    .action((_, command: Command) => runPrune(command.optsWithGlobals()))
}

async function runPrune(options: CommonOptions & { readonly dryRun?: boolean }): Promise<void> {
  const isDryRun = options.dryRun === true
  await withArchive(options, async ({ target, store: { database }, signal }) => {
    const { files, bytes } = await withArchiveLock(database.db, async () => {
      const pointers = await readPointers(database.db)
      await requireOwnArchive(database.db, target, pointers)
      return pruneArchive(target, pointers, { isDryRun, signal })
    })
    await writeOut(`${isDryRun ? 'would remove' : 'removed'} ${counted(files, 'file')} of ${bytes} bytes\n`)
  })
}

function adoptCommand(): Command {
  return configuredCommand('adopt')
    .description('Take over an archive that knows more than the database: what the archive has is final then.')
    .addHelpText('after', '\nExample:\n  npx market-recorder archive adopt --config recorder.yaml')
    .action((_, command: Command) => runAdopt(command.optsWithGlobals()))
}

async function runAdopt(options: CommonOptions): Promise<void> {
  const adopt = async ({ target, store: { database }, signal }: OpenParts) => {
    const { days } = await adoptArchive(database.db, target, signal)
    await writeOut(`took over ${counted(days, 'day')} of tables from ${target.name}\n`)
  }
  await withArchive(options, adopt, { isPreparing: true })
}

interface DayOptions extends CommonOptions {
  readonly table?: readonly string[]
  readonly from?: string
  readonly to?: string
  readonly json?: boolean
}

/** Adds options that select archived days. */
function withDayOptions(command: Command, tables: string): Command {
  return command
    .addOption(tableOption(`only these (default: ${tables})`))
    .addOption(new Option('--from <day>', 'first day (default: the oldest)').argParser(day))
    .addOption(new Option('--to <day>', 'end, not included (default: all days)').argParser(day))
}

interface VerifyOptions extends DayOptions {
  readonly offline?: boolean
}

function verifyCommand(): Command {
  return withDayOptions(configuredCommand('verify'), 'all')
    .description(
      'Read the archive and compare it with what it says of itself, and with the database where that has the day, too.',
    )
    .option('--offline', 'leave the database alone')
    .option('--json', 'print one JSON array')
    .addHelpText(
      'after',
      '\nExample:\n  npx market-recorder archive verify --config recorder.yaml --offline\n\n' +
        'A day that is damaged, or that the database has otherwise, is written anew by the next archive.\n' +
        'Exit code: 0 when everything is as it was written, 1 when anything is not.',
    )
    .action((_, command: Command) => runVerify(command.optsWithGlobals()))
}

async function runVerify(options: VerifyOptions): Promise<void> {
  const { table: tables, from, to } = options
  await withTarget(options, async ({ config, target, signal }) => {
    const store = options.offline === true ? undefined : await openStore(config, createLogger('warn'))
    try {
      const database = store?.database
      const pointers = database === undefined ? await readHints(target) : await readPointers(database.db)
      if (database !== undefined) await requireOwnArchive(database.db, target, pointers)
      const results: VerifiedDay[] = []
      for await (const result of verifyArchive(target, { pointers, tables, from, to, database, signal })) {
        results.push(result)
        if (options.json === true) continue
        for (const problem of result.problems) await writeOut(`${result.table} of ${result.day}: ${problem}\n`)
      }
      await (options.json === true ? writeJson(results) : writeOut(verifiedText(results, database === undefined)))
      if (results.some((one) => one.problems.length > 0)) throw new Failed()
    } finally {
      await store?.close()
    }
  })
}

function verifiedText(results: readonly VerifiedDay[], isOffline: boolean): string {
  const rows = sum(results.map((one) => one.rows))
  const compared = results.filter(({ isEqual }) => isEqual !== null).length
  const problems = sum(results.map((one) => one.problems.length))
  const asked = compared === 0 ? 'nothing to compare' : `${compared} compared`
  const read = `${counted(results.length, 'day')} of tables read, ${counted(rows, 'row')}, ${asked} with the database`
  const unasked = isOffline ? 'the database was not asked which days it has archived\n' : ''
  return `${unasked}${read}: ${problems === 0 ? 'ok' : counted(problems, 'problem')}\n`
}

interface RestoreOptions extends DayOptions {
  readonly into: string
}

function restoreCommand(): Command {
  return withDayOptions(configuredCommand('restore'), 'archive.tables')
    .description('Fill another database with days, coverage and gaps included, exactly as they are in the archive.')
    .requiredOption('--into <url>', 'a database that has none of these days, and that nothing was recorded into')
    .option('--json', 'print the result as JSON')
    .addHelpText(
      'after',
      '\nExample:\n  npx market-recorder archive restore --config recorder.yaml --into postgres://localhost/march --table fills --from 2026-03-01 --to 2026-04-01',
    )
    .action((_, command: Command) => runRestore(command.optsWithGlobals()))
}

async function runRestore({ into, ...options }: RestoreOptions): Promise<void> {
  const restore = async ({ config, target, store, signal }: OpenParts) => {
    const { table: tables = config.archive.tables, from, to } = options
    const pointers = await readHints(target)
    const { restored, problems } = await restoreArchive(
      store.database,
      target,
      { tables, pointers, from, to },
      {
        signal,
        onDay: ({ table, day: done, rows }) =>
          tell(`${table}${done === '' ? '' : ` of ${done}`}: ${counted(rows, 'row')}`),
      },
    )
    if (restored.length + problems.length === 0) {
      throw new Error(`the archive in ${target.name} has none of these days of ${tables.join(', ')}`)
    }
    reportProblems(problems)
    const rows = sum(restored.map((one) => one.rows))
    if (options.json === true) return writeJson(restored)
    await writeOut(`${counted(restored.length, 'day')} of tables restored, ${counted(rows, 'row')}\n`)
  }
  await withArchive(options, restore, { isPreparing: true, url: into })
}
