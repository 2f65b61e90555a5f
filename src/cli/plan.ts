import Table from 'cli-table3'
import { type Command, Option } from 'commander'
import { sum } from '../market/values.js'
import { openExchange, type StartOptions } from '../app.js'
import { recordedUniverse } from '../collect/fleet/sharedLists.js'
import type { Advice } from '../collect/plan/advice.js'
import { addressesNeeded, type Plan, planFairShares, planFleet } from '../collect/plan/plan.js'
import { assumedUniverse, type PlanUniverse } from '../collect/universe/planUniverse.js'
import { readUniverse, type Universe } from '../collect/universe/universe.js'
import type { Config } from '../config/resolve.js'
import { ExchangeError } from '../exchange/errors.js'
import { ServiceClock } from '../exchange/serviceClock.js'
import { systemClock, within } from '../runtime/clock.js'
import { createLogger, type Logger } from '../runtime/logger.js'
import type { Right } from '../runtime/right.js'
import { grouped, inBytes, messageOf } from '../runtime/text.js'
import type { RecorderDatabase } from '../db/database.js'
import { recentFillRates } from '../ledger/read/instruments.js'
import { askService, findDatabase, type FoundDatabase } from './askService.js'
import { Failed } from './end.js'
import { type CommonOptions, configuredCommand, readConfig, wholeNumber } from './options.js'
import { print, tell, writeJson } from './output.js'

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
    .addHelpText(
      'after',
      '\nExample:\n  npx market-recorder plan --offline\n\nExit code: 0 if it fits, 1 if it does not.',
    )
    .action(runPlan)
}

async function runPlan(options: PlanOptions): Promise<void> {
  const config = await readConfig(options)
  const market = options.offline === true ? assumed() : await marketToPlanFor(config)
  const plan = fleetPlan(config, market, options.egresses ?? config.collector.egresses)
  if (options.json === true) await writeJson(plan, 2)
  else print(planText(plan))
  if (!plan.fits) throw new Failed()
}

/** Returns the plan as text, for the instruments that the service lists, or else for an assumed number. */
export async function planOf(config: Config): Promise<string> {
  return planText(fleetPlan(config, await marketToPlanFor(config), config.collector.egresses))
}

function fleetPlan(config: Config, { universe, source, notAsked }: PlannedMarket, egresses: number) {
  const plan = planFleet(config, universe, egresses)
  const notes = notAsked === undefined ? plan.notes : [notAsked, ...plan.notes]
  return { ...plan, notes, source, egresses, egressesNeeded: addressesNeeded(config, universe) }
}

const sources = { service: 'listed by the service', database: 'in the database', assumed: 'assumed' } as const

/**
 * Returns a function for `start` that throws unless the market is known and the configuration fits the limits. With
 * `wait`, the service may be away. Its instruments are then unknown, so nothing is refused.
 */
export function refuseOverload(
  config: Config,
  options: { readonly allowOverload?: boolean; readonly wait?: boolean } = {},
): NonNullable<StartOptions['admit']> {
  return async (read) => {
    // With this option, the recorder starts whatever the plan says, so no plan is needed.
    if (options.allowOverload === true) return
    let universe: PlanUniverse
    try {
      universe = (await read(warnOfMissing)).planned()
    } catch (error) {
      if (!(error instanceof ExchangeError)) throw error
      if (options.wait !== true) {
        throw new Error(`${error.message}; not started, --wait starts and keeps asking`, { cause: error })
      }
      tell(`warning: ${error.message}; waiting for it`)
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
    tell(lines.join('\n'))
    throw new Failed()
  }
}

const warnOfMissing = (error: Error) => tell(`warning: ${error.message}`)

/** The market to plan for, and who lists it. */
interface PlannedMarket {
  readonly universe: PlanUniverse
  readonly source: 'service' | 'database' | 'assumed'
  /** Why the service was not asked. */
  readonly notAsked?: string
}

const assumed = (): PlannedMarket => ({ universe: assumedUniverse(), source: 'assumed' })

async function marketToPlanFor(config: Config): Promise<PlannedMarket> {
  if (config.exchange.baseUrl === undefined) return assumed()
  const logger = createLogger('silent')
  const found = await findDatabase(config, logger)
  const serviceClock = new ServiceClock(systemClock, logger)
  try {
    const outcome = await askService(config, found, logger, (right) => askUniverse(right, config, logger, serviceClock))
    if ('asked' in outcome) {
      const universe = outcome.asked
      await addFillRates(universe, found, serviceClock)
      return { universe: universe.planned(), source: 'service' }
    }
    const notAsked = `the service was not asked: ${outcome.notAsked}`
    const recorded = await readWithin(found, (db) => recordedUniverse(db))
    if (recorded !== null) return { universe: recorded.planned(), source: 'database', notAsked }
    tell(`warning: ${notAsked}; planning for assumed instruments`)
  } catch (error) {
    const reason = messageOf(error)
    tell(`warning: the service did not list its instruments, planning for assumed ones: ${reason}`)
  } finally {
    if (found.kind === 'open') await found.store.close()
  }
  return assumed()
}

/** Adds how many fills were recorded lately, if the database has them. */
export async function addFillRates(universe: Universe, found: FoundDatabase, serviceClock: ServiceClock) {
  const now = serviceClock.now()
  const rates = now && (await readWithin(found, (db) => recentFillRates(db, now)))
  if (rates !== null) universe.setFillRates(rates)
}

/** How long the database may take. The plan is better with what it knows, but possible without. */
const readWithinMs = 5_000

/** Resolves to null without a database, or without a response of it in time. */
export async function readWithin<Result>(
  found: FoundDatabase,
  read: (db: RecorderDatabase['db']) => Promise<Result>,
): Promise<Result | null> {
  if (found.kind !== 'open') return null
  const reading = read(found.store.database.db).catch(() => null)
  return within(systemClock, readWithinMs, reading, null)
}

async function askUniverse(
  right: Right,
  config: Config,
  logger: Logger,
  serviceClock: ServiceClock,
): Promise<Universe> {
  // Tries only twice, because a person is waiting.
  const retry = { ...config.exchange.retry, attempts: Math.min(2, config.exchange.retry.attempts) }
  const client = openExchange(right, { ...config, exchange: { ...config.exchange, retry } }, logger, { serviceClock })
  try {
    return await readUniverse(client, AbortSignal.timeout(30_000), warnOfMissing)
  } finally {
    client.close()
  }
}

function planText(plan: ReturnType<typeof fleetPlan>): string {
  const counts = Object.entries(plan.universe.instruments).map(([category, count]) => `${category} ${grouped(count)}`)
  return [
    `Instruments ${sources[plan.source]}: ${counts.join(', ')}`,
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
    style: { head: [], border: [] },
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
