import { writeFile } from 'node:fs/promises'
import { cpus } from 'node:os'
import { parseArgs } from 'node:util'
import Table from 'cli-table3'
import { format, resolveConfig } from 'prettier'
import { packageFile } from '../src/runtime/process.js'
import { measureBulk } from './costBulk.js'
import { measureClient } from './costClient.js'
import { measureDaemon } from './costDaemon.js'
import { measureGaps } from './costGaps.js'
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
  gaps: measureGaps,
  daemon: measureDaemon,
}

/** What is measured of each section, in the page of the documentation. */
const meanings: Readonly<Record<string, string>> = {
  startup: '**startup**: from the start of a command to its end, in times of a Node that runs an empty file.',
  client:
    '**processor time of a response**: client and rows, everything from the request to rows with exact decimals, beside ccxt 4.5, and beside the least that anybody can do who uses axios: the request and `JSON.parse`.',
  storing:
    '**pages of 100 fills**: with the proof that each joins the one before, through the queue, which stores together what waits, and each in a transaction of its own.',
  bulk: '**candles of the past**: with coverage and everything, on two connections, beside COPY of the same rows as text into the same table on one.',
  daemon:
    '**daemon**: its Node.js process on the live market with the default configuration and a backfill, beside a loop that sends the same requests by axios in the same rhythm and throws the responses away.',
  gaps: '**gaps**: a page of fills of an instrument that has had a gap each minute for four weeks, beside one that has had none.',
}

/** What the program costs, as ratios. */
export async function benchCost(argv: readonly string[]): Promise<number> {
  const { values, positionals } = parseArgs({
    args: [...argv],
    allowPositionals: true,
    options: { rounds: { type: 'string', default: '15' }, write: { type: 'boolean', default: false } },
  })
  const unknown = positionals.filter((name) => !Object.hasOwn(sections, name))
  if (unknown.length > 0) throw new Error(`no section ${unknown.join(', ')}; give ${Object.keys(sections).join(', ')}`)
  const names = Object.keys(sections).filter((name) => positionals.length === 0 || positionals.includes(name))
  const checks: Check[] = []
  for (const name of names) checks.push(...((await sections[name]?.(Number(values.rounds))) ?? []))
  const table = new Table({ head: ['', 'measured', 'target', ''], style: { head: [], border: [] } })
  for (const { what, measured, target, isMet } of checks) table.push([what, measured, target, isMet ? 'met' : 'MISSED'])
  console.log(table.toString())
  if (values.write) {
    const command = ['cost', ...positionals, '--write', '--rounds', values.rounds].join(' ')
    await writeFile(packageFile('docs/performance.md'), await page(checks, command, names))
  }
  return checks.every(({ isMet }) => isMet) ? 0 : 1
}

/** The page of the documentation that shows the figures. */
async function page(checks: readonly Check[], command: string, names: readonly string[]): Promise<string> {
  const text = `# Performance

What the program costs, as ratios of times that were measured in turns in one run: absolute times say more about the machine
than about the program. Written by \`npm run bench -- ${command}\` with Node ${process.versions.node} on ${cpus().length} cores.

${names.map((name) => `- ${meanings[name]}`).join('\n')}

| what | measured | target | |
| --- | --- | --- | --- |
${checks.map(({ what, measured, target, isMet }) => `| ${what} | ${measured} | ${target} | ${target === '' ? '' : isMet ? 'met' : 'missed'} |`).join('\n')}
`
  return format(text, { parser: 'markdown', ...(await resolveConfig(packageFile('docs/performance.md'))) })
}
