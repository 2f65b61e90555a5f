import { parseArgs } from 'node:util'
import fc from 'fast-check'
import { disagreement, sequence } from '../test/model/driveFills.js'
import { printChecks } from './tools/checks.js'
import { withDatabase } from './tools/database.js'
import { trySeeds } from './tools/seeds.js'

/**
 * Compares the claims of the ledger with a model of the rule, over sequences of responses from a seed on, and prints each
 * sequence in which they disagree.
 */
export async function benchRule(argv: readonly string[]): Promise<number> {
  const { values } = parseArgs({
    args: [...argv],
    options: {
      seed: { type: 'string', default: '1' },
      sequences: { type: 'string', default: '20000' },
      minutes: { type: 'string', default: '120' },
      'stop-at-first': { type: 'boolean', default: false },
    },
  })
  const seeds = {
    first: Number(values.seed),
    count: Number(values.sequences),
    minutes: Number(values.minutes),
    stopsAtFirst: values['stop-at-first'],
  }
  // Nothing in it has to survive.
  const settings = { fsync: 'off', synchronous_commit: 'off', full_page_writes: 'off' }
  return withDatabase(
    async ({ database: { db } }) => {
      const violationOf = async (seed: number) => {
        const [drawn] = fc.sample(sequence, { seed, numRuns: 1, unbiased: seed % 2 === 0 })
        if (drawn === undefined) return null
        const found = await disagreement(db, drawn, `M${seed}`).catch(String)
        return found === null ? null : `${found}\n  ${JSON.stringify(drawn)}`
      }
      return printChecks(await trySeeds(seeds, 'in which the ledger and the model of the rule disagree', violationOf))
    },
    { settings },
  )
}
