import type { Command } from 'commander'
import { pendingChanges, prepareStore } from '../prepareStore.js'
import { openStore } from '../openStore.js'
import { createLogger } from '../runtime/logger.js'
import { type CommonOptions, configuredCommand, readConfig } from './options.js'
import { print } from './output.js'

interface MigrateOptions extends CommonOptions {
  readonly dryRun?: boolean
}

export function migrateCommand(): Command {
  return configuredCommand('migrate')
    .option('--dry-run', 'print what would change, and change nothing')
    .addHelpText('after', '\nExample:\n  DATABASE_URL=postgres://… npx market-recorder migrate --dry-run')
    .action(runMigrate)
}

async function runMigrate(options: MigrateOptions): Promise<void> {
  const config = await readConfig(options)
  const store = await openStore(config, createLogger(config.log.level), { mayCreate: options.dryRun !== true })
  try {
    const changes = await pendingChanges(store, config)
    for (const change of changes) print(`${options.dryRun === true ? 'would' : 'will'} ${change}`)
    if (changes.length === 0) print('nothing to change')
    if (options.dryRun !== true) await prepareStore(store, config, createLogger('silent'))
  } finally {
    await store.close()
  }
}
