import type { Operation } from '../market/operation.js'
import { type Quote, quoteWithout } from '../market/quote.js'
import type { MachineMs, ServiceMs } from '../market/values.js'
import type { Clock } from '../runtime/clock.js'
import type { Logger } from '../runtime/logger.js'
import type { Right } from '../runtime/right.js'
import { type Ending, endedByEither } from '../runtime/abort.js'
import { BoundedMap } from '../runtime/boundedMap.js'
import { nextTurn } from '../runtime/turns.js'
import { outcomeFor } from './limits/circuit.js'
import { ExchangeError, type ExchangeErrorKind } from './errors.js'
import { createTransport, secretsOf, type Transport, type TransportOptions } from './http/transport.js'
import { blockMs, type Departure, type Settlement } from './limits/penalty.js'
import { type AcquireOptions, Pacer, type PacerOptions } from './limits/pacer.js'
import type { Priority } from './limits/queues.js'
import { type RawResponse, readResponse, type ServiceResponse } from './response.js'
import type { ResponseTimes, ServiceClock } from './serviceClock.js'

/**
 * Options of a request. Its signal also ends waiting for a repetition. A request that has departed is finished all the
 * same, because its response may hold data that cannot be requested again.
 */
export interface RequestOptions extends AcquireOptions {
  /** A place within the limits, from `turn`. The first attempt takes it. */
  readonly turn?: Turn
}

/** The right to send one request of an operation now. Its holder must pass it with a request at once, or release it. */
export interface Turn {
  /** Gives up the turn unused. */
  release(): void
}

/** One of the attempts to get a response. */
export interface Attempt {
  /** Number of this attempt, from 1. */
  readonly number: number
  /** Aborts when the caller gives up, or when the time for all attempts is over. */
  readonly signal: Ending
  /** Must be called when the attempt is sent, because the time for all attempts runs from the first call. */
  sent(): void
}

/** An attempt that is over, for metrics and logs. */
export interface RequestEvent {
  readonly operation: Operation
  readonly outcome: 'ok' | ExchangeErrorKind
  /** Time from departure to the response's last byte, or to the failure. */
  readonly durationMs: number
  /** Time that the request waited for its place within the limits. */
  readonly waitedMs: number
  readonly priority: Priority
  /** Number of this attempt, from 1. */
  readonly attempt: number
  /** Size of the response body after decompression; 0 without a response. */
  readonly bytes: number
}

export interface SenderOptions extends TransportOptions {
  readonly limits: PacerOptions['limits']
  readonly latencyJitterMs: number
  /** Judges the time in each response, and gives the time of a response without one. */
  readonly serviceClock: Pick<ServiceClock, 'judge' | 'now'>
  readonly logger: Logger
  readonly onRequest?: (event: RequestEvent) => void
}

type Parameters = Readonly<Record<string, string>>

/** A successful response, and when it came by our clock. */
interface Received {
  readonly response: ServiceResponse
  /** Time of the response by the service's clock; null for one without an envelope. */
  readonly requestTime: ServiceMs | null
  readonly receivedAt: MachineMs
}

/** A request that may be sent now. */
interface Admission {
  readonly departure: Departure
  readonly priority: Priority
  readonly enqueuedMs: number
}

/** As many bodies of this length as there may be connections are parsed in less than the bound of a turn. */
const shortBytes = 16_384

/** Sends each request once, at its place within the limits, and reads the envelope. */
export class Sender {
  readonly #options: SenderOptions
  readonly #right: Right
  readonly #clock: Clock
  readonly #transport: Transport
  readonly pacer: Pacer
  readonly #quote: Quote
  /** Ends waiting when the client is closed. The transport aborts the requests under way. */
  readonly #closing = new AbortController()
  readonly #turns = new Map<Turn, Admission>()
  /** Refusals that said how long to wait, by target. */
  readonly #toldToWait = new BoundedMap<{ readonly untilMs: number; readonly error: ExchangeError }>()

  constructor(right: Right, options: SenderOptions) {
    this.#right = right
    this.#options = options
    this.#clock = options.clock
    this.#transport = createTransport(options)
    const { baseUrl, proxy } = options
    this.#quote = quoteWithout([baseUrl, ...(proxy === undefined ? [] : [proxy])].flatMap(secretsOf))
    this.pacer = new Pacer({ ...options, right, maxInFlight: options.maxConnections })
  }

