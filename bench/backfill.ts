import { parseArgs } from 'node:util'
import Table from 'cli-table3'
import { benchYear } from './backfillYear.js'

/** Backfills a year of three instruments from the simulator, killed five times, and compares every candle. */
export async function benchBackfill(argv: readonly string[]): Promise<number> {
  const { values } = parseArgs({
    args: [...argv],
    options: { days: { type: 'string', default: '365' } },
  })
  const checks = await benchYear(Number(values.days))
  const table = new Table({ head: ['', 'measured', 'target', ''], style: { head: [], border: [] } })
  for (const [what, measured, target, isMet] of checks) table.push([what, measured, target, isMet ? 'met' : 'MISSED'])
  console.log(table.toString())
  return checks.every(([, , , isMet]) => isMet) ? 0 : 1
}
