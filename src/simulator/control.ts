import type { IncomingMessage, ServerResponse } from 'node:http'
import { text as readText } from 'node:stream/consumers'
import { z } from 'zod'
import { categories, type Category } from '../market/category.js'
import type { Operation } from '../market/operation.js'
import type { TimeMs } from '../market/values.js'
import { messageOf } from '../runtime/text.js'
import type { Delivered, Outcome } from './delivery.js'
import { type Fault, faultSchema, type FaultSet, type Stall, type StallWatch } from './faults.js'
import type { Limiter, Report } from './limits.js'
import { type Listing, type ListingRequest, listingRequestSchema } from './world/listing.js'
import { type Quirks, quirksSchema } from './world/quirks.js'
import { splitAt } from './world/traits.js'
import type { World } from './world/world.js'

/** A response as a client got it. */
export interface ServedResponse {
  /** Time by the service's clock: `requestTime` in the envelope, unless a server has a wrong clock. */
  readonly atMs: TimeMs
  /** The address that sent the request. */
  readonly source: string
  readonly operation: Operation
  readonly parameters: Readonly<Record<string, string>>
  readonly status: number
  /** `complete` only when the whole body was handed to the socket. */
  readonly delivered: Delivered
  /**
   * The client closed the connection after this response without another request on it. Usually the client was done,
   * but it may also have read the response and given up before it understood it.
   */
  readonly isLastOfConnection?: true
  /** When `delivered` was known, by the wall clock; absent while the response is under way. */
  readonly deliveredAtMs?: TimeMs
  /** The envelope's `data` as it was sent, with numbers of order books as their exact text. Null for failures. */
  readonly data: unknown
}

/** Keeps every served response if it is switched on. */
export class Journal {
  private responses: { -readonly [Key in keyof ServedResponse]: ServedResponse[Key] }[] = []
  constructor(
    private readonly isOn: boolean,
    private readonly now: () => TimeMs,
  ) {}

  /** Notes a response before it is sent. The returned function takes the outcome of its delivery. */
  begin(
    response: Omit<ServedResponse, 'delivered' | 'deliveredAtMs' | 'isLastOfConnection'>,
  ): (outcome: Outcome) => void {
    if (!this.isOn) return () => undefined
    const entry: (typeof this.responses)[number] = { ...response, delivered: 'none' }
    this.responses.push(entry)
    return (outcome) => {
      if (outcome === 'closed after') {
        entry.isLastOfConnection = true
        return
      }
      entry.delivered = outcome
      entry.deliveredAtMs = this.now()
    }
  }

  list(): readonly ServedResponse[] {
    return this.responses
  }

  clear(): void {
    this.responses = []
  }
}

/** Operations that a test may perform on the service while it runs. */
export interface Control {
  /** Requests, rejections and highest rates of each source address. */
  report(): Report
  setFaults(faults: readonly Fault[]): void
  addFault(fault: Fault): void
  clearFaults(): void
  /** Changes the given quirks. Throws a ZodError for a value that is not allowed. */
  setQuirks(quirks: Partial<Quirks>): void
  quirks(): Quirks
  /** Lists an instrument, which trades from its `launchTime`. Replaces an instrument of the same name. */
  list(request: ListingRequest & { readonly launchTime: TimeMs }): Listing
  /** Stops the trading of an instrument at `atMs`. Its row disappears at `removedAtMs` (default: at once). */
  delist(category: Category, symbol: string, atMs: TimeMs, removedAtMs?: TimeMs): void
  /** Changes other properties of an instrument, such as its status or precision. */
  amend(category: Category, symbol: string, change: Partial<Listing>): void
  /**
   * Splits an instrument: one unit becomes `factor` units, and the service gives earlier candles adjusted from then on.
   * The split takes effect at the next boundary between runs of fills, at most 3.75 s after `atMs`. Returns this time.
   */
  split(category: Category, symbol: string, factor: number, atMs: TimeMs, relists?: boolean): TimeMs
  /** Returns every served response, in order; none unless the journal is switched on. */
  journal(): readonly ServedResponse[]
  clearJournal(): void
  /** Returns the times when this process stalled and counted arrivals late; none unless the journal is switched on. */
  stalls(): readonly Stall[]
}

