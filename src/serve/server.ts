import { createServer as createHttpServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { resolve } from 'node:path'
import { getRequestListener } from '@hono/node-server'
import { serveStatic } from '@hono/node-server/serve-static'
import { OpenAPIHono } from '@hono/zod-openapi'
import { compress } from 'hono/compress'
import { HTTPException } from 'hono/http-exception'
import { inUrl, packageFile } from '../runtime/process.js'
import type { Config } from '../config/resolve.js'
import { randomName } from '../runtime/randomness.js'
import type { Clock } from '../runtime/clock.js'
import { type Logger, lostLogLines } from '../runtime/logger.js'
import type { RecorderMetrics } from '../runtime/metrics.js'
import { openDatabase, type RecorderDatabase } from '../db/database.js'
import { describeDatabaseError, isOfDatabase } from '../db/databaseError.js'
import { describeApi, healthz, readyz } from './api/endpoints.js'
import { wrongParameters } from './api/parameters.js'
import { addRoutes } from './api/routes.js'
import { createBoundedServer, renderOnce } from './connections.js'
import { patienceMs, readNowAndThen } from './databaseProbe.js'
import { StatusReporter } from './reporter.js'
import { guardsAgainstSites, passwordGuard, requirePassword } from './security.js'
import { type RecorderSource, respondingAddress } from './source.js'
import { StatusMetrics } from './statusMetrics.js'
import { existsSync } from 'node:fs'
import { newestKnown } from '../ledger/read/overview.js'
import { asIfService, type ServiceMs } from '../market/values.js'

interface ServerOptions {
  readonly config: Config
  readonly source: RecorderSource
  readonly metrics: RecorderMetrics
  /** Connection string of the database. The server opens its own connections. */
  readonly databaseUrl: string
  readonly version: string
  readonly logger: Logger
  readonly clock: Clock
  /** True to use the next free port if the configured one is taken. Default false. */
  readonly takesNextPort?: boolean
}

export interface RunningServer {
  readonly url: string
  close(): Promise<void>
}

const poolSize = 3
const statementTimeoutMs = 5_000
/** A connection that is silent for longer is lost on the way, because the server ends every statement by then. */
const silenceTimeoutMs = 2 * statementTimeoutMs
const maxPortsTried = 100

/** Serves metrics, health, the API and the page until it is closed. Rejects if it cannot listen on the address. */
export async function startServer(options: ServerOptions): Promise<RunningServer> {
  const { config, source, version, logger, clock } = options
  const { password } = config.serve
  requirePassword(config.serve)
  const common = { url: options.databaseUrl, isReadOnly: true, applicationName: 'market-recorder page' }
  const database = openDatabase({ ...common, poolSize, statementTimeoutMs, silenceTimeoutMs })
  const pings = openDatabase({ ...common, poolSize: 1, silenceTimeoutMs: patienceMs })
  const instanceId = randomName(16)
  const reporter = new StatusReporter({ config, source, database, pings, version, instanceId, clock })
  const status = () => reporter.report()
  const app = new OpenAPIHono({
    defaultHook(result, context) {
      if (result.success) return undefined
      return context.json({ error: wrongParameters(result.error.issues, context.req.query()) }, 400)
    },
  })
  app.use(...guardsAgainstSites(config.serve))
  if (password !== undefined) app.use(passwordGuard(password))
  addLimits(app)
  const hub = addRoutes(app, { database, clock, logger, status, marketNow: marketTime(source, database, clock) })
  let refusals = 0
  addMetricsAndHealth(app, options, reporter, () => ({ pageClients: hub.size, refusedConnections: refusals }))
  addDescription(app, version)
  servePage(app)
  app.onError((error, context) => {
    if (error instanceof HTTPException) return error.res ?? context.json({ error: error.message }, error.status)
    const { path } = context.req
    if (!isOfDatabase(error)) {
      logger.error(`${path}: ${error.stack ?? error.message}; this is a fault of the program, please report it`)
      return context.json({ error: `${path}: a fault of the recorder; its log says more` }, 500)
    }
    const message = describeDatabaseError(error)
    logger.debug(`${path}: ${message}`)
    return context.json({ error: message }, 503)
  })

  const listener = getRequestListener(app.fetch)
  const server = createBoundedServer(
    (request, response) => void listener(request, response),
    () => refusals++,
  )
  const closeParts = async () => {
    hub.close()
    reporter.close()
    await Promise.all([database.close(), pings.close()])
  }
  try {
    await listen(server, config.serve, options.takesNextPort === true ? maxPortsTried : 1)
  } catch (error) {
    await closeParts()
    throw error
  }
  return {
    url: urlOf(server, config.serve.host),
    async close() {
      const closed = new Promise((resolve) => server.close(resolve))
      server.closeAllConnections()
      await closed
      await closeParts()
    },
  }
}

/** Refuses requests that would change something, renders a response once for all who ask, and compresses it. */
function addLimits(app: OpenAPIHono): void {
  app.use(async (context, next) => {
    if (context.req.method === 'GET' || context.req.method === 'HEAD') return next()
    return context.json({ error: `${context.req.method}: everything here is read-only; use GET` }, 405, {
      Allow: 'GET, HEAD',
    })
  })
  // The metrics are the same whatever is asked after them. The response of the events never ends.
  const once = renderOnce(({ path, url }) => (path === '/api/events' ? null : path === '/metrics' ? path : url))
  app.use('/metrics', once)
  app.use('/api/*', once)
  app.use(compress({ encoding: 'gzip' }))
}

function addMetricsAndHealth(
  app: OpenAPIHono,
  { metrics: { registry }, logger }: ServerOptions,
  reporter: StatusReporter,
  ofServer: () => { readonly pageClients: number; readonly refusedConnections: number },
): void {
  const statusMetrics = new StatusMetrics(registry)
  app.get('/metrics', async (context) => {
    const status = await reporter.report()
    const { backfills } = reporter
    statusMetrics.update(status, { backfills, ...ofServer(), lostLogLines: lostLogLines(logger) })
    return context.body(await registry.metrics(), 200, { 'Content-Type': registry.contentType })
  })
  app.openapi(healthz, (context) => context.json({ ok: true, reasons: [], notices: [] }, 200))
  app.openapi(readyz, async (context) => {
    const { problems } = await reporter.report()
    const messages = (areBlocking: boolean) =>
      problems.filter(({ isBlocking }) => isBlocking === areBlocking).map(({ message }) => message)
    const reasons = messages(true)
    const ok = reasons.length === 0
    return context.json({ ok, reasons, notices: messages(false) }, ok ? 200 : 503)
  })
}

function addDescription(app: OpenAPIHono, version: string): void {
  // Built once, because building it from all schemas takes many times as long as a response.
  let description: string | undefined
  app.get('/api', (context) => {
    description ??= JSON.stringify(describeApi(version))
    return context.body(description, 200, { 'Content-Type': 'application/json' })
  })
  app.all('/api/*', (context) => context.json({ error: `${context.req.path}: no such endpoint; see /api` }, 404))
}

function servePage(app: OpenAPIHono): void {
  const folder = pageFolder()
  if (folder === null) {
    app.get('/', (context) => context.text('The page has not been built: run npm run build.\n', 503))
    return
  }
  // Assets can be cached for ever, because their names change with their content.
  app.use('/assets/*', async (context, next) => {
    await next()
    if (context.res.ok) context.header('Cache-Control', 'public, max-age=31536000, immutable')
  })
  app.use('/*', async (context, next) => {
    await next()
    if (!context.res.headers.has('Cache-Control')) context.header('Cache-Control', 'no-cache')
  })
  app.use('/*', serveStatic({ root: folder, precompressed: true }))
}

type Address = Pick<Config['serve'], 'host' | 'port'>

/** Throws if a server cannot listen on the address. */
export async function requireFreePort(address: Address): Promise<void> {
  const probe = createHttpServer()
  await listen(probe, address, 1)
  await new Promise((resolve) => probe.close(resolve))
}

async function listen(server: Server, { host, port }: Address, ports: number): Promise<void> {
  try {
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject)
      server.listen(port, host, () => {
        server.off('error', reject)
        resolve()
      })
    })
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code !== 'EADDRINUSE' || ports === 1)
      throw new Error(cannotListen(error as NodeJS.ErrnoException, host, port), { cause: error })
    await listen(server, { host, port: port + 1 }, ports - 1)
  }
}

