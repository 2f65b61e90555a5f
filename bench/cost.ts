import { parseArgs } from 'node:util'
import Table from 'cli-table3'
import { measureBulk } from './costBulk.js'
import { measureClient } from './costClient.js'
import { measureStartup } from './costStartup.js'
import { measureStoring } from './costStoring.js'
import type { Check } from './figures.js'

/** What is measured, each against something that is measured in the same run: only ratios compare between machines. */
const sections: Readonly<Record<string, (rounds: number) => Promise<Check[]>>> = {
  startup: measureStartup,
  // A round takes twenty processes: as many as it needs for a median.
  client: (rounds) => measureClient(Math.ceil(rounds / 3)),
  storing: (rounds) => measureStoring(Math.ceil(rounds / 3)),
  bulk: (rounds) => measureBulk(Math.ceil(rounds / 3)),
}

/** What the program costs, as ratios. */
export async function benchCost(argv: readonly string[]): Promise<number> {
  const { values, positionals } = parseArgs({
    args: [...argv],
    allowPositionals: true,
    options: { rounds: { type: 'string', default: '15' } },
  })
  const unknown = positionals.filter((name) => !Object.hasOwn(sections, name))
  if (unknown.length > 0) throw new Error(`no section ${unknown.join(', ')}; give ${Object.keys(sections).join(', ')}`)
  const checks: Check[] = []
  for (const [name, measure] of Object.entries(sections)) {
    if (positionals.length === 0 || positionals.includes(name)) checks.push(...(await measure(Number(values.rounds))))
  }
  const table = new Table({ head: ['', 'measured', 'target', ''], style: { head: [], border: [] } })
  for (const { what, measured, target, isMet } of checks) table.push([what, measured, target, isMet ? 'met' : 'MISSED'])
  console.log(table.toString())
  return checks.every(({ isMet }) => isMet) ? 0 : 1
}
