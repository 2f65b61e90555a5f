import { readFile, writeFile } from 'node:fs/promises'
import { cpus } from 'node:os'
import { parseArgs } from 'node:util'
import { format, resolveConfig } from 'prettier'
import { packageFile } from '../src/runtime/process.js'
import { measureBulk } from './cost/bulk.js'
import { measureClient } from './cost/client.js'
import { measureDaemon } from './cost/daemon.js'
import { measureQuery } from './cost/query.js'
import { measureStartup } from './cost/startup.js'
import { measureGaps, measureStoring } from './cost/storing.js'
import { type Check, printChecks, verdictOf } from './tools/checks.js'

interface Section {
  measure(rounds: number): Promise<Check[]>
  /** Says in the documentation what is compared. */
  readonly meaning: string
}

/** Each compares with something that is measured in the same run: only ratios compare between machines. */
const sections: Readonly<Record<string, Section>> = {
  startup: {
    measure: measureStartup,
    meaning: '**startup**: from the start of a command to its end, in times of a Node that runs an empty file.',
  },
  client: {
    // A round takes twenty processes: as many as it needs for a median.
    measure: (rounds) => measureClient(Math.ceil(rounds / 3)),
    meaning:
      '**processor time of a response**: client and rows, everything from the request to rows with exact decimals, beside ccxt 4.5, and beside the least that anybody can do who uses axios: the request and `JSON.parse`.',
  },
  storing: {
    measure: (rounds) => measureStoring(Math.ceil(rounds / 3)),
    meaning:
      '**pages of 100 fills**: with the proof that each joins the one before, through the queue, which stores together what waits, and each in a transaction of its own.',
  },
  bulk: {
    measure: (rounds) => measureBulk(Math.ceil(rounds / 3)),
    meaning:
      '**candles of the past**: with coverage and everything, on two connections, beside COPY of the same rows as text into the same table on one.',
  },
  gaps: {
    measure: measureGaps,
    meaning:
      '**gaps**: a page of fills of an instrument that has had a gap each minute for four weeks, beside one that has had none.',
  },
  query: {
    measure: (rounds) => measureQuery(Math.ceil(rounds / 3)),
    meaning: '**query**: a million rows of nine columns as a table, beside the CSV of the same.',
  },
  daemon: {
    measure: measureDaemon,
    meaning:
      '**daemon**: its Node.js process on the live market with the default configuration and a backfill, beside a loop that sends the same requests by axios in the same rhythm and throws the responses away.',
  },
}

/** Measures the cost of the program, as ratios. */
export async function benchCost(argv: readonly string[]): Promise<number> {
  const { values, positionals } = parseArgs({
    args: [...argv],
    allowPositionals: true,
    options: { rounds: { type: 'string', default: '15' }, write: { type: 'boolean', default: false } },
  })
  const unknown = positionals.filter((name) => !Object.hasOwn(sections, name))
  if (unknown.length > 0) throw new Error(`no section ${unknown.join(', ')}; give ${Object.keys(sections).join(', ')}`)
  const chosen = Object.entries(sections).filter(([name]) => positionals.length === 0 || positionals.includes(name))
  const checks: Check[] = []
  for (const [, { measure }] of chosen) checks.push(...(await measure(Number(values.rounds))))
  if (values.write) {
    const command = ['cost', ...positionals, '--write', '--rounds', values.rounds].join(' ')
    const meanings = chosen.map(([, { meaning }]) => meaning)
    await writeFile(packageFile('docs/performance.md'), await page(checks, command, meanings))
  }
  return printChecks(checks)
}

/** The page of the documentation that shows the figures. Sections that follow, which other benches measured, stay. */
async function page(checks: readonly Check[], command: string, meanings: readonly string[]): Promise<string> {
  const rows = checks.map((check) => `| ${check.what} | ${check.measured} | ${check.target} | ${verdictOf(check)} |`)
  const path = packageFile('docs/performance.md')
  const [, ...others] = (await readFile(path, 'utf8')).split(/^(?=## )/m)
  const text = `# Performance

What the program costs, as ratios of times that were measured in turns in one run: absolute times say more about the machine
than about the program. Written by \`npm run bench -- ${command}\` with Node ${process.versions.node} on ${cpus().length} cores.

${meanings.map((meaning) => `- ${meaning}`).join('\n')}

| what | measured | target | |
| --- | --- | --- | --- |
${rows.join('\n')}

${others.join('')}`
  return format(text, { parser: 'markdown', ...(await resolveConfig(path)) })
}
