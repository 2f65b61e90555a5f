import type { Command } from 'commander'
import { statfs } from 'node:fs/promises'
import { resolve } from 'node:path'
import { openExchange, requireBaseUrl } from '../app.js'
import { recordedUniverse } from '../collect/fleet/sharedLists.js'
import { daysOnDisk } from '../collect/plan/demand.js'
import { type Plan, planFairShares } from '../collect/plan/plan.js'
import { assumedUniverse, type PlanUniverse } from '../collect/universe/planUniverse.js'
import { readUniverse } from '../collect/universe/universe.js'
import { type Config, keptMs, storageOf } from '../config/resolve.js'
import { dayMs } from '../market/values.js'
import type { OpenStore } from '../openStore.js'
import { pendingChanges, serviceProblem } from '../prepareStore.js'
import { systemClock } from '../runtime/clock.js'
import { requireWritable } from '../runtime/disk.js'
import { createLogger, type Logger } from '../runtime/logger.js'
import { isLoopback, withoutBrackets } from '../runtime/process.js'
import type { Right } from '../runtime/right.js'
import { openDatabase, type RecorderDatabase } from '../db/database.js'
import { describeDatabaseError } from '../db/databaseError.js'
import { ServiceClock } from '../exchange/serviceClock.js'
import { openTransactions } from '../db/locks.js'
import { rightsBeyondReading } from '../db/identity.js'
import { readOwner, requireOwnArchive } from '../files/archive/owner.js'
import { readPointers } from '../files/iceberg/catalog.js'
import {
  canCreateExtension,
  detectServer,
  jobsProblem,
  readJobs,
  readLockRoom,
  type ServerKind,
} from '../server/timescale/server.js'
import { inBytes, withoutLogin } from '../runtime/text.js'
import { askService, findDatabase, type FoundDatabase } from './askService.js'
import { Failed } from './end.js'
import { checkPage, failure, type Finding, ok, reasonOf, warning } from './finding.js'
import { openArchive } from './openArchive.js'
import { type CommonOptions, configuredCommand, readConfig } from './options.js'
import { print, writeJson } from './output.js'
import { addFillRates, readWithin } from './plan.js'

interface DoctorOptions extends CommonOptions {
  readonly json?: boolean
}

export function doctorCommand(): Command {
  return configuredCommand('doctor')
    .option('--json', 'print the findings as JSON')
    .addHelpText('after', '\nExample:\n  npx market-recorder doctor --config recorder.yaml')
    .action(printFindings)
}

const marks: Readonly<Record<Finding['verdict'], string>> = { ok: 'ok  ', warning: 'WARN', failure: 'FAIL' }

async function printFindings(options: DoctorOptions): Promise<void> {
  const findings = await runDoctor(await readConfig(options), createLogger('silent'))
  if (options.json === true) await writeJson(findings, 2)
  else for (const { verdict, what, detail } of findings) print(`${marks[verdict]}  ${what.padEnd(14)} ${detail}`)
  if (findings.some((finding) => finding.verdict === 'failure')) throw new Failed()
}

/** Clock skew that is reported, because it makes logs and gaps hard to read. Candles follow the service's clock. */
const maxSkewMs = 2_000
/** Free space for fewer days than this is a warning. The user then has time to act. */
const minDays = 14
/** PostgreSQL's log grows by files of this size. */
const minBytes = 2 ** 24
const listWithinMs = 30_000
/** Number of statements that may read a whole table at once: of the page, analysts and the archiver. */
const wholeReaders = 4

/** Checks everything that recording needs. All checks run, even if one fails. */
export async function runDoctor(config: Config, logger: Logger): Promise<Finding[]> {
  const found = await findDatabase(config, logger)
  try {
    return await checkAll(config, found, logger)
  } finally {
    if (found.kind === 'open') await found.store.close()
  }
}

async function checkAll(config: Config, found: FoundDatabase, logger: Logger): Promise<Finding[]> {
  const service = await checkService(config, found, logger)
  const plan = planFairShares(config, service.universe ?? assumedUniverse(), config.collector.egresses)
  const database = await checkDatabase(config, found)
  return [
    ok('configuration', 'every option is known and has a value'),
    checkLimits(plan, service.universe !== null),
    ...service.findings,
    ...database.findings,
    ...(await checkPage(config)),
    await checkDisk(config, plan, database.kind),
    ...(await checkArchive(config, found)),
  ]
}

