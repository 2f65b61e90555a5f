import { hostname } from 'node:os'
import { type History, startHistory } from './history/daemon.js'
import { Collector } from './collect/collector.js'
import { Fleet } from './collect/fleet/fleet.js'
import { recordedUniverse } from './collect/fleet/sharedLists.js'
import { startRetention } from './collect/retention.js'
import { reportFormerSpool } from './collect/queue/spoolFolders.js'
import { type OpenQueue, openQueue } from './collect/queue/openQueue.js'
import { type Queue } from './collect/queue/queue.js'
import { type CollectorStats, createStats } from './collect/streams/stream.js'
import { readUniverse, type Universe } from './collect/universe/universe.js'
import type { Config } from './config/resolve.js'
import { describeDatabaseError } from './db/databaseError.js'
import { serviceOf } from './db/identity.js'
import { keepWayIn } from './db/locks.js'
import { ConfigError } from './config/configError.js'
import { createExchangeClient, type ExchangeClient, type ExchangeOptions } from './exchange/client.js'
import type { ExchangeError } from './exchange/errors.js'
import type { SenderOptions } from './exchange/sender.js'
import { ServiceClock } from './exchange/serviceClock.js'
import { openStore, type OpenStore } from './openStore.js'
import { DatabaseGate } from './prepareStore.js'
import { type Clock, systemClock, within } from './runtime/clock.js'
import { type Disk, noteFileOf, systemDisk } from './runtime/disk.js'
import { Incidents } from './runtime/incidents.js'
import type { Logger } from './runtime/logger.js'
import { createMetrics, type RecorderMetrics } from './runtime/metrics.js'
import { packageVersion } from './runtime/process.js'
import type { Right } from './runtime/right.js'
import { observeRequests } from './serve/observeRequests.js'
import { type RecorderSource, removeAddress, writeAddress } from './serve/source.js'
import { refuseTakenAddress, type RunningServer, startServer } from './serve/server.js'
import { Lease } from './lease/lease.js'

/** Time in which all parts together must close after received rows are stored. */
const closeWithinMs = 3_000
/** Longest wait for the lists that the market is judged by. */
const listsWithinMs = 30_000
/** Time that each part gets to close, even if the others took all of `closeWithinMs`. */
const shortestCloseMs = 500

/** Names the address that requests leave from. Recorders of one address send in turn. A proxy has its own name. */
export function egressOf({ collector, exchange }: Config): string {
  if (collector.egress !== undefined) return collector.egress
  return exchange.proxy === undefined ? hostname() : `proxy ${new URL(exchange.proxy).host}`
}

/** Names what a note on the disk is about: the service, the database and the address. Another one has another file. */
function keptFor(config: Config): string {
  const { url } = config.database
  const database = url === undefined ? 'embedded' : `${new URL(url).host}${new URL(url).pathname}`
  return [serviceOf(requireBaseUrl(config)), database, egressOf(config)].join(' ')
}

export function requireBaseUrl({ exchange: { baseUrl } }: Config): string {
  if (baseUrl !== undefined) return baseUrl
  throw new ConfigError([
    'exchange.baseUrl is not set; give --config a file with it, or the address of the service in EXCHANGE_BASE_URL (the demo brings one, and prints its address)',
  ])
}

export function openExchange(
  right: Right,
  config: Config,
  logger: Logger,
  more: Partial<Pick<ExchangeOptions, 'clock' | 'serviceClock' | 'onRequest' | 'onRepeated' | 'adapter'>> = {},
): ExchangeClient {
  const baseUrl = requireBaseUrl(config)
  const { clock = systemClock, serviceClock = new ServiceClock(clock, logger) } = more
  return createExchangeClient(right, { ...config.exchange, baseUrl, logger, ...more, clock, serviceClock })
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
  /** True to store what waits on the disk for another database of the service. */
  readonly adopt?: boolean
  /** Judges the market before it is recorded. Throws to end the start. Default: records any market. */
  readonly admit?: (read: (onMissing: (error: ExchangeError) => void) => Promise<Universe>) => Promise<void>
  /** True to serve the page on the next free port if the configured one is taken. */
  readonly takesNextPort?: boolean
  /** Called when nothing more can be stored: the embedded server cannot be started again, or see `DatabaseGate`. */
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
  readonly lease: Lease
}

