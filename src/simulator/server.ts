import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { type Operation, operations } from '../market/stream.js'
import type { TimeMs } from '../market/values.js'
import { createResponder } from './responses.js'
import type { ResponseData } from './responseData.js'
import { compressed } from './compression.js'
import { type Control, createControl } from './control.js'
import { respondToControl } from './controlHttp.js'
import { connectionsLookedAt, deliver, deliverSlowly, deliverTorn, type Outgoing, spoiled } from './delivery.js'
import { envelope } from './envelope.js'
import { type Fault, FaultSet } from './faults.js'
import { Journal } from './journal.js'
import { Limiter, type LimitOptions, specifiedPerSecond } from './limits.js'
import { openListener } from './listener.js'
import { type Query, queryOf, ServiceFailure } from './parameters.js'
import { StallWatch } from './stalls.js'
import { type Quirks, quirksSchema } from './world/quirks.js'
import type { ListingRequest } from './world/listing.js'
import type { ActivityProfile, Scale } from './world/catalogue.js'
import { createRandom } from './world/hash.js'
import { createWorld, type World } from './world/world.js'

export interface SimulatorOptions {
  /** Default 127.0.0.1. */
  readonly host?: string
  /** Default 0: any free port. */
  readonly port?: number
  /** Default 1. */
  readonly seed?: number
  /** Default `small`. */
  readonly scale?: Scale
  /** The service's clock, default the wall clock. */
  readonly now?: () => TimeMs
  readonly limits?: SimulatorLimits
  readonly quirks?: Partial<Quirks>
  readonly faults?: readonly Fault[]
  /** How long a request travels before its arrival is counted. Default [0, 0]. */
  readonly latencyMs?: readonly [min: number, max: number]
  readonly activity?: Partial<ActivityProfile>
  /** Keep every served response in memory. Default false. */
  readonly journal?: boolean
  /** Exactly these instruments, instead of those of the scale. */
  readonly customInstruments?: readonly ListingRequest[]
  /** These, too; the traits of each can be switched one by one. */
  readonly extraInstruments?: readonly ListingRequest[]
}

export interface SimulatorLimits {
  /** Requests per second of single operations; the others keep the specified limit. */
  readonly perSecond?: Partial<Record<Operation, number>>
  /** Default 6,000. */
  readonly perMinute?: number
  /** Default 300,000. */
  readonly blockMs?: number
  /** Multiplies all limits. Default 1. */
  readonly factor?: number
  /** False: count only. Default true. */
  readonly enforce?: boolean
}

export interface Simulator {
  readonly url: string
  readonly port: number
  readonly world: World
  readonly control: Control
  close(): Promise<void>
}

/** Earlier versions of the interface. */
const retiredPath = /^\/api\/(?:spot\/|mix\/)?v[12]\//
const basePath = '/api/v3/market/'