function checkLimits(plan: Plan, isListed: boolean): Finding {
  const share = `${Math.round(plan.overall.share * 100)} % of the overall limit`
  const basis = isListed ? 'for its instruments' : 'for as many instruments as the live service was seen to list'
  return plan.fits
    ? ok('limits', `the streams need ${share} ${basis}`)
    : failure(
        'limits',
        `the streams need more than the limits allow ${basis} (${share}); run "npx market-recorder plan" for what to change`,
      )
}

interface ServiceFindings {
  readonly findings: Finding[]
  /** Instruments that the service lists, or else those in the database; null without either. */
  readonly universe: PlanUniverse | null
}

async function checkService(config: Config, found: FoundDatabase, logger: Logger): Promise<ServiceFindings> {
  try {
    requireBaseUrl(config)
    const outcome = await askService(config, found, logger, (right) => requestLists(right, config, found, logger))
    if ('asked' in outcome) return outcome.asked
    const detail = `not asked: ${outcome.notAsked}`
    const universe = await recordedIn(found)
    return { findings: [universe === null ? warning('service', detail) : ok('service', detail)], universe }
  } catch (error) {
    return { findings: [failure('service', reasonOf(error))], universe: await recordedIn(found) }
  }
}

async function recordedIn(found: FoundDatabase): Promise<PlanUniverse | null> {
  const recorded = await readWithin(found, (db) => recordedUniverse(db))
  return recorded?.planned() ?? null
}

async function requestLists(
  right: Right,
  config: Config,
  found: FoundDatabase,
  logger: Logger,
): Promise<ServiceFindings> {
  const serviceClock = new ServiceClock(systemClock, logger)
  const once = { ...config.exchange, retry: { ...config.exchange.retry, attempts: 1 } }
  const client = openExchange(right, { ...config, exchange: once }, logger, { serviceClock })
  try {
    const sentAt = Date.now()
    // Requests the RPI list, because that response does not depend on categories.
    const { rows, receivedAt } = await client.rpiSymbols()
    const tookMs = receivedAt - sentAt
    const findings = [
      ok(
        'service',
        `${withoutLogin(config.exchange.baseUrl ?? '')} responded in ${tookMs} ms with ${rows.length} RPI symbols`,
      ),
      ...checkClock(serviceClock),
    ]
    const universe = await readUniverse(client, AbortSignal.timeout(listWithinMs), (error) => {
      findings.push(warning('categories', reasonOf(error)))
    })
    await addFillRates(universe, found, serviceClock)
    return { findings, universe: universe.planned() }
  } finally {
    client.close()
  }
}

/** Compares the clocks. There is no finding after a response without a time. */
function checkClock({ skew }: ServiceClock): Finding[] {
  if (skew === undefined) return []
  const { aheadMs, uncertaintyMs } = skew
  const offMs = Math.round(Math.abs(aheadMs))
  if (offMs <= maxSkewMs + uncertaintyMs) return [ok('clock', `within ${offMs} ms of the service's`)]
  const off = `${offMs} ms ${aheadMs > 0 ? 'ahead of' : 'behind'} the service's`
  return [warning('clock', `${off}; synchronise this machine's clock (NTP)`)]
}

interface DatabaseFindings {
  readonly findings: Finding[]
  /** Kind of the database server; null if it could not be reached. */
  readonly kind: ServerKind | null
}

async function checkDatabase(config: Config, found: FoundDatabase): Promise<DatabaseFindings> {
  if (found.kind === 'none') {
    const folder = resolve(config.database.dataDir)
    const detail = `none yet; DATABASE_URL is not set, and "start" creates an embedded PostgreSQL in ${folder}`
    return { findings: [ok('database', detail)], kind: 'postgresql' }
  }
  try {
    if (found.kind === 'away') throw found.error
    const { store } = found
    const { kind, findings } = await describeDatabase(store, config)
    const { db } = store.database
    return {
      kind,
      findings: [
        ...findings,
        await checkLocks(db),
        ...(await checkOthers(db)),
        ...(await checkJobs(db)),
        await checkReader(config, store.readUrl),
      ],
    }
  } catch (error) {
    return { findings: [failure('database', describeDatabaseError(error).replace(/^database: /, ''))], kind: null }
  }
}

