import { runSequence } from '../../test/support/archiveSequence.js'
import { asAdmin, closeDatabase, databaseUrl } from '../../test/support/databaseServer.js'
import { openDatabase } from '../../src/db/database.js'
import { migrateToLatest } from '../../src/db/migrate.js'
import { type Check, check, none } from '../tools/checks.js'
import type { BenchDatabase } from '../tools/database.js'

interface SequencesRequest {
  readonly first: number
  readonly count: number
  readonly minutes: number
  readonly stopsAtFirst: boolean
}

const steps = 25

/** Does things to an archive in the order of each seed, until all are done or the time is over, and prints violations. */
export async function runSequences(
  { url }: BenchDatabase,
  { first, count, minutes, stopsAtFirst }: SequencesRequest,
): Promise<Check[]> {
  const template = 'sequence_template'
  await asAdmin(url, `create database ${template}`)
  const migrated = openDatabase({ url: databaseUrl(url, template) })
  await migrateToLatest(migrated)
  await migrated.close()
  await closeDatabase(url, template)
  const until = performance.now() + minutes * 60_000
  let [done, violated] = [0, 0]
  const maxViolated = stopsAtFirst ? 1 : Infinity
  for (; done < count && violated < maxViolated && performance.now() < until; done++) {
    const seed = first + done
    const violation = await runSequence({ adminUrl: url, template }, seed, steps).catch(
      (error: unknown) => (error as Error).stack ?? String(error),
    )
    if (violation === null) continue
    violated++
    process.stdout.write(`seed ${seed}: ${violation}\n`)
  }
  return [
    check(`sequences from seed ${first} on`, `${done}; go on with --seed ${first + done}`, `${count}`, done === count),
    none('sequences that lost, doubled or changed a row, or claimed one that is not there', violated),
  ]
}
