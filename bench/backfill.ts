import { parseArgs } from 'node:util'
import Table from 'cli-table3'
import { benchBeside, benchLimits } from './backfillRate.js'
import { benchEight } from './backfillEight.js'
import { benchTwo } from './backfillTwo.js'
import type { BackfillBenchOptions, Check } from './backfillWork.js'
import { benchYear } from './backfillYear.js'

const parts: Readonly<Record<string, (options: BackfillBenchOptions) => Promise<Check[]>>> = {
  year: benchYear,
  limits: benchLimits,
  beside: benchBeside,
  two: benchTwo,
  eight: benchEight,
}

/**
 * Backfill against the simulator: a year of three instruments killed five times, the rate at the real limits, the live
 * streams beside it, and two workers and eight instead of one.
 */
export async function benchBackfill(argv: readonly string[]): Promise<number> {
  const { values } = parseArgs({
    args: [...argv],
    options: {
      only: { type: 'string', default: Object.keys(parts).join(',') },
      days: { type: 'string', default: '365' },
      seconds: { type: 'string', default: '300' },
      factor: { type: 'string', default: '0.1' },
      alone: { type: 'string' },
    },
  })
  const checks: Check[] = []
  for (const name of values.only.split(',')) {
    const part = parts[name]
    if (part === undefined) throw new Error(`there is no part ${name}; there are ${Object.keys(parts).join(', ')}`)
    checks.push(
      ...(await part({
        days: Number(values.days),
        seconds: Number(values.seconds),
        factor: Number(values.factor),
        alone: values.alone === undefined ? null : Number(values.alone),
      })),
    )
  }
  const table = new Table({ head: ['', 'measured', 'target', ''], style: { head: [], border: [] } })
  for (const [what, measured, target, isMet] of checks) table.push([what, measured, target, isMet ? 'met' : 'MISSED'])
  console.log(table.toString())
  return checks.every(([, , , isMet]) => isMet) ? 0 : 1
}
