import { hostname } from 'node:os'
import { join, resolve } from 'node:path'
import type { Kysely } from 'kysely'
import { type History, startHistory } from './history/daemon.js'
import { Collector } from './collect/collector.js'
import { Fleet } from './collect/fleet/fleet.js'
import { type Retention, startRetention } from './collect/retention.js'
import { type OpenQueue, openQueue } from './collect/queue/queue.js'
import { hasSegments } from './collect/queue/spoolOwner.js'
import type { Config } from './config/resolve.js'
import type { Database } from './db/schema.js'
import { ConfigError } from './config/configError.js'
import { createExchangeClient, type ExchangeClient, type ExchangeOptions } from './exchange/client.js'
import type { RequestEvent, SenderOptions } from './exchange/sender.js'
import { ServiceClock } from './exchange/serviceClock.js'
import type { CandleSeries } from './market/candle.js'
import type { InstrumentKey } from './market/category.js'
import { type Operation, operations } from './market/stream.js'
import { openStore, type OpenStore } from './openStore.js'
import { configureBeside, prepareOrWait } from './prepareStore.js'
import { type Clock, systemClock, within } from './runtime/clock.js'
import { type Disk, systemDisk } from './runtime/disk.js'
import type { Logger } from './runtime/logger.js'
import { createMetrics, type RecorderMetrics } from './runtime/metrics.js'
import { packageVersion } from './runtime/process.js'
import { type RecorderSource, removeAddress, respondingAddress, writeAddress } from './serve/source.js'
import { requireFreePort, type RunningServer, startServer } from './serve/server.js'
import { acquireLease, type Lease } from './lease/lease.js'
import { noteSpool } from './lease/leaseRow.js'

/** Time in which all parts together must close after received rows are stored. The second is the least for one part. */
const closeWithinMs = 3_000
const shortestCloseMs = 500

/** Names the address that requests leave from. Recorders of one address send in turn. A proxy has its own name. */
export function egressOf({ collector, exchange }: Config): string {
  if (collector.egress !== undefined) return collector.egress
  return exchange.proxy === undefined ? hostname() : `proxy ${new URL(exchange.proxy).host}`
}

export function openExchange(
  config: Config,
  logger: Logger,
  clock: Clock = systemClock,
  more: Pick<ExchangeOptions, 'serviceClock' | 'onRequest' | 'onRepeated' | 'mayDepart' | 'adapter'> = {},
): ExchangeClient {
  const { baseUrl } = config.exchange
  if (baseUrl === undefined) {
    throw new ConfigError([
      'exchange.baseUrl is not set; give --config a file with it, or the address of the service in EXCHANGE_BASE_URL (the demo brings one, and prints its address)',
    ])
  }
  const serviceClock = new ServiceClock(clock, logger)
  return createExchangeClient({ ...config.exchange, baseUrl, clock, serviceClock, logger, ...more })
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
   * @param lastLook called when all rows are stored and the database is still open
   */
  stop(lastLook?: () => Promise<void>): Promise<boolean>
}

/** External dependencies besides the database. The real ones are the defaults. */
interface World {
  readonly clock?: Clock
  /** Carries requests to the service. */
  readonly adapter?: SenderOptions['adapter']
  readonly disk?: Disk
}