/** Starts the stand-in for the service. Fails when the port is taken. */
export async function startSimulator(options: SimulatorOptions = {}): Promise<Simulator> {
  const host = options.host ?? '127.0.0.1'
  const seed = options.seed ?? 1
  const clock = options.now ?? Date.now
  const [minLatencyMs, maxLatencyMs] = options.latencyMs ?? [0, 0]
  const quirks = { current: quirksSchema.parse(options.quirks ?? {}) }
  const faults = new FaultSet(createRandom(seed))
  faults.set(options.faults ?? [])
  const limiter = new Limiter(completeLimits(options.limits ?? {}))
  const journal = new Journal(options.journal ?? false)
  const stalls = options.journal === true ? new StallWatch() : null
  const random = createRandom(seed + 1)
  const world = createWorld({
    seed,
    scale: options.scale ?? 'small',
    activity: options.activity ?? {},
    ...(options.customInstruments ? { customInstruments: options.customInstruments } : {}),
    quirks: () => quirks.current,
  })
  for (const request of options.extraInstruments ?? []) world.put(request)
  const responder = createResponder(world, () => quirks.current)
  const trueNow = (): TimeMs => Math.floor(clock())
  const serviceNow = (): TimeMs => trueNow() + faults.skewMs(trueNow())

  const contentOf = async (
    operation: Operation,
    query: Query,
    at: TimeMs,
  ): Promise<ResponseData & { outgoing: Outgoing }> => {
    const headers = { 'content-type': 'application/json;charset=UTF-8' }
    try {
      const outgoing = await responder(operation, query, at)
      const body = outgoing.text === null ? [] : envelope(quirks.current, '00000', 'success', at, outgoing.text)
      return { ...outgoing, outgoing: { status: 200, headers, body } }
    } catch (error) {
      if (!(error instanceof ServiceFailure)) throw error
      const body = envelope(quirks.current, error.code, error.message, at, 'null')
      return { data: null, text: 'null', outgoing: { status: quirks.current.errorHttpStatus, headers, body } }
    }
  }

  const serve = async (
    operation: Operation,
    query: Query,
    address: string,
    arrivedMs: number,
    request: IncomingMessage,
    response: ServerResponse,
  ): Promise<void> => {
    const { accepted, remaining } = limiter.admit(address, operation, arrivedMs)
    const atMs = serviceNow()
    const note = (status: number, data: unknown) => journal.begin({ atMs, operation, parameters: query, status, data })
    const refuse = (): void => deliver(response, tooMany, note(429, null))
    if (!accepted) return refuse()
    const hits = faults.strike(operation, trueNow())
    for (const hit of hits) {
      if (hit.kind === 'latency') await pause(hit.minMs + random() * (hit.maxMs - hit.minMs))
    }
    const fault = hits.find(({ kind }) => kind !== 'latency')
    if (fault?.kind === 'block') {
      limiter.block(address, arrivedMs)
      return refuse()
    }
    if (fault?.kind === 'reset' || fault?.kind === 'noResponse') {
      note(0, null)
      if (fault.kind === 'reset') response.socket?.resetAndDestroy()
      return
    }
    const { data, outgoing: whole } = await contentOf(operation, query, atMs)
    const headers = { ...whole.headers, 'x-mbx-used-remain-limit': String(remaining) }
    const { brotli, errorHttpStatus } = quirks.current
    const other = fault ? spoiled(fault, { ...whole, headers }, atMs, errorHttpStatus) : null
    const plain = other ?? { ...whole, headers }
    const outgoing = brotli ? await compressed(plain, request.headers['accept-encoding']) : plain
    await connectionsLookedAt()
    const watch = note(outgoing.status, other && fault?.kind !== 'hugeBody' ? null : data)
    if (fault?.kind === 'tornBody') return deliverTorn(response, outgoing, fault.cut, watch)
    if (fault?.kind === 'slowBody') return deliverSlowly(response, outgoing, fault.overMs, watch)
    deliver(response, outgoing, watch)
  }

  const handle = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const target = `http://simulator${request.url ?? '/'}`
    const url = URL.canParse(target) ? new URL(target) : new URL('http://simulator/')
    if (url.pathname.startsWith('/simulator/')) return respondToControl(control, url.pathname, request, response)
    if (retiredPath.test(url.pathname)) return deliver(response, retired(quirks.current), () => undefined)
    const operation = operations.find((name) => url.pathname === basePath + name)
    if (!operation || request.method !== 'GET') return deliver(response, notFound, () => undefined)
    const latencyMs = minLatencyMs + random() * (maxLatencyMs - minLatencyMs)
    // The arrival is when the request would have arrived, not when a timer of this process got around to it.
    const arrivesMs = performance.now() + latencyMs
    const address = (request.socket.remoteAddress ?? '').replace(/^::ffff:/, '')
    if (latencyMs > 0) await pause(latencyMs)
    return serve(operation, queryOf(url.searchParams), address, arrivesMs, request, response)
  }

  const server = createServer((request, response) => {
    handle(request, response).catch((error: unknown) => {
      // A mistake of the simulator's own: it must not look like a response of the service.
      process.stderr.write(`simulator: ${error instanceof Error ? error.stack : String(error)}\n`)
      response.socket?.destroy()
    })
  })
  // Longer than any client keeps an idle connection: otherwise requests meet connections that are just being closed.
  server.keepAliveTimeout = 75_000
  const listener = await openListener(server, host, options.port ?? 0)

  let watch: NodeJS.Timeout | undefined
  const followDown = (): void => {
    // A port that another program took meanwhile is tried again at the next look.
    listener.setOpen(!faults.isDown(trueNow())).catch(() => undefined)
  }
  const onFaults = (): void => {
    clearInterval(watch)
    followDown()
    // The service's clock may run at any speed, so the beginning and end of an outage are looked for, not timed.
    watch = faults.mayGoDown() ? setInterval(followDown, 10) : undefined
  }
  const control = createControl({ world, limiter, faults, journal, stalls, quirks, onFaults })
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

const tooMany: Outgoing = {
  status: 429,
  headers: { 'content-type': 'application/json' },
  body: ['{"code":"429","msg":"Too Many Requests","data":null}'],
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

function completeLimits(limits: SimulatorLimits): LimitOptions {
  const factor = limits.factor ?? 1
  const perSecond = { ...specifiedPerSecond, ...limits.perSecond }
  for (const operation of operations) perSecond[operation] = Math.max(1, Math.round(perSecond[operation] * factor))
  return {
    perSecond,
    perMinute: Math.max(1, Math.round((limits.perMinute ?? 6_000) * factor)),
    blockMs: limits.blockMs ?? 300_000,
    enforce: limits.enforce ?? true,
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms)
  })
}