/** The parts that have been started so far. */
interface RunningParts {
  server?: RunningServer
  storing?: OpenQueue
  collector?: Collector
  history?: History
  retention?: ReturnType<typeof startRetention>
}

/** Starts the whole recorder. Waits for another recorder of the same egress to end first. */
export async function startRecorder(config: Config, logger: Logger, options: StartOptions = {}): Promise<Recorder> {
  const { clock = systemClock, disk = systemDisk, adapter, onDatabaseLost } = options
  const takesNextPort = options.takesNextPort === true
  requireBaseUrl(config)
  if (config.serve.enabled) await refuseTakenAddress(config, clock, takesNextPort)
  const metrics = createMetrics({ version: packageVersion() })
  const stats = createStats()
  const incidents = new Incidents(logger, clock)
  const parts: RunningParts = {}
  const serviceClock = new ServiceClock(clock, logger)
  const shared = { config, logger, clock, disk, metrics, stats, incidents, serviceClock }
  const fleet = createFleet(shared, parts, () => client.stats().pausedMs)
  const lease = new Lease(egressOf(config), {
    logger,
    clock,
    disk,
    folder: config.database.dataDir,
    noteFile: noteFileOf(config.database.dataDir, 'lease', keptFor(config)),
    serviceNow: () => serviceClock.now(),
    sharing: fleet,
  })
  const requests = observeRequests(metrics, incidents)
  const client = openExchange(lease, config, logger, { clock, serviceClock, ...requests, ...(adapter && { adapter }) })
  const store = await openStore(config, logger, { mayCreate: true, ...(onDatabaseLost && { onLost: onDatabaseLost }) })
  const base: Base = { ...shared, fleet, lease, client, store }
  const stopping = new AbortController()
  const stop = (beforeDatabaseCloses?: () => Promise<void>) => {
    stopping.abort()
    return stopParts(base, parts, beforeDatabaseCloses)
  }
  try {
    const { acceptNewUrl: accept = false, adopt = false } = options
    const { signal } = stopping
    const preparing = { logger, clock, signal, accept, becomesHeir: adopt }
    const gate = new DatabaseGate(store, config, preparing, onDatabaseLost)
    await gate.start()
    const isAway = !gate.isOpen
    void keepWayIn(store.database.db, clock, logger, signal)
    // The queue opens before the recorder may send. Responses of an earlier run need only the database.
    const storing = await openQueue({
      ...shared,
      url: store.url,
      serviceNow: () => serviceClock.now(),
      gate,
      same: store.database.same,
      takesOthers: adopt,
      onDropped: (batches) => parts.collector?.dropped(batches),
    })
    parts.storing = storing
    if (isAway) void gate.prepared.then((isPrepared) => (isPrepared ? storing.claimOrphans() : undefined))
    if (config.serve.enabled) parts.server = await servePage(base, parts, storing.queue, takesNextPort)
    await fleet.recall()
    await takeRight(base, options, isAway)
    // The recorder that held the right may have left responses on this disk.
    await storing.claimOrphans()
    const collector = new Collector({
      config,
      client,
      storing,
      stats,
      incidents,
      clock,
      serviceNow: () => base.serviceClock.now(),
      logger,
      ownership: fleet.ownership,
    })
    parts.collector = collector
    void gate.configured.then((isConfigured) => {
      if (isConfigured && !signal.aborted) startUpkeep(base, parts, collector, gate)
    })
    return { collector, serviceClock, storing, store, pageUrl: parts.server?.url ?? null, metrics, stop }
  } catch (error) {
    await stop()
    throw error
  }
}

/**
 * Waits for the right to send, and has `admit` judge the market. A recorder that finds another one at work is judged by
 * the lists in the database, and not once more when it takes over.
 */
