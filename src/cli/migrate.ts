import type { Command } from 'commander'
import { storageOf } from '../config/resolve.js'
import { prepareStore } from '../prepareStore.js'
import { openStore } from '../openStore.js'
import { createLogger } from '../runtime/logger.js'
import { pendingMigrations } from '../db/migrate.js'
import { reconcile } from '../server/timescale/reconcile.js'
import { serverToBe } from '../server/timescale/server.js'
import { type CommonOptions, configuredCommand, readConfig } from './options.js'

interface MigrateOptions extends CommonOptions {
  readonly dryRun?: boolean
}

export function migrateCommand(): Command {
  return configuredCommand('migrate')
    .option('--dry-run', 'print what would change, and change nothing')
    .addHelpText('after', '\nExample:\n  DATABASE_URL=postgres://… market-recorder migrate --dry-run')
    .action(runMigrate)
}

async function runMigrate(options: MigrateOptions): Promise<void> {
  const config = await readConfig(options)
  const store = await openStore(config, createLogger(config.log.level), { mayCreate: options.dryRun !== true })
  try {
    const changes = await plannedChanges()
    for (const change of changes) console.log(`${options.dryRun === true ? 'would' : 'will'} ${change}`)
    if (changes.length === 0) console.log('nothing to change')
    if (options.dryRun !== true) await prepareStore(store, config, createLogger('silent'))
  } finally {
    await store.close()
  }

  async function plannedChanges(): Promise<string[]> {
    const pending = await pendingMigrations(store.database)
    const migrations = pending.map((name) => `apply migration ${name}`)
    // Pending migrations may create tables, so changes of their features cannot be listed yet.
    if (pending.length > 0) {
      const { kind } = await serverToBe(store.database.db)
      return kind === 'postgresql' ? migrations : [...migrations, `set up the features of ${kind}`]
    }
    return reconcile(store.database.db, { dryRun: true, settings: storageOf(config) })
  }
}
