import { runSequence } from '../../test/support/archiveSequence.js'
import { asAdmin, closeDatabase, databaseUrl } from '../../test/support/databaseServer.js'
import { openDatabase } from '../../src/db/database.js'
import { migrateToLatest } from '../../src/db/migrate.js'
import type { Check } from '../tools/checks.js'
import type { BenchDatabase } from '../tools/database.js'
import { type Seeds, trySeeds } from '../tools/seeds.js'

const steps = 25

/** Does things to an archive in the order of each seed. */
export async function runSequences({ url }: BenchDatabase, seeds: Seeds): Promise<Check[]> {
  const template = 'sequence_template'
  await asAdmin(url, `create database ${template}`)
  const migrated = openDatabase({ url: databaseUrl(url, template) })
  await migrateToLatest(migrated)
  await migrated.close()
  await closeDatabase(url, template)
  return trySeeds(seeds, 'that lost, doubled or changed a row, or claimed one that is not there', (seed) =>
    runSequence({ adminUrl: url, template, strategy: '' }, seed, steps),
  )
}
