import { performance } from 'node:perf_hooks'
import { z } from 'zod'
import { type Operation, operations } from '../market/operation.js'
import type { TimeMs } from '../market/values.js'

const common = {
  /** Operations that the fault hits; all operations if absent. */
  operations: z.array(z.enum(operations)).optional(),
  /** Share of the requests that the fault hits. Default 1. */
  probability: z.number().min(0).max(1).optional(),
  /** Number of requests that the fault hits before it is over. */
  count: z.number().int().min(1).optional(),
  /** Half-open range of time in which the fault is in force, by the service's clock. */
  fromMs: z.number().optional(),
  toMs: z.number().optional(),
}
const milliseconds = z.number().min(0)

/** A fault that a test can inject into the simulated service. `kind` selects the failure. */
export const faultSchema = z.discriminatedUnion('kind', [
  /** The response comes later. The arrival of the request is counted before the delay. */
  z.strictObject({ kind: z.literal('latency'), minMs: milliseconds, maxMs: milliseconds, ...common }),
  /** The connection is reset before any response. */
  z.strictObject({ kind: z.literal('reset'), ...common }),
  /** No response comes until the client gives up. */
  z.strictObject({ kind: z.literal('noResponse'), ...common }),
  z.strictObject({
    kind: z.literal('http'),
    status: z.number().int().min(400).max(599),
    body: z.string().optional(),
    ...common,
  }),
  /** The source address is refused for the time of a block. */
  z.strictObject({ kind: z.literal('block'), ...common }),
  /** The response is a page of HTML with status 200, as proxies send it. */
  z.strictObject({ kind: z.literal('html'), ...common }),
  /** The response is a page of HTML with status 403, which wants a browser. */
  z.strictObject({ kind: z.literal('browserCheck'), ...common }),
  z.strictObject({ kind: z.literal('emptyBody'), ...common }),
  /** The connection is cut after half of the body: short of its content-length, or in the middle of chunks. */
  z.strictObject({ kind: z.literal('tornBody'), cut: z.enum(['length', 'chunked']).default('length'), ...common }),
  /** The body comes in pieces over this time. */
  z.strictObject({ kind: z.literal('slowBody'), overMs: milliseconds.default(5_000), ...common }),
  /** The response has the envelope of an older interface: status, err_code, err_msg. */
  z.strictObject({ kind: z.literal('oldEnvelope'), ...common }),
  /** The response is a failure whose `code` is a JSON number. */
  z.strictObject({ kind: z.literal('numericCode'), code: z.number().int().default(40_725), ...common }),
  /** The response is a failure in a proper envelope, such as 45001 in a release window. */
  z.strictObject({
    kind: z.literal('errorCode'),
    code: z.coerce.string(),
    msg: z.string().default('service unavailable'),
    ...common,
  }),
  /** The response is a success with far more bytes than any genuine one has. */
  z.strictObject({
    kind: z.literal('hugeBody'),
    bytes: z
      .number()
      .int()
      .default(64 * 1024 * 1024),
    ...common,
  }),
  /** Lists of instruments and RPI symbols are cut off, to this share of their entries. Other responses are whole. */
  z.strictObject({ kind: z.literal('shortList'), keep: z.number().min(0).max(1).default(0.2), ...common }),
  /** The service's clock, and its whole market with it, is off by this much. */
  z.strictObject({ kind: z.literal('clockSkew'), ms: z.number(), ...common }),
  /** Connections are refused: the listener is closed, and comes back later on the same port. */
  z.strictObject({ kind: z.literal('down'), ...common }),
])
export type Fault = z.input<typeof faultSchema>
export type CompleteFault = z.output<typeof faultSchema>
export const faultKinds = faultSchema.options.map((option) => option.shape.kind.value)

/** Holds the faults. Chance is drawn from the seed in order of arrival. */
export class FaultSet {
  private faults: { readonly fault: CompleteFault; left: number }[] = []
  constructor(private readonly random: () => number) {}

  set(faults: readonly Fault[]): void {
    this.faults = []
    for (const fault of faults) this.add(fault)
  }

  /** Adds a fault. Throws a ZodError for one that is not well-formed. */
  add(fault: Fault): void {
    const complete = faultSchema.parse(fault)
    this.faults.push({ fault: complete, left: complete.count ?? Number.POSITIVE_INFINITY })
  }

  /** Returns the faults that hit a request, and counts them as used. */
  strike(operation: Operation, at: TimeMs): readonly CompleteFault[] {
    const hits: CompleteFault[] = []
    for (const entry of this.faults) {
      const { fault } = entry
      if (fault.kind === 'down' || fault.kind === 'clockSkew') continue
      if (entry.left === 0 || !isInForce(fault, at) || fault.operations?.includes(operation) === false) continue
      if (fault.probability !== undefined && this.random() >= fault.probability) continue
      entry.left--
      hits.push(fault)
    }
    return hits
  }

  mayGoDown(): boolean {
    return this.faults.some(({ fault }) => fault.kind === 'down')
  }

  isDown(at: TimeMs): boolean {
    return this.faults.some(({ fault }) => fault.kind === 'down' && isInForce(fault, at))
  }

  /** Returns how far the service's clock is off. */
  skewMs(at: TimeMs): number {
    let ms = 0
    for (const { fault } of this.faults) if (fault.kind === 'clockSkew' && isInForce(fault, at)) ms += fault.ms
    return ms
  }
}

function isInForce(fault: CompleteFault, at: TimeMs): boolean {
  return at >= (fault.fromMs ?? Number.NEGATIVE_INFINITY) && at < (fault.toMs ?? Number.POSITIVE_INFINITY)
}

/** A time in which a process did not react, because it or the machine was busy, in milliseconds of the wall clock. */
export interface Stall {
  readonly fromMs: number
  readonly toMs: number
}

const lookEveryMs = 10
/** Minimum length of a stall, milliseconds. Shorter delays are ordinary inaccuracy of timers. */
const shortestMs = 40

/**
 * Records when the event loop stood still. Requests that arrived during a stall are counted at its end, as one burst.
 * Requests due during a stall are sent late. A judgment of the pace of requests must allow for both.
 */
export class StallWatch {
  readonly #stalls: Stall[] = []
  readonly #timer: NodeJS.Timeout

  constructor() {
    let lookedAtMs = performance.now()
    this.#timer = setInterval(() => {
      const nowMs = performance.now()
      const lateMs = nowMs - lookedAtMs - lookEveryMs
      if (lateMs >= shortestMs) {
        const toMs = performance.timeOrigin + nowMs
        this.#stalls.push({ fromMs: toMs - lateMs, toMs })
      }
      lookedAtMs = nowMs
    }, lookEveryMs)
    this.#timer.unref()
  }

  /** Returns all stalls so far, oldest first. */
  list(): readonly Stall[] {
    return this.#stalls
  }

  stop(): void {
    clearInterval(this.#timer)
  }
}