  /** Returns a signal that aborts when the caller gives up or the client is closed. */
  endOfWaiting(signal: Ending | undefined): Ending {
    return endedByEither(this.#closing.signal, signal)
  }

  /**
   * Makes one attempt, from its place in the queue to the envelope that was read. Throws an `ExchangeError`: the last one
   * again as long as the service said to wait. Everything else may have gone on.
   */
  async send(
    operation: Operation,
    parameters: Parameters,
    request: RequestOptions,
    attempt: Attempt,
  ): Promise<Received> {
    const told = this.#toldToWait.get(targetOf(operation, parameters))
    if (told !== undefined && this.#clock.monotonicMs() < told.untilMs) {
      request.turn?.release()
      throw told.error
    }
    const taken = request.turn === undefined ? undefined : this.#takeTurn(request.turn)
    const admission = taken ?? (await this.#admit(operation, parameters, request, attempt.signal))
    return this.#depart(operation, parameters, attempt, admission)
  }

  async turn(operation: Operation, request: RequestOptions = {}): Promise<Turn> {
    const admission = await this.#admit(operation, {}, request, this.endOfWaiting(request.signal))
    const turn: Turn = {
      release: () => {
        if (this.#takeTurn(turn) !== undefined) this.pacer.settle(admission.departure, { outcome: 'failed' })
      },
    }
    this.#turns.set(turn, admission)
    return turn
  }

  close(): void {
    this.#closing.abort(new Error('the client was closed'))
    this.#transport.close()
  }

  /** Returns the admission of a turn; undefined from the second call on, because a turn is good for one attempt. */
  #takeTurn(turn: Turn): Admission | undefined {
    const admission = this.#turns.get(turn)
    this.#turns.delete(turn)
    return admission
  }

  /** Waits until the operation is in order and has a place within the limits. */
  async #admit(
    operation: Operation,
    parameters: Parameters,
    { priority = 'live', deadline }: RequestOptions,
    signal: Ending,
  ): Promise<Admission> {
    const enqueuedMs = this.#clock.monotonicMs()
    try {
      const target = targetOf(operation, parameters)
      const departure = await this.pacer.acquire(operation, { priority, deadline, target, signal })
      return { departure, priority, enqueuedMs }
    } catch (cause) {
      throw new ExchangeError('aborted', { operation, parameters, what: 'aborted while waiting for its turn', cause })
    }
  }

  async #depart(
    operation: Operation,
    parameters: Parameters,
    attempt: Attempt,
    { departure, priority, enqueuedMs }: Admission,
  ): Promise<Received> {
    const clock = this.#clock
    attempt.sent()
    const sentMs = clock.monotonicMs()
    let raw: RawResponse | undefined
    let receivedMs: number | undefined
    let settlement: Settlement = { outcome: 'failed' }
    let outcome: RequestEvent['outcome'] = 'ok'
    try {
      raw = await this.#transport.get(operation, parameters, {
        // Connecting takes up to ten seconds. Another process may send from this address by then.
        mayLeave: () => this.#right.check(),
        onSent: () => this.pacer.sent(departure),
        onResponse: () => this.pacer.responded(departure),
      })
      const receivedAt = clock.now()
      receivedMs = clock.monotonicMs()
      // Many long bodies may end together. All of them would be parsed before anything else is done.
      if (raw.body.length > shortBytes) await nextTurn()
      const response = readResponse(this.#quote, { operation, parameters }, raw)
      const times = { receivedAt, receivedMs, roundTripMs: receivedMs - sentMs }
      const requestTime = this.#timeOf(operation, parameters, response, times)
      settlement = { outcome: 'response', remaining: raw.remaining }
      return { response, requestTime, receivedAt }
    } catch (error) {
      outcome = error instanceof ExchangeError ? error.kind : 'malformed'
      if (outcome === 'rate-limited' || outcome === 'blocked') {
        settlement = refusalOf(outcome, parameters, raw)
        this.#noteWait(operation, parameters, error as ExchangeError)
      }
      // A refusal with a code of the service is a response, too.
      else if (error instanceof ExchangeError && error.code !== undefined)
        settlement = { outcome: 'response', remaining: raw?.remaining }
      else if (outcome === 'timeout') settlement = { outcome: 'failed', isGivenUp: true }
      throw error
    } finally {
      this.pacer.settle(departure, settlement, outcomeFor(outcome), targetOf(operation, parameters))
      this.#options.onRequest?.({
        operation,
        outcome,
        durationMs: (receivedMs ?? clock.monotonicMs()) - departure.atMs,
        waitedMs: departure.atMs - enqueuedMs,
        priority,
        attempt: attempt.number,
        bytes: raw?.body.length ?? 0,
      })
    }
  }

  #noteWait(operation: Operation, parameters: Parameters, error: ExchangeError): void {
    const waitMs = Math.min(error.retryAfterMs ?? 0, blockMs)
    const untilMs = this.#clock.monotonicMs() + waitMs
    if (waitMs > 0) this.#toldToWait.set(targetOf(operation, parameters), { untilMs, error })
  }

  /**
   * Returns the time of a response. Throws if its clock is wrong, because nothing that such a response says about now may
   * be kept.
   */
  #timeOf(
    operation: Operation,
    parameters: Parameters,
    { requestTime }: ServiceResponse,
    times: Omit<ResponseTimes, 'requestTime'>,
  ): ServiceMs | null {
    if (requestTime === null) return null
    const judged = this.#options.serviceClock.judge({ requestTime, ...times })
    if (judged.isBelieved) return judged.serviceTime
    const off = `${Math.round(Math.abs(judged.aheadMs) / 60_000)} minutes ${judged.aheadMs > 0 ? 'ahead of' : 'behind'}`
    const what = `a requestTime that is ${off} this machine's clock`
    throw new ExchangeError('wrong-clock', { operation, parameters, what })
  }
}

function targetOf(operation: Operation, { category = '', symbol = '' }: Parameters): string {
  return [operation, category, symbol].join(' ')
}

/**
 * Tells what a refusal may concern. HTTP 418 is a ban of the address. "Too many requests" is about a limit. Any other
 * block of a request for one instrument may be of that instrument.
 */
function refusalOf(kind: 'rate-limited' | 'blocked', { symbol }: Parameters, raw: RawResponse | undefined): Settlement {
  const retryAfterMs = raw?.retryAfterMs
  if (raw?.status === 418) return { outcome: 'rate-limited', retryAfterMs }
  const mayBeOwn = kind === 'blocked' && symbol !== undefined
  return { outcome: 'rate-limited', retryAfterMs, mayBeAlone: true, ...(mayBeOwn && { mayBeOwn }) }
}
