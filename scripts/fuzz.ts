import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { describeFigures, fuzz } from './fuzzRun.js'
import { fuzzTargets } from './fuzzTargets.js'

/**
 * `npm run fuzz -- --minutes 10 [--seed 1] [--only responses]`: feeds what comes from outside with random and broken input
 * until the time is over. A failure is any error but the one that the part promises, or a stall: more than 250 ms of this
 * thread's processor time between two turns of the event loop. Processor time, because on a busy machine the clock says more
 * about the others.
 */
const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '1' },
    seed: { type: 'string', default: String(Date.now() % 1e9) },
    only: { type: 'string' },
  },
})
const minutes = Number(values.minutes)
const seed = Number(values.seed)
console.log(`seed ${seed}, ${minutes} minutes`)
const folder = await mkdtemp(join(tmpdir(), 'market-recorder-fuzz-'))
const targets = await fuzzTargets(folder)
const endMs = performance.now() + minutes * 60_000
try {
  const figures = await fuzz(
    targets.filter(({ name }) => values.only === undefined || name === values.only),
    { seed, goesOn: () => performance.now() < endMs, tell: (line) => void process.stderr.write(`${line}\n`) },
  )
  for (const figure of figures) console.log(describeFigures(figure))
  console.log(`${(process.memoryUsage.rss() / 1e6).toFixed(0)} MB at the end`)
  process.exitCode = figures.some(({ errors, stalls }) => errors + stalls > 0) ? 1 : 0
} finally {
  for (const target of targets) await target.close?.()
  await rm(folder, { recursive: true, force: true })
}