/** Starts the whole recorder. Waits for another recorder of the same egress to end first. */
export async function startRecorder(
  config: Config,
  logger: Logger,
  options: World & {
    readonly signal?: AbortSignal
    readonly acceptNewUrl?: boolean
    /** True to serve the page on the next free port if the configured one is taken. */
    readonly takesNextPort?: boolean
    /** Called when the embedded server has died and cannot be started again. Nothing more can be stored then. */
    readonly onDatabaseLost?: (error: Error) => void
  } = {},
): Promise<Recorder> {
  const { clock = systemClock, disk = systemDisk, adapter } = options
  const { drainTimeoutMs, spoolMaxBytes } = config.collector
  const takesNextPort = options.takesNextPort === true
  if (config.serve.enabled) await refuseTakenAddress(config, clock, takesNextPort)
  const metrics = createMetrics({ version: packageVersion(), byInstrument: config.serve.metricsByInstrument })
  countRejectionsFromZero(metrics)
  const parts: RunningParts = {}
  const serviceClock = new ServiceClock(clock, logger)
  const client = openExchange(config, logger, clock, {
    serviceClock,
    onRequest: (event) => {
      observeRequest(metrics, event)
      if (event.outcome === 'ok' && event.attempt === 1) parts.storing?.incidents.succeeded(repeated(event.operation))
    },
    // The response may have been sent and lost on its way. The next response then shows something else.
    onRepeated: (error) =>
      parts.storing?.incidents.failed(repeated(error.operation), `once more after ${error.message}`),
    mayDepart: () => parts.lease?.check() ?? false,
    ...(adapter && { adapter }),
  })
  const store = await openStore(config, logger, {
    mayCreate: true,
    ...(options.onDatabaseLost && { onLost: options.onDatabaseLost }),
  })
  const egress = egressOf(config)
  const fleet = new Fleet({
    config,
    egress,
    clock,
    logger,
    disk,
    file: join(config.database.dataDir, 'fleet.json'),
    universe: () => parts.collector?.universe.planned() ?? { kind: 'listed', instruments: [] },
    isReady: () => parts.collector?.phase === 'collecting',
    pausedMs: () => client.stats().pausedMs,
    onChange: (ownership) => parts.collector?.assign(ownership),
  })
  // Stops parts in the reverse order of the start. Parts that were not started are left out.
  const stopping = new AbortController()
  const stop = async (lastLook?: () => Promise<void>) => {
    stopping.abort()
    const startedMs = clock.monotonicMs()
    const leftMs = () => drainTimeoutMs - (clock.monotonicMs() - startedMs)
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
      await lastLook?.()
    } finally {
      await store.close()
    }
    return drained
  }
  try {
    const preparing = { logger, clock, signal: stopping.signal, accept: options.acceptNewUrl === true }
    const { isAway: isDatabaseAway, prepared } = await prepareOrWait(store, config, preparing)
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
      onDropped: (batches) => parts.collector?.dropped(batches),
    })
    parts.storing = storing
    if (config.serve.enabled) {
      const source: RecorderSource = {
        egress,
        startedAt: clock.now(),
        spoolMaxBytes,
        streams: storing.stats,
        phase: () => parts.collector?.phase ?? 'waiting',
        incidents: () => storing.incidents.recent(),
        backlog: () => storing.queue.backlog(),
        budget: () => client.stats(),
        maySend: () => parts.lease?.maySend === true,
        fleet: () => fleet.report(),
        backfills: async () => (await parts.history?.reports()) ?? [],
      }
      parts.server = await serve(config, source, metrics, { store, logger, clock, takesNextPort })
    }
    await fleet.recall()
    parts.lease = await acquireLease(store.url, egress, {
      logger,
      clock,
      // Requests continue to wait until this recorder may send again.
      onChange: (maySend) => (maySend ? client.resume() : client.suspend()),
      isPatient: isDatabaseAway,
      disk,
      noteFile: join(config.database.dataDir, 'lease.json'),
      sharing: fleet,
      ...(options.signal && { signal: options.signal }),
    })
    // The recorder that held the right may have left responses on this disk.
    await storing.queue.adopt()
    const collector = new Collector({ config, client, storing, clock, logger, ownership: fleet.ownership })
    parts.collector = collector
    const { db } = store.database
    const respondedAt = (candles: CandleSeries) => collector.candlesRespondedAt(candles)
    const series = () => collector.candleSeries
    const startRest = (isConfigured: boolean) => {
      if (!isConfigured || stopping.signal.aborted) return
      void reportFormerSpool(db, config, disk, logger)
      const isOwn = (instrument: InstrumentKey) => fleet.ownership.hasInstrument('fills', instrument)
      parts.history = startHistory({ config, db, client, series, respondedAt, isOwn, clock, logger })
      const { incidents } = collector
      parts.retention = startRetention(config, db, { clock, logger, incidents, serviceNow: () => serviceClock.now() })
    }
    void configured.then(startRest)
    return { collector, serviceClock, storing, store, pageUrl: parts.server?.url ?? null, metrics, stop }
  } catch (error) {
    await stop()
    throw error
  }
}

/** Warns if the address had another data folder. Responses that wait there need a recorder of that folder. */
async function reportFormerSpool(db: Kysely<Database>, config: Config, disk: Disk, logger: Logger): Promise<void> {
  const root = join(resolve(config.database.dataDir), 'spool')
  const prefix = `${hostname()}:`
  const former = await noteSpool(db, egressOf(config), prefix + root).catch(() => null)
  if (former === null || former === prefix + root) return
  const isHere = former.startsWith(prefix)
  const hasLeft = isHere ? await hasSegments(disk, former.slice(prefix.length)) : null
  if (hasLeft === false) return
  logger.warn(
    `database.dataDir was another one: responses ${hasLeft === true ? 'wait' : 'may wait'} in ${former}; stop the recorder and move ` +
      `the files from there to ${root}`,
  )
}

interface RunningParts {
  server?: RunningServer
  lease?: Lease
  storing?: OpenQueue
  collector?: Collector
  history?: History
  retention?: Retention
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

async function serve(
  config: Config,
  source: RecorderSource,
  metrics: RecorderMetrics,
  { store, ...options }: { store: OpenStore; logger: Logger; clock: Clock; takesNextPort: boolean },
): Promise<RunningServer> {
  const { logger } = options
  const { dataDir } = config.database
  const version = packageVersion()
  const server = await startServer({ config, source, metrics, databaseUrl: store.pageUrl, version, ...options })
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

function observeRequest(metrics: RecorderMetrics, event: RequestEvent): void {
  const { operation, outcome, durationMs, waitedMs, priority, bytes } = event
  metrics.requests.inc({ operation, outcome })
  metrics.requestDuration.observe({ operation }, durationMs / 1000)
  metrics.requestWait.observe({ class: priority }, waitedMs / 1000)
  metrics.responseBytes.inc({ operation }, bytes)
}
