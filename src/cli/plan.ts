import Table from 'cli-table3'
import { Command } from 'commander'
import { openExchange } from '../app.js'
import { type Plan, planConfig } from '../collect/plan.js'
import type { Advice } from '../collect/planAdvice.js'
import { assumedUniverse, type PlanUniverse } from '../collect/planUniverse.js'
import { readUniverse } from '../collect/readUniverse.js'
import type { Config } from '../config.js'
import { createLogger } from '../runtime/logger.js'
import { Failed } from './failed.js'
import { type CommonOptions, configOption, readConfig } from './options.js'

interface PlanOptions extends CommonOptions {
  readonly offline?: boolean
  readonly json?: boolean
}

export function planCommand(): Command {
  return new Command('plan')
    .description(
      "Show what the configuration asks of the service's limits and of the disk, whether it fits, and what to change if not.",
    )
    .addOption(configOption())
    .option('--offline', 'do not ask the service for its instruments; assume the numbers of the live one')
    .option('--json', 'print one JSON object')
    .addHelpText('after', '\nExample:\n  market-recorder plan --offline\n\nExit code: 0 if it fits, 1 if it does not.')
    .action(runPlan)
}

async function runPlan(options: PlanOptions): Promise<void> {
  const config = readConfig(options)
  const plan = planConfig(config, options.offline === true ? assumedUniverse() : await universeToPlanFor(config))
  console.log(options.json === true ? JSON.stringify(plan, null, 2) : planText(plan))
  if (!plan.fits) throw new Failed()
}

/**
 * Throws unless the configuration fits the limits. A service that cannot be reached now lists no instruments to plan for;
 * a recorder must be able to start then, so only what was learned from the service is a reason to refuse.
 */
export async function refuseOverload(config: Config): Promise<void> {
  const universe = await universeToPlanFor(config)
  const plan = planConfig(config, universe)
  if (plan.fits) return
  const isCertain = universe.kind === 'listed'
  const lines = [
    `${isCertain ? 'error' : 'warning'}: the configuration asks for more than the limits of the service allow`,
    ...plan.advice.flatMap(adviceLines),
    isCertain
      ? '  not started; change the configuration, or start with --allow-overload'
      : '  started all the same, because the numbers of instruments are assumed',
  ]
  process.stderr.write(`${lines.join('\n')}\n`)
  if (isCertain) throw new Failed()
}

async function universeToPlanFor(config: Config): Promise<PlanUniverse> {
  const { baseUrl, retry } = config.exchange
  if (baseUrl === undefined) return assumedUniverse()
  // A person is waiting for the answer: one more attempt is enough.
  const impatient = {
    ...config,
    exchange: { ...config.exchange, retry: { ...retry, attempts: Math.min(2, retry.attempts) } },
  }
  const client = openExchange(impatient, createLogger('silent'))
  try {
    return await readUniverse(client, AbortSignal.timeout(30_000))
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    process.stderr.write(`warning: the service did not list its instruments, planning for assumed ones: ${reason}\n`)
    return assumedUniverse()
  } finally {
    client.close()
  }
}

function planText(plan: Plan): string {
  const counts = Object.entries(plan.universe.instruments).map(([category, count]) => `${category} ${grouped(count)}`)
  return [
    `Instruments ${plan.universe.kind === 'listed' ? 'listed by the service' : 'assumed'}: ${counts.join(', ')}`,
    streamTable(plan),
    ...(plan.fits ? ['It fits.'] : ['It does not fit.', ...plan.advice.flatMap(adviceLines)]),
    ...plan.notes.map((note) => `Note: ${note}`),
  ].join('\n')
}

function streamTable(plan: Plan): string {
  const table = new Table({
    head: ['stream', 'instruments', 'requests/s', 'safe', 'share', 'rows/day', 'per day', 'compressed'],
    colAligns: ['left', ...Array.from({ length: 7 }, () => 'right' as const)],
    style: { head: process.stdout.isTTY ? ['cyan'] : [], border: [] },
  })
  for (const stream of plan.streams) {
    const use = plan.operations[stream.operation]
    table.push([
      stream.stream,
      grouped(stream.instruments),
      rate(stream.requestsPerSecond),
      rate(use.safePerSecond),
      percent(use.share),
      grouped(Math.round(stream.rowsPerDay)),
      size(stream.bytesPerDay),
      size(stream.compressedBytesPerDay),
    ])
  }
  const { overall } = plan
  table.push([
    'all',
    '',
    rate(overall.requestsPerSecond),
    rate(overall.safePerSecond),
    percent(overall.share),
    grouped(Math.round(plan.streams.reduce((sum, stream) => sum + stream.rowsPerDay, 0))),
    size(plan.bytesPerDay),
    size(plan.compressedBytesPerDay),
  ])
  return table.toString()
}

function adviceLines({ stream, requestsPerSecond, affordablePerSecond, alternatives }: Advice): string[] {
  const lead = `${stream} asks for ${rate(requestsPerSecond)} requests/s, ${rate(affordablePerSecond)} are possible; set`
  const changes = alternatives.map(({ option, from, to }) => `${option}: ${yaml(from)} -> ${yaml(to)}`)
  return [`  ${lead} ${changes.join(', or ')}`]
}

function yaml(value: unknown): string {
  if (Array.isArray(value)) return `[${value.join(', ')}]`
  return typeof value === 'string' && value.includes(' ') ? `'${value}'` : String(value)
}

function rate(perSecond: number): string {
  return perSecond > 0 && perSecond < 0.1 ? perSecond.toPrecision(2) : perSecond.toFixed(1)
}

function percent(share: number): string {
  return `${(share * 100).toFixed(share > 0 && share < 0.01 ? 2 : 0)} %`
}

function grouped(count: number): string {
  return count.toLocaleString('en-US')
}

function size(bytes: number): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB']
  const power = bytes < 1 ? 0 : Math.min(units.length - 1, Math.floor(Math.log10(bytes) / 3))
  return `${(bytes / 1000 ** power).toFixed(power < 2 ? 0 : 1)} ${units[power] ?? ''}`
}
