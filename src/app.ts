import { hostname } from 'node:os'
import { join, resolve } from 'node:path'
import type { Kysely } from 'kysely'
import { type History, startHistory } from './history/daemon.js'
import { Collector } from './collect/collector.js'
import { Fleet } from './collect/fleet/fleet.js'
import { startRetention } from './collect/retention.js'
import { type OpenQueue, openQueue, type Queue } from './collect/queue/queue.js'
import { hasSegments } from './collect/queue/spoolOwner.js'
import { type CollectorStats, createStats } from './collect/streams/stream.js'
import type { Config } from './config/resolve.js'
import type { Database } from './db/schema.js'
import { ConfigError } from './config/configError.js'
import { createExchangeClient, type ExchangeClient, type ExchangeOptions } from './exchange/client.js'
import type { SenderOptions } from './exchange/sender.js'
import { ServiceClock } from './exchange/serviceClock.js'
import { type Operation, operations } from './market/operation.js'
import { openStore, type OpenStore } from './openStore.js'
import { configureBeside, prepareOrWait } from './prepareStore.js'
import { type Clock, systemClock, within } from './runtime/clock.js'
import { type Disk, noteFileOf, systemDisk } from './runtime/disk.js'
import { Incidents } from './runtime/incidents.js'
import type { Logger } from './runtime/logger.js'
import { createMetrics, type RecorderMetrics } from './runtime/metrics.js'
import { packageVersion } from './runtime/process.js'
import { type RecorderSource, removeAddress, respondingAddress, writeAddress } from './serve/source.js'
import { requireFreePort, type RunningServer, startServer } from './serve/server.js'
import { acquireLease, type Lease } from './lease/lease.js'
import { noteSpool, readSpool } from './lease/leaseRow.js'

/** Time in which all parts together must close after received rows are stored. */
const closeWithinMs = 3_000
/** Time that each part gets to close, even if the others took all of `closeWithinMs`. */
const shortestCloseMs = 500

/** Names the address that requests leave from. Recorders of one address send in turn. A proxy has its own name. */
export function egressOf({ collector, exchange }: Config): string {
  if (collector.egress !== undefined) return collector.egress
  return exchange.proxy === undefined ? hostname() : `proxy ${new URL(exchange.proxy).host}`
}

export function openExchange(
  config: Config,
  logger: Logger,
  more: Partial<
    Pick<ExchangeOptions, 'clock' | 'serviceClock' | 'onRequest' | 'onRepeated' | 'mayDepart' | 'adapter'>
  > = {},
): ExchangeClient {
  const { baseUrl } = config.exchange
  if (baseUrl === undefined) {
    throw new ConfigError([
      'exchange.baseUrl is not set; give --config a file with it, or the address of the service in EXCHANGE_BASE_URL (the demo brings one, and prints its address)',
    ])
  }
  const { clock = systemClock, serviceClock = new ServiceClock(clock, logger), mayDepart = () => true } = more
  return createExchangeClient({ ...config.exchange, baseUrl, logger, ...more, clock, serviceClock, mayDepart })
}

export interface Recorder {
  readonly collector: Collector
  readonly serviceClock: ServiceClock
  readonly storing: OpenQueue
  readonly store: OpenStore
  /** Address of the page; null if it is not served. */
  readonly pageUrl: string | null
  readonly metrics: RecorderMetrics
  /**
   * Stops requests, stores received rows and closes everything. Resolves to whether all rows were stored in time.
   *
   * @param beforeDatabaseCloses called when all rows are stored
   */
  stop(beforeDatabaseCloses?: () => Promise<void>): Promise<boolean>
}

export interface StartOptions {
  readonly clock?: Clock
  /** Carries requests to the service. Default: connections of this process. */
  readonly adapter?: SenderOptions['adapter']
  readonly disk?: Disk
  readonly signal?: AbortSignal
  readonly acceptNewUrl?: boolean
  /** True to serve the page on the next free port if the configured one is taken. */
  readonly takesNextPort?: boolean
  /** Called when nothing more can be stored: the embedded server cannot be started again, or see `prepareOrWait`. */
  readonly onDatabaseLost?: (error: Error) => void
}

/** Shared by all parts of a recorder. */
interface Base {
  readonly config: Config
  readonly logger: Logger
  readonly clock: Clock
  readonly disk: Disk
  readonly metrics: RecorderMetrics
  readonly stats: CollectorStats
  readonly incidents: Incidents
  readonly serviceClock: ServiceClock
  readonly client: ExchangeClient
  readonly store: OpenStore
  readonly fleet: Fleet
}

/** The parts that have been started so far. */
interface RunningParts {
  server?: RunningServer
  lease?: Lease
  storing?: OpenQueue
  collector?: Collector
  history?: History
  retention?: ReturnType<typeof startRetention>
}