interface ControlParts {
  readonly world: World
  readonly limiter: Limiter
  readonly faults: FaultSet
  readonly journal: Journal
  /** Null if stalls are not watched. */
  readonly stalls: StallWatch | null
  readonly quirks: { current: Quirks }
  /** Called after the faults have changed. */
  readonly onFaults: () => void
}

export function createControl(parts: ControlParts): Control {
  const { world, limiter, faults, journal, stalls, quirks, onFaults } = parts
  const setFaults = (list: readonly Fault[]): void => {
    // All faults are checked before the first is set, so that a wrong list changes nothing.
    for (const fault of list) faultSchema.parse(fault)
    faults.set(list)
    onFaults()
  }
  return {
    report: () => limiter.report(),
    setFaults,
    addFault(fault) {
      faults.add(fault)
      onFaults()
    },
    clearFaults: () => setFaults([]),
    setQuirks(changes) {
      quirks.current = quirksSchema.parse({ ...quirks.current, ...changes })
    },
    quirks: () => quirks.current,
    list: (request) => world.put(request),
    delist: (category, symbol, atMs, removedAtMs = atMs) =>
      world.amend(category, symbol, { offTime: atMs, removeTime: removedAtMs }),
    amend: (category, symbol, change) => world.amend(category, symbol, change),
    split(category, symbol, factor, atMs, relists = true) {
      const split = splitAt(atMs, factor, relists)
      const before = world.find(category, symbol)?.splits ?? []
      world.amend(category, symbol, { splits: [...before, split].toSorted((a, b) => a.at - b.at) })
      return split.at
    },
    journal: () => journal.list(),
    clearJournal: () => journal.clear(),
    stalls: () => stalls?.list() ?? [],
  }
}

const splitSchema = z.strictObject({
  category: z.enum(categories),
  symbol: z.string(),
  factor: z.number().positive(),
  atMs: z.number().int().optional(),
  relists: z.boolean().optional(),
})

/** Serves the control interface for other processes, under /simulator. The service's limits do not apply to it. */
export async function respondToControl(
  control: Control,
  path: string,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const body = request.method === 'POST' ? await readText(request) : ''
  switch (`${request.method} ${path}`) {
    case 'GET /simulator/report':
      return json(response, 200, control.report())
    case 'POST /simulator/faults':
      return change(response, body, z.array(faultSchema), (faults) => control.setFaults(faults))
    case 'POST /simulator/quirks':
      return change(response, body, quirksSchema.partial(), (_, given) => control.setQuirks(given as Partial<Quirks>))
    case 'POST /simulator/instruments':
      return change(response, body, z.array(listingRequestSchema), (requests) => {
        for (const request of requests) control.list({ launchTime: Date.now(), ...(request as ListingRequest) })
      })
    case 'POST /simulator/splits':
      return change(response, body, splitSchema, ({ category, symbol, factor, atMs = Date.now(), relists }) => ({
        at: control.split(category, symbol, factor, atMs, relists),
      }))
    case 'GET /simulator/journal': {
      response.writeHead(200, { 'content-type': 'application/x-ndjson' })
      for (const served of control.journal()) response.write(`${JSON.stringify(served)}\n`)
      response.end()
      return
    }
    case 'GET /simulator/stalls':
      return json(response, 200, control.stalls())
    case 'POST /simulator/journal/clear':
      control.clearJournal()
      return json(response, 200, {})
    default:
      return json(response, 404, { error: `${request.method} ${path} is not part of the control interface` })
  }
}

/** Applies a request body if it is valid. Otherwise responds with one line that says what is wrong with it. */
function change<Value>(
  response: ServerResponse,
  body: string,
  schema: z.ZodType<Value>,
  apply: (value: Value, given: unknown) => object | void,
): void {
  let given: unknown
  try {
    given = JSON.parse(body)
  } catch {
    return json(response, 400, { error: 'the body must be JSON' })
  }
  const parsed = schema.safeParse(given)
  if (!parsed.success) return json(response, 400, { error: z.prettifyError(parsed.error).replaceAll('\n', ' ') })
  try {
    json(response, 200, apply(parsed.data, given) ?? {})
  } catch (error) {
    // The request may name an instrument that does not exist, for example.
    json(response, 400, { error: messageOf(error) })
  }
}

function json(response: ServerResponse, status: number, value: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' })
  response.end(JSON.stringify(value))
}
