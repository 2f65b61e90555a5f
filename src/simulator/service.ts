import { type Operation, operations, specifiedPerSecond } from '../market/operation.js'
import type { TimeMs } from '../market/values.js'
import { type Control, createControl, Journal } from './control.js'
import { type Outcome, type Outgoing, spoiled } from './delivery.js'
import { createResponder, type ResponseData } from './responses.js'
import { type CompleteFault, type Fault, FaultSet, type StallWatch } from './faults.js'
import { Limiter, type LimitOptions } from './limits.js'
import { type Query, ServiceFailure } from './parameters.js'
import type { ActivityProfile, Scale } from './world/catalogue.js'
import { createRandom, mixWide } from './world/hash.js'
import type { ListingRequest } from './world/listing.js'
import { type Quirks, quirksSchema } from './world/quirks.js'
import { createWorld, type World } from './world/world.js'

export interface ServiceOptions {
  /** Number that everything in the world is drawn from. Default 1. */
  readonly seed?: number
  /** Size of the market. Default `small`. */
  readonly scale?: Scale
  readonly limits?: SimulatorLimits
  readonly quirks?: Partial<Quirks>
  readonly faults?: readonly Fault[]
  readonly activity?: Partial<ActivityProfile>
  /** If true, every served response is kept in memory. Default false. */
  readonly journal?: boolean
  /** Instruments that replace all instruments of the scale. */
  readonly customInstruments?: readonly ListingRequest[]
}

interface SimulatorLimits {
  /** Limits of single operations, in requests per second. The others keep the specified limit. */
  readonly perSecond?: Partial<Record<Operation, number>>
  /** Limit of all operations together, in requests per minute. Default 6,000. */
  readonly perMinute?: number
  /** Length of a block, in milliseconds. Default 300,000. */
  readonly blockMs?: number
  /** Multiplies all limits. Default 1. */
  readonly factor?: number
  /** If false, requests are counted and none is refused. Default true. */
  readonly enforce?: boolean
}

/** Clocks and timers of the service. They need not follow the time of this machine. */
interface ServiceTime {
  /** Returns the time of the service's clock. */
  readonly now: () => TimeMs
  /** Returns the time at which the journal notes deliveries. */
  readonly wallClock: () => TimeMs
  readonly pause: (ms: number) => Promise<void>
  /** Null if stalls of the event loop are not watched. */
  readonly stalls: StallWatch | null
}

/** Decision of the service about a request that has arrived. */
export type Reply =
  | { readonly kind: 'reset' }
  | { readonly kind: 'noResponse' }
  | {
      readonly kind: 'response'
      readonly outgoing: Outgoing
      /** The fault that changes the delivery; undefined if the response is delivered whole and at once. */
      readonly fault: CompleteFault | undefined
      /** Must be called when the delivery begins. The returned function takes the outcome. */
      begin(): (outcome: Outcome) => void
    }

/** The service without its connections. The caller knows the client and delivers the responses. */
export interface Service {
  readonly world: World
  readonly control: Control
  quirks(): Quirks
  /** Returns true while the service refuses connections. */
  isDown(): boolean
  mayGoDown(): boolean
  /** @param arrivedMs when the request arrived, on any clock that only moves forward */
  respond(operation: Operation, query: Query, address: string, arrivedMs: number): Promise<Reply>
}

/** @param onFaults called when the faults have changed */
export function createService(options: ServiceOptions, time: ServiceTime, onFaults: () => void): Service {
  const seed = options.seed ?? 1
  const quirks = { current: quirksSchema.parse(options.quirks ?? {}) }
  const faults = new FaultSet(createRandom(seed))
  faults.set(options.faults ?? [])
  const limiter = new Limiter(completeLimits(options.limits ?? {}))
  const journal = new Journal(options.journal ?? false, time.wallClock)
  const random = createRandom(seed + 2)
  const randomServer = createRandom(seed + 3)
  const world = createWorld({
    seed,
    scale: options.scale ?? 'small',
    activity: options.activity ?? {},
    ...(options.customInstruments ? { customInstruments: options.customInstruments } : {}),
    quirks: () => quirks.current,
  })
  const responder = createResponder(world, () => quirks.current)
  const trueNow = (): TimeMs => Math.floor(time.now())
  const serviceNow = (): TimeMs => trueNow() + faults.skewMs(trueNow())

  /** Returns how far the clock of the server that makes a response is ahead. */
  const serverAheadMs = (): number => {
    const { serverClocksMs: clocks } = quirks.current
    return clocks[Math.floor(randomServer() * clocks.length)] ?? 0
  }

  const respond = async (operation: Operation, query: Query, address: string, arrivedMs: number): Promise<Reply> => {
    const { accepted, remaining } = limiter.admit(address, operation, arrivedMs)
    const atMs = serviceNow()
    const asked = { atMs, source: address, operation, parameters: query }
    const note = (status: number, data: unknown) => journal.begin({ ...asked, status, data })
    const refusal = (): Reply => ({
      kind: 'response',
      outgoing: tooMany,
      fault: undefined,
      begin: () => note(429, null),
    })
    if (!accepted) return refusal()
    const hits = faults.strike(operation, trueNow())
    for (const hit of hits) {
      if (hit.kind === 'latency') await time.pause(hit.minMs + random() * (hit.maxMs - hit.minMs))
    }
    const fault = hits.find(({ kind }) => kind !== 'latency')
    if (fault?.kind === 'block') {
      limiter.block(address, arrivedMs)
      return refusal()
    }
    if (fault?.kind === 'reset' || fault?.kind === 'noResponse') {
      note(0, null)
      return { kind: fault.kind }
    }
    const lacking = lackingOf(operation, quirks.current)
    const content = lacking ?? (await contentOf(responder, quirks.current, operation, query, atMs, serverAheadMs))
    const isShort = fault?.kind === 'shortList' && (operation === 'instruments' || operation === 'rpi-symbols')
    const { data, outgoing: whole } = isShort ? cutShort(quirks.current, content, fault.keep, serviceNow()) : content
    const headers = { ...whole.headers, 'x-mbx-used-remain-limit': String(remaining) }
    const other = fault ? spoiled(fault, { ...whole, headers }, atMs, quirks.current.errorHttpStatus) : null
    const outgoing = other ?? { ...whole, headers }
    const begin = () => note(outgoing.status, other && fault?.kind !== 'hugeBody' ? null : data)
    return { kind: 'response', outgoing, fault, begin }
  }

  return {
    world,
    control: createControl({ world, limiter, faults, journal, stalls: time.stalls, quirks, onFaults }),
    quirks: () => quirks.current,
    isDown: () => faults.isDown(trueNow()),
    mayGoDown: () => faults.mayGoDown(),
    respond,
  }
}