/** Starts the whole recorder. Waits for another recorder of the same egress to end first. */
export async function startRecorder(config: Config, logger: Logger, options: StartOptions = {}): Promise<Recorder> {
  const { clock = systemClock, disk = systemDisk, adapter, onDatabaseLost, signal } = options
  const takesNextPort = options.takesNextPort === true
  if (config.serve.enabled) await refuseTakenAddress(config, clock, takesNextPort)
  const metrics = createMetrics({ version: packageVersion(), byInstrument: config.serve.metricsByInstrument })
  countRejectionsFromZero(metrics)
  const stats = createStats()
  const incidents = new Incidents(logger, clock)
  const parts: RunningParts = {}
  const serviceClock = new ServiceClock(clock, logger)
  const client = openExchange(config, logger, {
    clock,
    serviceClock,
    ...observeRequests(metrics, incidents),
    mayDepart: () => parts.lease?.check() ?? false,
    ...(adapter && { adapter }),
  })
  const store = await openStore(config, logger, { mayCreate: true, ...(onDatabaseLost && { onLost: onDatabaseLost }) })
  const shared = { config, logger, clock, disk, metrics, stats, incidents, serviceClock, client, store }
  const fleet = createFleet(shared, parts)
  const base: Base = { ...shared, fleet }
  const stopping = new AbortController()
  const stop = (beforeDatabaseCloses?: () => Promise<void>) => {
    stopping.abort()
    return stopParts(base, parts, beforeDatabaseCloses)
  }
  try {
    const preparing = { logger, clock, signal: stopping.signal, accept: options.acceptNewUrl === true }
    const { problem, prepared } = await prepareOrWait(store, config, preparing, onDatabaseLost)
    const isDatabaseAway = problem() !== null
    // Configures features while recording runs. Large tables take hours, and another process may be at work on them.
    const configured = prepared.then((isPrepared) => isPrepared && configureBeside(store, config, preparing))
    // The queue opens before the recorder may send. Responses of an earlier run need only the database.
    const storing = await openQueue({
      config,
      url: store.url,
      clock,
      disk,
      logger,
      metrics,
      stats,
      incidents,
      problem,
      onDropped: (batches) => parts.collector?.dropped(batches),
    })
    parts.storing = storing
    if (config.serve.enabled) parts.server = await servePage(base, parts, storing.queue, takesNextPort)
    await fleet.recall()
    parts.lease = await acquireLease(store.url, egressOf(config), {
      logger,
      clock,
      // Requests continue to wait until this recorder may send again.
      onChange: (maySend) => (maySend ? client.resume() : client.suspend()),
      isPatient: isDatabaseAway,
      disk,
      noteFile: noteFileOf(config.database.dataDir, 'lease', egressOf(config)),
      sharing: fleet,
      ...(signal && { signal }),
    })
    // The recorder that held the right may have left responses on this disk.
    await storing.queue.adopt()
    const collector = new Collector({
      config,
      client,
      storing,
      stats,
      incidents,
      clock,
      logger,
      ownership: fleet.ownership,
    })
    parts.collector = collector
    void configured.then((isConfigured) => {
      if (isConfigured && !stopping.signal.aborted) startUpkeep(base, parts, collector)
    })
    return { collector, serviceClock, storing, store, pageUrl: parts.server?.url ?? null, metrics, stop }
  } catch (error) {
    await stop()
    throw error
  }
}

function createFleet({ config, logger, clock, disk, client }: Omit<Base, 'fleet'>, parts: RunningParts): Fleet {
  return new Fleet({
    config,
    egress: egressOf(config),
    clock,
    logger,
    disk,
    file: noteFileOf(config.database.dataDir, 'fleet', egressOf(config)),
    universe: () => parts.collector?.universe.planned() ?? { kind: 'listed', instruments: [] },
    isReady: () => parts.collector?.phase === 'collecting',
    pausedMs: () => client.stats().pausedMs,
    onChange: (ownership) => parts.collector?.assign(ownership),
  })
}

/** Starts what needs the database as configured: the work on the past, and the removal of old rows. */
function startUpkeep(base: Base, parts: RunningParts, collector: Collector): void {
  const { config, logger, clock, disk, incidents, client, serviceClock, fleet } = base
  const { db } = base.store.database
  void reportFormerSpool(db, config, disk, logger).catch(() => undefined)
  parts.history = startHistory({
    config,
    db,
    client,
    series: () => collector.candleSeries,
    respondedAt: (series) => collector.candlesRespondedAt(series),
    isOwn: (instrument) => fleet.ownership.hasInstrument(instrument),
    incidents,
    clock,
    logger,
  })
  parts.retention = startRetention(config, db, { clock, logger, incidents, serviceNow: () => serviceClock.now() })
}