const meaningOf = {
  'timescale-community': 'hypertables, columnstore and continuous aggregates',
  'timescale-apache': 'hypertables; no columnstore and no continuous aggregates: rollups are plain views',
  postgresql: 'plain tables; rollups are plain views. In TimescaleDB Community old rows take a fifth of the room',
} as const

async function describeDatabase(store: OpenStore, config: Config): Promise<DatabaseFindings> {
  const { db } = store.database
  const { kind, serverVersion, timescaleVersion } = await detectServer(db)
  const timescale = timescaleVersion === undefined ? '' : `, TimescaleDB ${timescaleVersion}`
  const name = `PostgreSQL ${serverVersion}${timescale}${store.isEmbedded ? ' (embedded)' : ''}`
  const isBare = kind === 'postgresql' && (await canCreateExtension(db))
  const meaning = isBare ? 'it has loaded TimescaleDB, and "start" creates the extension' : meaningOf[kind]
  const { length } = await pendingChanges(store, config)
  const todo = '"start" makes them; "npx market-recorder migrate" does, too, and with --dry-run lists them'
  const schema = length === 0 ? ok('schema', 'up to date') : warning('schema', `${length} changes are pending; ${todo}`)
  const problem = await serviceProblem(store, config)
  const held = problem === null ? [] : [(problem.isRefused ? failure : warning)('held service', problem.line)]
  return { kind, findings: [ok('database', `${name}: ${meaning}`), schema, ...held] }
}

/** Checks that TimescaleDB's jobs run. Without them chunks are not converted, and rollups are not refreshed. */
export async function checkJobs(db: RecorderDatabase['db']): Promise<Finding[]> {
  const jobs = await readJobs(db)
  if (jobs === null) return []
  const problem = jobsProblem(jobs)
  if (problem !== null) return [warning('jobs', problem)]
  const detail = `${jobs.count} jobs of TimescaleDB, none of which failed; the server runs up to ${jobs.workers} workers`
  if (jobs.workers > jobs.count) return [ok('jobs', detail)]
  return [warning('jobs', `${detail}, too few for all jobs at once: raise max_worker_processes and restart the server`)]
}

/**
 * Checks that the server has room for the locks of statements that read a whole table. Each chunk takes one or more.
 * Without room, such a statement fails with error 53200.
 */
async function checkLocks(db: RecorderDatabase['db']): Promise<Finding> {
  const { room, largest } = await readLockRoom(db)
  if (largest === 0) return ok('locks', `tables have no chunks; the server has room for ${room} locks`)
  const detail = `reading the largest table takes ${largest} locks, and the server has room for ${room}`
  if (wholeReaders * largest <= room) return ok('locks', detail)
  const todo = 'raise max_locks_per_transaction in postgresql.conf and restart the server, or lower retentionDays'
  return warning('locks', `${detail}, too few for ${wholeReaders} at once: ${todo}`)
}

/** Checks that no other login keeps a transaction open for long. */
export async function checkOthers(db: RecorderDatabase['db'], olderThan = '1 hour'): Promise<Finding[]> {
  const sessions = await openTransactions(db, olderThan)
  if (sessions.length === 0) return []
  const todo = 'nothing is cleaned up meanwhile; end them, or call pg_terminate_backend with their numbers'
  return [warning('transactions', `open for more than ${olderThan}: sessions ${sessions.join(', ')}; ${todo}`)]
}

/** Checks that the login for users' queries can only read. */
async function checkReader(config: Config, readUrl: string): Promise<Finding> {
  const database = openDatabase({ url: readUrl, poolSize: 1, isReadOnly: true })
  try {
    const rights = await rightsBeyondReading(database.db)
    if (rights.length === 0) return ok('reader', 'query, export and the page use a login that can only read')
    const isOwn = config.database.url !== undefined && config.database.readUrl === undefined
    const todo = isOwn
      ? 'create a login in market_reader for them and give it in DATABASE_READ_URL'
      : 'revoke it as a superuser, or as the owner of the database'
    return warning('reader', `query, export and the page use a login that ${rights.join(', ')}; ${todo}`)
  } catch (error) {
    return failure('reader', describeDatabaseError(error))
  } finally {
    await database.close()
  }
}