type Content = ResponseData & { readonly outgoing: Outgoing }

/** @param aheadMs returns how far the clock of the server that makes the response is ahead */
async function contentOf(
  responder: ReturnType<typeof createResponder>,
  quirks: Quirks,
  operation: Operation,
  query: Query,
  at: TimeMs,
  aheadMs: () => number,
): Promise<Content> {
  const headers = { 'content-type': 'application/json;charset=UTF-8' }
  try {
    const content = await responder(operation, query, at)
    const body = content.text === null ? [] : envelope(quirks, '00000', 'success', at + aheadMs(), content.text)
    return { ...content, outgoing: { status: 200, headers, body } }
  } catch (error) {
    if (!(error instanceof ServiceFailure)) throw error
    const body = envelope(quirks, error.code, error.message, at, 'null')
    return { data: null, text: 'null', outgoing: { status: quirks.errorHttpStatus, headers, body } }
  }
}

/** Returns the first rows of a list, as a share of them. */
function cutShort(quirks: Quirks, content: Content, keep: number, at: TimeMs): Pick<Content, 'data' | 'outgoing'> {
  if (!Array.isArray(content.data)) return content
  const data: unknown[] = content.data.slice(0, Math.ceil(content.data.length * keep))
  const body = envelope(quirks, '00000', 'success', at, JSON.stringify(data))
  return { data, outgoing: { ...content.outgoing, body } }
}

/** Returns the response of a service that lacks the operation; null if the service has it. */
function lackingOf(operation: Operation, quirks: Quirks): Content | null {
  const { noFillsHistory, lackingOperations, errorHttpStatus } = quirks
  const how = operation.endsWith('fills-history') ? noFillsHistory : null
  if (how === null && !lackingOperations.includes(operation)) return null
  const page = '<html><head><title>404 Not Found</title></head><body>Not Found</body></html>'
  const [status, body] = {
    code: [errorHttpStatus, '{"code":"40404","msg":"Request URL NOT FOUND","data":null}'] as const,
    notFound: [404, page] as const,
    html: [200, page] as const,
  }[how ?? 'code']
  const headers = { 'content-type': body.startsWith('{') ? 'application/json' : 'text/html' }
  return { data: null, text: body, outgoing: { status, headers, body: [body] } }
}

const tooMany: Outgoing = {
  status: 429,
  headers: { 'content-type': 'application/json' },
  body: ['{"code":"429","msg":"Too Many Requests","data":null}'],
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

/**
 * Returns the envelope around `data`, as the parts of a body. The text of the data is passed on as it is, because
 * parsing and printing it again would lose digits.
 */
function envelope(
  quirks: Quirks,
  code: string,
  message: string,
  requestTime: TimeMs,
  data: string | Buffer,
): readonly (string | Buffer)[] {
  const quotedCode = `"code":${JSON.stringify(code)}`
  const quotedMessage = `"msg":${JSON.stringify(message)}`
  const time = `"requestTime":${requestTime}`
  switch (quirks.envelopeOrderVaries ? mixWide(0xe4, requestTime) % 3 : 0) {
    case 1:
      return ['{"data":', data, `,${quotedCode},${quotedMessage},${time}}`]
    case 2:
      return [`{${time},${quotedMessage},"data":`, data, `,${quotedCode}}`]
    default:
      return [`{${quotedCode},${quotedMessage},${time},"data":`, data, '}']
  }
}