async function takeRight(
  { client, clock, lease, logger, store }: Base,
  { admit, signal }: StartOptions,
  mayStartWithoutDatabase: boolean,
): Promise<void> {
  const ending = new AbortController()
  const either = signal === undefined ? ending.signal : AbortSignal.any([signal, ending.signal])
  let isStandby = false
  const onStandby = () => {
    isStandby = true
    const recorded = recordedUniverse(store.database.db).catch((error: unknown) => {
      logger.debug(`the recorded lists could not be read: ${describeDatabaseError(error)}`)
      return null
    })
    const judge = async (universe: Universe | null) => {
      if (universe !== null) await admit?.(() => Promise.resolve(universe))
    }
    void recorded.then(judge).catch((error: unknown) => ending.abort(error))
  }
  await lease.acquire(store.url, { signal: either, mayStartWithoutDatabase, onStandby })
  if (isStandby || admit === undefined) return
  const stopTimer = clock.after(listsWithinMs, () => ending.abort())
  try {
    await admit((onMissing) => readUniverse(client, either, onMissing))
  } catch (error) {
    signal?.throwIfAborted()
    throw error
  } finally {
    stopTimer()
  }
}

function createFleet(
  { config, logger, clock, disk }: Pick<Base, 'config' | 'logger' | 'clock' | 'disk'>,
  parts: RunningParts,
  pausedMs: () => number,
): Fleet {
  return new Fleet({
    config,
    egress: egressOf(config),
    clock,
    logger,
    disk,
    file: noteFileOf(config.database.dataDir, 'fleet', keptFor(config)),
    universe: () => parts.collector?.universe.planned() ?? { kind: 'listed', instruments: [] },
    isReady: () => parts.collector?.phase === 'collecting',
    pausedMs,
    onChange: (ownership) => parts.collector?.assign(ownership),
  })
}

/** Starts what needs the database as configured: the work on the past, and the removal of old rows. */
function startUpkeep(base: Base, parts: RunningParts, collector: Collector, gate: DatabaseGate): void {
  const { config, logger, clock, disk, incidents, client, serviceClock, fleet } = base
  const { db } = base.store.database
  void reportFormerSpool(db, { egress: egressOf(config), dataDir: config.database.dataDir, disk, logger })
  parts.history = startHistory({
    config,
    db,
    client,
    series: () => collector.candleSeries,
    respondedAt: (series) => collector.candlesRespondedAt(series),
    isOwn: (instrument) => fleet.ownership.hasInstrument(instrument),
    incidents,
    clock,
    // The past is stored beside the queue, so it waits until the queue has noted the service.
    serviceNow: () => (gate.isNoted ? serviceClock.now() : null),
    logger,
  })
  parts.retention = startRetention(config, db, { clock, logger, incidents, serviceNow: () => serviceClock.now() })
}

/** Stops parts in the reverse order of the start. Parts that were not started are left out. */
async function stopParts(
  { config, clock, client, store, fleet, lease }: Base,
  parts: RunningParts,
  beforeDatabaseCloses?: () => Promise<void>,
): Promise<boolean> {
  const startedMs = clock.monotonicMs()
  const remainingMs = () => config.collector.drainTimeoutMs - (clock.monotonicMs() - startedMs)
  /** Closes a part within the shared deadline. If it hangs on a silent database, the disk keeps its data. */
  const close = (part: Promise<unknown> | undefined) =>
    within(clock, Math.max(shortestCloseMs, remainingMs() + closeWithinMs), Promise.resolve(part), undefined)
  // Leaves the fleet first, so that other recorders need not wait until this one has stored everything.
  await close(fleet.leave(() => lease.leave()))
  const history = parts.history?.stop()
  const drained = (await parts.collector?.stop(remainingMs())) ?? true
  await close(history)
  await close(parts.storing?.close(remainingMs()))
  client.close()
  await close(Promise.all([parts.retention?.stop(), parts.server?.close(), lease.release()]))
  try {
    await beforeDatabaseCloses?.()
  } finally {
    await store.close()
  }
  return drained
}

/** Serves the page, and notes its address for the status command. */
async function servePage(
  { config, logger, clock, metrics, stats, incidents, client, serviceClock, store, fleet, lease }: Base,
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
    serviceNow: () => serviceClock.now(),
    phase: () => parts.collector?.phase ?? 'waiting',
    incidents: () => incidents.recent(),
    backlog: () => queue.backlog(),
    budget: () => client.stats(),
    maySend: () => lease.maySend,
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
