import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type Operation, operations } from '../market/operation.js'
import type { TimeMs } from '../market/values.js'
import { type Control, respondToControl } from './control.js'
import {
  compressed,
  confirmPrevious,
  connectionsLookedAt,
  deliver,
  deliverSlowly,
  deliverTorn,
  type Outgoing,
} from './delivery.js'
import { StallWatch } from './faults.js'
import { queryOf } from './parameters.js'
import { createService, type Reply, type ServiceOptions } from './service.js'
import { createRandom } from './world/hash.js'
import type { Quirks } from './world/quirks.js'
import type { World } from './world/world.js'

/** A server that can stop listening and come back on the same port, to refuse connections for a time. */
interface Listener {
  readonly port: number
  /** Opens or closes the port. Calls that overlap take effect in order. */
  setOpen(isOpen: boolean): Promise<void>
}

async function openListener(server: Server, host: string, port: number): Promise<Listener> {
  await listen(server, host, port)
  const actualPort = (server.address() as AddressInfo).port
  let isOpen = true
  let queue: Promise<void> = Promise.resolve()
  const change = async (open: boolean): Promise<void> => {
    if (open === isOpen) return
    await (open ? listen(server, host, actualPort) : shut(server))
    isOpen = open
  }
  return {
    port: actualPort,
    setOpen(open) {
      queue = queue.then(
        () => change(open),
        () => change(open),
      )
      return queue
    },
  }
}

function listen(server: Server, host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const onError = (cause: NodeJS.ErrnoException): void => {
      const hint =
        cause.code === 'EADDRINUSE'
          ? 'the port is taken; choose another with --port, or 0 for any free one'
          : cause.message
      reject(new Error(`the simulator cannot listen on ${host}:${port}: ${hint}`, { cause }))
    }
    server.once('error', onError)
    server.listen(port, host, () => {
      server.off('error', onError)
      resolve()
    })
  })
}

function shut(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve())
    server.closeAllConnections()
  })
}

export interface SimulatorOptions extends ServiceOptions {
  /** Address to listen at. Default 127.0.0.1. */
  readonly host?: string
  /** Port to listen at. Default 0: any free port. */
  readonly port?: number
  /** Returns the time of the service's clock. Default: the wall clock. */
  readonly now?: () => TimeMs
  /** How long a request travels before its arrival is counted. Default [0, 0]. */
  readonly latencyMs?: readonly [min: number, max: number]
}

export interface Simulator {
  readonly url: string
  readonly port: number
  readonly world: World
  readonly control: Control
  close(): Promise<void>
}

/** Paths of earlier versions of the interface. */
const retiredPath = /^\/api\/(?:spot\/|mix\/)?v[12]\//
const basePath = '/api/v3/market/'
/** Operations that are served at other paths. */
const otherPaths: Readonly<Record<string, Operation>> = {
  '/api/v2/mix/market/fills-history': 'futures-fills-history',
  '/api/v2/spot/market/fills-history': 'spot-fills-history',
}

export function operationAt(path: string): Operation | undefined {
  return (
    otherPaths[path] ?? operations.find((name) => path === basePath + name && !Object.values(otherPaths).includes(name))
  )
}

/** Starts the simulated service. Rejects if the port is taken. */
export async function startSimulator(options: SimulatorOptions = {}): Promise<Simulator> {
  const host = options.host ?? '127.0.0.1'
  const [minLatencyMs, maxLatencyMs] = options.latencyMs ?? [0, 0]
  const random = createRandom((options.seed ?? 1) + 1)
  const stalls = options.journal === true ? new StallWatch() : null
  let onFaults: () => void = () => undefined
  const time = { now: options.now ?? Date.now, wallClock: Date.now, pause, stalls }
  const service = createService(options, time, () => onFaults())
  const { control, world } = service

  const handle = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const target = `http://simulator${request.url ?? '/'}`
    const url = URL.canParse(target) ? new URL(target) : new URL('http://simulator/')
    if (url.pathname.startsWith('/simulator/')) return respondToControl(control, url.pathname, request, response)
    const operation = operationAt(url.pathname)
    if (!operation && retiredPath.test(url.pathname))
      return deliver(response, retired(service.quirks()), () => undefined)
    if (!operation || request.method !== 'GET') return deliver(response, notFound, () => undefined)
    const latencyMs = minLatencyMs + random() * (maxLatencyMs - minLatencyMs)
    // The arrival counts at the time of the latency's end, even if the timer of this process fires later.
    const arrivesMs = performance.now() + latencyMs
    const address = (request.socket.remoteAddress ?? '').replace(/^::ffff:/, '')
    if (latencyMs > 0) await pause(latencyMs)
    const reply = await service.respond(operation, queryOf(url.searchParams), address, arrivesMs)
    return send(reply, service.quirks(), request, response)
  }

  const server = createServer((request, response) => {
    confirmPrevious(request.socket)
    handle(request, response).catch((error: unknown) => {
      // This is a mistake of the simulator, which must not look like a response of the service.
      process.stderr.write(`simulator: ${error instanceof Error ? error.stack : String(error)}\n`)
      response.socket?.destroy()
    })
  })
  // This is longer than any client keeps an idle connection. Otherwise requests would meet connections being closed.
  server.keepAliveTimeout = 75_000
  const listener = await openListener(server, host, options.port ?? 0)

  let watch: NodeJS.Timeout | undefined
  const followDown = (): void => {
    // If another program has taken the port meanwhile, the next look tries again.
    listener.setOpen(!service.isDown()).catch(() => undefined)
  }
  onFaults = (): void => {
    clearInterval(watch)
    followDown()
    // The service's clock may run at any speed, so an outage's beginning and end are polled instead of timed.
    watch = service.mayGoDown() ? setInterval(followDown, 10) : undefined
  }
  onFaults()

  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${listener.port}`,
    port: listener.port,
    world,
    control,
    async close() {
      clearInterval(watch)
      stalls?.stop()
      await listener.setOpen(false)
    },
  }
}

async function send(reply: Reply, quirks: Quirks, request: IncomingMessage, response: ServerResponse): Promise<void> {
  if (reply.kind === 'noResponse') return
  if (reply.kind === 'reset') {
    response.socket?.resetAndDestroy()
    return
  }
  const { outgoing: plain, fault } = reply
  if (plain.status === 429) return deliver(response, plain, reply.begin())
  const outgoing = quirks.brotli ? await compressed(plain, request.headers['accept-encoding']) : plain
  await connectionsLookedAt()
  const watch = reply.begin()
  if (fault?.kind === 'tornBody') return deliverTorn(response, outgoing, fault.cut, watch)
  if (fault?.kind === 'slowBody') return deliverSlowly(response, outgoing, fault.overMs, watch)
  deliver(response, outgoing, watch)
}

const notFound: Outgoing = {
  status: 404,
  headers: { 'content-type': 'application/json' },
  body: ['{"code":"40404","msg":"Request URL NOT FOUND","data":null}'],
}

function retired({ errorHttpStatus }: Quirks): Outgoing {
  const body = '{"code":"30032","msg":"The current interface is offline, please use the latest version","data":null}'
  return { status: errorHttpStatus, headers: { 'content-type': 'application/json' }, body: [body] }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms)
  })
}
