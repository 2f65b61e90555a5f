import type { Command } from 'commander'
import { openStore } from '../openStore.js'
import { createLogger } from '../runtime/logger.js'
import { withArchiveLock } from '../files/archive/state.js'
import { pruneArchive } from '../files/archive/prune.js'
import { openArchive } from './archiveTarget.js'
import { type CommonOptions, configuredCommand, readConfig } from './options.js'
import { writeOut } from './output.js'

export function pruneCommand(): Command {
  return configuredCommand('prune')
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
    const pruned = await withArchiveLock(store.database.db, () => pruneArchive(target, { isDryRun }))
    const what = `${pruned.versions} former versions, ${pruned.files} files of ${pruned.bytes} bytes`
    await writeOut(isDryRun ? `would remove ${what}\n` : `removed ${what}\n`)
  } finally {
    await target.close()
    await store.close()
  }
}
