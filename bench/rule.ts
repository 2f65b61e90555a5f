import { parseArgs } from 'node:util'
import fc from 'fast-check'
import { disagreement, sequence } from '../test/model/driveFills.js'
import { check, none, printChecks } from './tools/checks.js'
import { withDatabase } from './tools/database.js'

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
  const [first, count] = [Number(values.seed), Number(values.sequences)]
  const until = performance.now() + Number(values.minutes) * 60_000
  // Nothing in it has to survive.
  const settings = { fsync: 'off', synchronous_commit: 'off', full_page_writes: 'off' }
  return withDatabase(
    async ({ database: { db } }) => {
      let [done, wrong] = [0, 0]
      while (done < count && performance.now() < until && !(wrong > 0 && values['stop-at-first'])) {
        const seed = first + done++
        const [drawn] = fc.sample(sequence, { seed, numRuns: 1, unbiased: seed % 2 === 0 })
        if (drawn === undefined) continue
        const found = await disagreement(db, drawn, `M${seed}`).catch(String)
        if (found === null) continue
        wrong++
        process.stdout.write(`seed ${seed}: ${found}\n  ${JSON.stringify(drawn)}\n`)
      }
      const goOn = `${done}; go on with --seed ${first + done}`
      return printChecks([
        check(`sequences from seed ${first} on`, goOn, `${count}`, done === count),
        none('sequences in which the ledger and the model of the rule disagree', wrong),
      ])
    },
    { settings },
  )
}
