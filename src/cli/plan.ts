import Table from 'cli-table3'
import { type Command, Option } from 'commander'
import { asIfService, sum } from '../market/values.js'
import { openExchange } from '../app.js'
import type { Advice } from '../collect/plan/advice.js'
import { addressesNeeded, planFairShares, planFleet } from '../collect/plan/fleetPlan.js'
import type { Plan } from '../collect/plan/plan.js'
import { assumedUniverse, type PlanUniverse } from '../collect/universe/planUniverse.js'
import { readUniverse, type Universe } from '../collect/universe/universe.js'
import type { Config } from '../config/resolve.js'
import { ExchangeError } from '../exchange/errors.js'
import { grouped, inBytes, messageOf } from '../runtime/text.js'
import { createLogger } from '../runtime/logger.js'
import { openDatabase } from '../db/database.js'
import { recentFillRates } from '../ledger/read/instruments.js'
import { Failed } from './end.js'
import { type CommonOptions, configuredCommand, readConfig, wholeNumber } from './options.js'

interface PlanOptions extends CommonOptions {
  readonly offline?: boolean
  readonly json?: boolean
  readonly egresses?: number
}

export function planCommand(): Command {
  return configuredCommand('plan')
    .option('--offline', 'do not ask the service for its instruments; assume as many as the live service lists')
    .addOption(
      new Option('--egresses <number>', 'plan for this many addresses sharing the work').argParser(
        wholeNumber(1, 10_000),
      ),
    )
    .option('--json', 'print one JSON object')
    .addHelpText('after', '\nExample:\n  market-recorder plan --offline\n\nExit code: 0 if it fits, 1 if it does not.')
    .action(runPlan)
}

async function runPlan(options: PlanOptions): Promise<void> {
  const config = await readConfig(options)
  const universe = options.offline === true ? assumedUniverse() : await universeToPlanFor(config)
  const plan = fleetPlan(config, universe, options.egresses ?? config.collector.egresses)
  console.log(options.json === true ? JSON.stringify(plan, null, 2) : planText(plan))
  if (!plan.fits) throw new Failed()
}

/** Returns the plan as text, for the instruments that the service lists, or else for an assumed number. */
export async function planOf(config: Config): Promise<string> {
  return planText(fleetPlan(config, await universeToPlanFor(config), config.collector.egresses))
}

function fleetPlan(config: Config, universe: PlanUniverse, egresses: number) {
  return { ...planFleet(config, universe, egresses), egresses, egressesNeeded: addressesNeeded(config, universe) }
}

/**
 * Throws unless the service responds and the configuration fits its limits. With `wait`, the service may be away. Its
 * instruments are then unknown, so nothing is refused.
 */
export async function refuseOverload(
  config: Config,
  options: { readonly allowOverload?: boolean; readonly wait?: boolean } = {},
): Promise<void> {
  // With this option, the recorder starts whatever the plan says, so no plan is needed.
  if (options.allowOverload === true) return
  let universe: PlanUniverse
  try {
    universe = (await askUniverse(config)).planned()
  } catch (error) {
    if (!(error instanceof ExchangeError)) throw error
    if (options.wait !== true) {
      throw new Error(`${error.message}; not started, --wait starts and keeps asking`, { cause: error })
    }
    process.stderr.write(`warning: ${error.message}; waiting for it\n`)
    return
  }
  // How chance distributes the instruments is not known yet, and is no reason to refuse.
  const plan = planFairShares(config, universe, config.collector.egresses)
  if (plan.fits) return
  const lines = [
    'error: the configuration needs more than the limits of the service allow',
    ...plan.advice.map(adviceLine),
    '  not started; change the configuration, or start with --allow-overload',
  ]
  process.stderr.write(`${lines.join('\n')}\n`)
  throw new Failed()
}

async function universeToPlanFor(config: Config): Promise<PlanUniverse> {
  if (config.exchange.baseUrl === undefined) return assumedUniverse()
  try {
    const universe = await askUniverse(config)
    await readRecordedRates(config, universe)
    return universe.planned()
  } catch (error) {
    const reason = messageOf(error)
    process.stderr.write(`warning: the service did not list its instruments, planning for assumed ones: ${reason}\n`)
    return assumedUniverse()
  }
}

/** How long the database may take. The plan is better with its rates, but possible without. */
const ratesWithinMs = 5_000

/** Adds the rates of recently recorded fills, if a database is configured and responds. */
async function readRecordedRates(config: Config, universe: Universe): Promise<void> {
  const { url } = config.database
  if (url === undefined) return
  const database = openDatabase({
    url,
    poolSize: 1,
    applicationName: 'market-recorder plan',
    statementTimeoutMs: ratesWithinMs,
  })
  try {
    universe.setFillRates(await recentFillRates(database.db, asIfService(Date.now())))
  } catch {
    // Without the database or its tables, turnover gives the rates. The plan names its source.
  } finally {
    await database.close()
  }
}

async function askUniverse(config: Config): Promise<Universe> {
  // Tries only twice, because a person is waiting.
  const retry = { ...config.exchange.retry, attempts: Math.min(2, config.exchange.retry.attempts) }
  const client = openExchange({ ...config, exchange: { ...config.exchange, retry } }, createLogger('silent'))
  try {
    return await readUniverse(client, AbortSignal.timeout(30_000), (error) => {
      process.stderr.write(`warning: ${error.message}\n`)
    })
  } finally {
    client.close()
  }
}

function planText(plan: ReturnType<typeof fleetPlan>): string {
  const counts = Object.entries(plan.universe.instruments).map(([category, count]) => `${category} ${grouped(count)}`)
  return [
    `Instruments ${plan.universe.kind === 'listed' ? 'listed by the service' : 'assumed'}: ${counts.join(', ')}`,
    streamTable(plan),
    ...(plan.egresses > 1
      ? [`Figures are for all ${plan.egresses} addresses together. Safe rates leave room for uneven shares.`]
      : []),
    ...(plan.fits ? ['It fits.'] : ['It does not fit.', ...plan.advice.map(adviceLine)]),
    ...(plan.egressesNeeded > plan.egresses
      ? [
          `Note: Recording everything would take about ${plan.egressesNeeded} addresses, each with a recorder of its own.`,
        ]
      : []),
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
      inBytes(stream.bytesPerDay),
      inBytes(stream.compressedBytesPerDay),
    ])
  }
  const { overall } = plan
  table.push([
    'all',
    '',
    rate(overall.requestsPerSecond),
    rate(overall.safePerSecond),
    percent(overall.share),
    grouped(Math.round(sum(plan.streams.map((stream) => stream.rowsPerDay)))),
    inBytes(plan.bytesPerDay),
    inBytes(plan.compressedBytesPerDay),
  ])
  return table.toString()
}

function adviceLine({ stream, requestsPerSecond, affordablePerSecond, alternatives }: Advice): string {
  const lead = `${stream} needs ${rate(requestsPerSecond)} requests/s, the limits allow ${rate(affordablePerSecond)}`
  return `  ${lead}: ${alternatives.join(', or ')}`
}

function rate(perSecond: number): string {
  return perSecond > 0 && perSecond < 0.1 ? perSecond.toPrecision(2) : perSecond.toFixed(1)
}

function percent(share: number): string {
  return `${(share * 100).toFixed(share > 0 && share < 0.01 ? 2 : 0)} %`
}