/** Stops parts in the reverse order of the start. Parts that were not started are left out. */
async function stopParts(
  { config, clock, client, store, fleet }: Base,
  parts: RunningParts,
  beforeDatabaseCloses?: () => Promise<void>,
): Promise<boolean> {
  const startedMs = clock.monotonicMs()
  const leftMs = () => config.collector.drainTimeoutMs - (clock.monotonicMs() - startedMs)
  /** Closes a part within the shared deadline. If it hangs on a silent database, the disk keeps its data. */
  const close = (part: Promise<unknown> | undefined) =>
    within(clock, Math.max(shortestCloseMs, leftMs() + closeWithinMs), Promise.resolve(part), undefined)
  // Leaves the fleet first, so that other recorders need not wait until this one has stored everything.
  await close(fleet.leave(() => parts.lease?.leave() ?? Promise.resolve()))
  const history = parts.history?.stop()
  const drained = (await parts.collector?.stop(leftMs())) ?? true
  await close(history)
  await close(parts.storing?.close(leftMs()))
  client.close()
  await close(Promise.all([parts.retention?.stop(), parts.server?.close(), parts.lease?.release()]))
  try {
    await beforeDatabaseCloses?.()
  } finally {
    await store.close()
  }
  return drained
}

/** Warns if the address had another data folder. It stays noted, and each start warns, while responses wait there. */
async function reportFormerSpool(db: Kysely<Database>, config: Config, disk: Disk, logger: Logger): Promise<void> {
  const root = join(resolve(config.database.dataDir), 'spool')
  const prefix = `${hostname()}:`
  const former = await readSpool(db, egressOf(config))
  const isOther = former !== null && former !== prefix + root
  const hasLeft = isOther && (former.startsWith(prefix) ? await hasSegments(disk, former.slice(prefix.length)) : null)
  if (hasLeft !== true) await noteSpool(db, egressOf(config), prefix + root)
  if (hasLeft === false) return
  logger.warn(
    `database.dataDir was another one: responses ${hasLeft === true ? 'wait' : 'may wait'} in ${former}; stop the recorder and move ` +
      `the files from there to ${root}`,
  )
}

/** Throws if the page cannot be served, before anything is created. Names a recorder that already serves there. */
async function refuseTakenAddress(
  { serve: { host, port }, database }: Config,
  clock: Clock,
  takesNextPort: boolean,
): Promise<void> {
  const url = await respondingAddress(clock, database.dataDir)
  if (url !== null) {
    const folder = resolve(database.dataDir)
    throw new Error(`a recorder works in ${folder} already: its page is at ${url}; stop it, or give another --data-dir`)
  }
  if (!takesNextPort) await requireFreePort({ host, port })
}

/** Serves the page, and notes its address for the status command. */
async function servePage(
  { config, logger, clock, metrics, stats, incidents, client, store, fleet }: Base,
  parts: RunningParts,
  queue: Queue,
  takesNextPort: boolean,
): Promise<RunningServer> {
  const { dataDir } = config.database
  const version = packageVersion()
  const source: RecorderSource = {
    egress: egressOf(config),
    startedAt: clock.now(),
    spoolMaxBytes: config.collector.spoolMaxBytes,
    streams: stats,
    phase: () => parts.collector?.phase ?? 'waiting',
    incidents: () => incidents.recent(),
    backlog: () => queue.backlog(),
    budget: () => client.stats(),
    maySend: () => parts.lease?.maySend === true,
    fleet: () => fleet.report(),
    backfills: async () => (await parts.history?.reports()) ?? [],
  }
  const options = { config, source, metrics, databaseUrl: store.pageDatabaseUrl, version, logger, clock, takesNextPort }
  const server = await startServer(options)
  logger.info(`the page is at ${server.url}`)
  await writeAddress(dataDir, server.url).catch((error: Error) =>
    logger.warn(`the status command will not find the page by itself: ${error.message}`),
  )
  return {
    url: server.url,
    async close() {
      await removeAddress(dataDir, server.url)
      await server.close()
    },
  }
}

/** Returns the name of the incident for requests that were repeated with success. */
const repeated = (operation: Operation): string => `repeated requests of ${operation}`

/** Starts these counters at 0. Otherwise Prometheus would see no increase at the first rejection. */
function countRejectionsFromZero({ requests }: RecorderMetrics): void {
  for (const operation of operations) {
    for (const outcome of ['rate-limited', 'blocked']) requests.inc({ operation, outcome }, 0)
  }
}

/** Returns hooks that count requests, and report those that succeeded only when they were repeated. */
function observeRequests(
  metrics: RecorderMetrics,
  incidents: Incidents,
): Pick<ExchangeOptions, 'onRequest' | 'onRepeated'> {
  return {
    onRequest({ operation, outcome, attempt, durationMs, waitedMs, priority, bytes }) {
      metrics.requests.inc({ operation, outcome })
      metrics.requestDuration.observe({ operation }, durationMs / 1000)
      metrics.requestWait.observe({ class: priority }, waitedMs / 1000)
      metrics.responseBytes.inc({ operation }, bytes)
      if (outcome === 'ok' && attempt === 1) incidents.succeeded(repeated(operation))
    },
    // The response may have been sent and lost on its way. The next response then shows something else.
    onRepeated: ({ operation, message }) => incidents.failed(repeated(operation), `once more after ${message}`),
  }
}