async function checkDisk(config: Config, plan: Plan, kind: ServerKind | null): Promise<Finding> {
  const folder = resolve(config.database.dataDir)
  try {
    const { bavail, bsize } = await statfs(await requireWritable(folder))
    return judgeDisk(config, plan, { kind, folder, freeBytes: bavail * bsize })
  } catch (error) {
    const todo = 'set database.dataDir to a folder that can be used'
    return failure('disk', `nothing can be written to ${folder}: ${reasonOf(error)}; ${todo}`)
  }
}

/** Checks that the configured archive can be reached, and is that of the database. */
async function checkArchive(config: Config, found: FoundDatabase): Promise<readonly Finding[]> {
  const { folder, bucket } = config.archive
  if (folder === undefined && bucket === undefined) return []
  try {
    if (folder !== undefined) await requireWritable(resolve(folder))
    const target = await openArchive(config)
    try {
      await readOwner(target)
      const problem = await readWithin(found, async (db) => {
        const pointers = await readPointers(db)
        return requireOwnArchive(db, target, pointers).then(() => null, reasonOf)
      })
      return [problem === null ? ok('archive', `${target.name} can be used`) : failure('archive', problem)]
    } finally {
      await target.close()
    }
  } catch (error) {
    const todo = folder === undefined ? '' : '; set archive.folder to a folder that can be used'
    return [failure('archive', `${reasonOf(error)}${todo}`)]
  }
}

interface Room {
  readonly kind: ServerKind | null
  readonly folder: string
  readonly freeBytes: number
}

/** Judges the free space for a database on this machine, or else for the spool. */
export function judgeDisk(config: Config, plan: Plan, { kind, folder, freeBytes }: Room): Finding {
  const { url } = config.database
  const isAssumed = plan.universe.kind === 'assumed'
  const free = `${inBytes(freeBytes)} free at ${folder}`
  if (freeBytes < minBytes) return failure('disk', `${free}, too little to record; make room, or move database.dataDir`)
  const isCompressed = kind === 'timescale-community'
  const compressed = isCompressed ? ` and ${inBytes(plan.compressedBytesPerDay)} once it is compressed` : ''
  const unknown = isAssumed ? ', as the instruments are not known' : ''
  const perDay = `${isAssumed ? 'at most ' : ''}${inBytes(plan.bytesPerDay)} a day${compressed}${unknown}`
  // A malformed address is a finding about the database.
  const isHere = url === undefined || (URL.canParse(url) && isLoopback(withoutBrackets(new URL(url).hostname)))
  if (!isHere) {
    const { spoolMaxBytes } = config.collector
    const elsewhere = `the database takes ${perDay}, on a disk that cannot be seen from here`
    if (freeBytes >= spoolMaxBytes) return ok('disk', `${free}; ${elsewhere}`)
    const needed = `what waits for the database may take ${inBytes(spoolMaxBytes)}`
    const todo = 'make room, move database.dataDir or lower collector.spoolMaxBytes'
    return warning('disk', `${free}, ${needed}: ${todo}; ${elsewhere}`)
  }
  const days = daysOnDisk(plan.streams, config.storage, { freeBytes, isCompressed })
  const lasts = `lasts ${Math.floor(days)} days${isAssumed ? ' or longer' : ''}`
  const storage = storageOf(config)
  const kept = Math.max(0, ...plan.streams.map(({ stream }) => (keptMs(storage, stream) ?? 0) / dayMs))
  const unkept = days < kept ? `, and rows are to be kept for ${kept} days` : ''
  const detail = `${days === Infinity ? 'never full, as old rows are removed' : lasts}${unkept}: ${free}, ${perDay}`
  if (days >= Math.max(minDays, kept)) return ok('disk', detail)
  const compress = isCompressed ? '' : ', use TimescaleDB Community, which compresses old rows'
  const todo = `${unkept === '' ? 'set' : 'lower'} storage.*.retentionDays, record less (streams.*)${compress}, or make room`
  return warning('disk', `${detail}; ${todo}`)
}
