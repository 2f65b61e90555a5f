import type { Command } from 'commander'
import { openStore } from '../openStore.js'
import { createLogger } from '../runtime/logger.js'
import { withArchiveLock } from '../files/archive/state.js'
import { pruneArchive } from '../files/archive/prune.js'
import { neededFiles } from '../files/iceberg/check.js'
import { loadZstd } from '../files/parquet/zstd.js'
import { openArchive, openPublisher } from './archiveTarget.js'
import { Failed } from './failed.js'
import { type CommonOptions, configuredCommand, readConfig } from './options.js'
import { writeOut } from './output.js'

export function pruneCommand(): Command {
  return configuredCommand('prune')
    .alias('tidy')
    .description('Remove former versions of days, and files that an interrupted run has left.')
    .option('--dry-run', 'only say what would be removed')
    .addHelpText('after', '\nExample:\n  market-recorder archive prune --config recorder.yaml --dry-run')
    .action((_, command: Command) => runPrune(command.optsWithGlobals()))
}

async function runPrune(options: CommonOptions & { readonly dryRun?: boolean }): Promise<void> {
  const config = await readConfig(options)
  const target = await openArchive(config)
  const store = await openStore(config, createLogger('warn'))
  try {
    const isDryRun = options.dryRun === true
    const { db } = store.database
    const pruned = await withArchiveLock(db, async () =>
      pruneArchive(target, { isDryRun, needed: await neededFiles(db, target) }),
    )
    const what = `${pruned.versions} former versions, ${pruned.files} files of ${pruned.bytes} bytes`
    await writeOut(isDryRun ? `would remove ${what}\n` : `removed ${what}\n`)
  } finally {
    await target.close()
    await store.close()
  }
}

export function rebuildTablesCommand(): Command {
  return configuredCommand('rebuild-tables')
    .description('Make the Iceberg tables anew from the manifests of the archive.')
    .addHelpText('after', '\nExample:\n  market-recorder archive rebuild-tables --config recorder.yaml')
    .action((_, command: Command) => runRebuild(command.optsWithGlobals()))
}

async function runRebuild(options: CommonOptions): Promise<void> {
  const config = await readConfig(options)
  const target = await openArchive(config)
  const store = await openStore(config, createLogger('warn'))
  try {
    const { problems } = await withArchiveLock(store.database.db, async () => {
      const files = { folder: await target.stagingFolder(), compression: await loadZstd() }
      const publish = await openPublisher(config, store.database, target, { isAnew: true })
      return publish(files, [])
    })
    for (const problem of problems) process.stderr.write(`error: ${problem}\n`)
    if (problems.length > 0) throw new Failed()
    await writeOut('made all tables anew\n')
  } finally {
    await target.close()
    await store.close()
  }
}