function cannotListen(error: NodeJS.ErrnoException, host: string, port: number): string {
  const what = `cannot serve the page on ${host}:${port}`
  if (error.code === 'EADDRINUSE') return `${what}: the port is taken; set serve.port to another, or to 0 for any`
  if (error.code === 'EACCES') return `${what}: no permission; set serve.port to one above 1023`
  if (error.code === 'EADDRNOTAVAIL' || error.code === 'ENOTFOUND') {
    return `${what}: that is no address of this machine; set serve.host to one`
  }
  return `${what}: ${error.message}`
}

function urlOf(server: Server, host: string): string {
  const { port } = server.address() as AddressInfo
  return `http://${inUrl(host)}:${port}`
}

/** Returns the folder of the built page; null if it has not been built. */
function pageFolder(): string | null {
  const folder = packageFile('dist/page/')
  return existsSync(`${folder}assets`) ? folder : null
}

/** Throws if the page cannot be served, before anything is created. Names a recorder that already serves there. */
export async function refuseTakenAddress(
  { serve, database }: Config,
  clock: Clock,
  takesNextPort: boolean,
): Promise<void> {
  requirePassword(serve)
  const url = await respondingAddress(clock, database.dataDir)
  if (url !== null) {
    const folder = resolve(database.dataDir)
    throw new Error(`a recorder works in ${folder} already: its page is at ${url}; stop it, or give another --data-dir`)
  }
  if (!takesNextPort) await requireFreePort(serve)
}

const everyMs = 10_000

/**
 * Returns a function that tells the time of the market, from which the page looks back. The service's clock tells it.
 * Before the first response the newest recorded time does, and this machine's clock only in an empty database. A clock
 * that is wrong by hours would otherwise empty the page.
 */
function marketTime(
  { serviceNow }: Pick<RecorderSource, 'serviceNow'>,
  { db }: RecorderDatabase,
  clock: Clock,
): () => Promise<ServiceMs> {
  const known = readNowAndThen(clock, everyMs, null, () => newestKnown(db))
  return async () => serviceNow() ?? (await known()) ?? asIfService(clock.now())
}
