import type { CandleType, Interval } from '../market/candle.js'
import type { Category, TradedCategory } from '../market/category.js'
import { type Operation, operations } from '../market/stream.js'
import type { RejectedRow } from '../market/rejectedRow.js'
import type { TimeMs } from '../market/values.js'
import { type Clock, systemClock } from '../runtime/clock.js'
import type { Logger } from '../runtime/logger.js'
import { endedByEither } from '../runtime/abort.js'
import { type RawResponse, readResponse } from './response/response.js'
import { orderBookRow, rpiOrderBookRow } from './formats/bookSchemas.js'
import { Circuit, type CircuitPass, outcomeFor } from './circuit.js'
import type { Departure, Settlement } from './pacing/departure.js'
import { ExchangeError, type ExchangeErrorKind } from './errors.js'
import { createTransport, type TransportOptions } from './http/transport.js'
import { Pacer, type PacerOptions, type PacerStats, type Priority } from './pacing/pacer.js'
import type {
  CandlePayload,
  FillPayload,
  InstrumentPayload,
  OrderBookPayload,
  RpiOrderBookPayload,
  RpiSymbolPayload,
  TickerPayload,
} from './payloads.js'
import { type Attempt, type RetryPolicy, withRetries } from './retry.js'
import { type PossibleTimes, readRows, type RowSchema } from './formats/rows.js'
import type { ServiceClock } from './serviceClock.js'
import { candleRow, fillRow, instrumentRow, rpiSymbolRow, tickerRow } from './formats/rowSchemas.js'

/** A successful response: its rows, and what could not be understood of them. */
export interface Page<Row> {
  readonly operation: Operation
  readonly parameters: Readonly<Record<string, string>>
  /** The service's clock of the response. */
  readonly requestTime: TimeMs
  /** Our clock when the request departed. */
  readonly sentAt: TimeMs
  /** Our clock when the last byte arrived. */
  readonly receivedAt: TimeMs
  readonly rows: readonly Row[]
  /** What could not be understood, as far as it is kept. */
  readonly rejected: readonly RejectedRow[]
  /** How many rows could not be understood and are not kept either. */
  readonly rejectedUnkept: number
  /** How many more rows the response held than it may: they were not read. */
  readonly surplusRows: number
  /** Names of fields that the specification doesn't have, each once; their values are in the rows' `extra`. */
  readonly unknownFields: readonly string[]
}

export interface RequestOptions {
  /**
   * Gives up waiting, for a place within the limits or for a repetition. A request that has departed is finished all the
   * same: its response may hold what cannot be asked for again.
   */
  readonly signal?: AbortSignal
  /** Default `live`. */
  readonly priority?: Priority
  /** The moment on the monotonic clock by which it should be sent: the order within a class. Default: none. */
  readonly deadline?: number
  /** A place within the limits that was waited for before it was known what to ask: the first attempt takes it. */
  readonly turn?: Turn
}

/** The right to send one request of an operation now. It is passed on in the same moment with a request, or released. */
export interface Turn {
  readonly operation: Operation
  /** Gives it up unused. */
  release(): void
}

export interface SymbolQuery {
  readonly category: TradedCategory
  readonly symbol: string
}
export interface BookQuery extends SymbolQuery {
  /** Levels on each side, 1 to 1000. */
  readonly limit: number
}
export interface CandleQuery extends SymbolQuery {
  readonly interval: Interval
  readonly type?: CandleType
  readonly startTime?: TimeMs
  readonly endTime?: TimeMs
  readonly limit?: number
}

/**
 * The service's public market data. Each call waits for its place within the limits, is repeated where that helps, and
 * throws an `ExchangeError` otherwise. A row that cannot be understood is in `rejected`; it fails no call.
 */
export interface ExchangeClient {
  instruments(
    query: { readonly category: Category; readonly symbol?: string },
    options?: RequestOptions,
  ): Promise<Page<InstrumentPayload>>
  rpiSymbols(options?: RequestOptions): Promise<Page<RpiSymbolPayload>>
  tickers(
    query: { readonly category: TradedCategory; readonly symbol?: string },
    options?: RequestOptions,
  ): Promise<Page<TickerPayload>>
  orderBook(query: BookQuery, options?: RequestOptions): Promise<Page<OrderBookPayload>>
  rpiOrderBook(query: BookQuery, options?: RequestOptions): Promise<Page<RpiOrderBookPayload>>
  fills(
    query: { readonly category: Category; readonly symbol: string; readonly limit?: number },
    options?: RequestOptions,
  ): Promise<Page<FillPayload>>
  candles(query: CandleQuery, options?: RequestOptions): Promise<Page<CandlePayload>>
  historyCandles(query: CandleQuery, options?: RequestOptions): Promise<Page<CandlePayload>>
  /**
   * Waits for a place within the limits, for a caller that decides only then what to ask for: by then it knows more. The
   * request that takes it goes in its options.
   */
  turn(operation: Operation, options?: Pick<RequestOptions, 'signal' | 'priority' | 'deadline'>): Promise<Turn>
  /** How much of the limits is in use and who waits. */
  stats(): PacerStats
  /** Sends nothing until `resume`: the right to send is lost. Calls wait. */
  suspend(): void
  resume(): void
  /** Closes the connections; what waits or is under way fails as `aborted`. */
  close(): void
}

/** One attempt, reported when it is over. */
export interface RequestEvent {
  readonly operation: Operation
  readonly outcome: 'ok' | ExchangeErrorKind
  /** From departure to the response's last byte, or to the failure. */
  readonly durationMs: number
  /** How long it waited for its place. */
  readonly waitedMs: number
  readonly priority: Priority
  /** 1 for the first. */
  readonly attempt: number
  /** Of the body, after decompression; 0 without a response. */
  readonly bytes: number
}

export interface ExchangeOptions extends TransportOptions {
  readonly limits: PacerOptions['limits']
  readonly latencyJitterMs: number
  readonly retry: RetryPolicy
  readonly clock?: Clock
  /** Judges the time in each response; without it every time is believed. */
  readonly serviceClock?: ServiceClock
  readonly logger?: Logger
  readonly onRequest?: (event: RequestEvent) => void
}

type Parameters = Readonly<Record<string, string>>

/** Throws when an option is out of its range; connects only with the first request. */
export function createExchangeClient(options: ExchangeOptions): ExchangeClient {
  const clock = options.clock ?? systemClock
  const transport = createTransport(options)
  const pacer = new Pacer({ ...options, maxInFlight: options.maxConnections })
  const circuits = Object.fromEntries(operations.map((name) => [name, new Circuit(clock)])) as Record<
    Operation,
    Circuit
  >
  // Closing the client cuts off what is under way; the caller's signal only ends waiting.
  const closing = new AbortController()
  const endsWaiting = endedByEither(closing.signal)
  const turns = new Map<Turn, Admission>()

  async function call<Row>(
    operation: Operation,
    query: object,
    rowSchema: RowSchema<Row>,
    request: RequestOptions = {},
  ): Promise<Page<Row>> {
    const parameters = toParameters(query)
    return withRetries(clock, options.retry, endsWaiting(request.signal), async (attempt) => {
      const { response, sentAt, receivedAt } = await exchange(operation, parameters, request, attempt)
      const times =
        options.serviceClock && response.requestTime !== null ? possibleTimes(response.requestTime) : undefined
      const read = await readRows(rowSchema, response.rows, operation, parameters, times)
      const requestTime = response.requestTime ?? receivedAt
      return { operation, parameters, requestTime, sentAt, receivedAt, ...read, surplusRows: response.surplusRows }
    })
  }

  /** One attempt, from its place in the queue to the opened envelope. */
  async function exchange(operation: Operation, parameters: Parameters, request: RequestOptions, attempt: Attempt) {
    const taken = request.turn === undefined ? undefined : takeTurn(request.turn)
    return send(operation, parameters, attempt, taken ?? (await admit(operation, parameters, request, attempt.signal)))
  }

  /** Waits until the operation is in order and has a place within the limits. */
  async function admit(operation: Operation, parameters: Parameters, request: RequestOptions, signal: AbortSignal) {
    const priority = request.priority ?? 'live'
    const enqueuedMs = clock.monotonicMs()
    const circuit = circuits[operation]
    const pass = await enter(circuit, operation, parameters, signal)
    try {
      const departure = await acquire(operation, parameters, priority, request.deadline, signal)
      return { departure, priority, enqueuedMs, circuit, pass }
    } catch (error) {
      circuit.leave(pass, 'unknown')
      throw error
    }
  }

  async function turn(operation: Operation, request: RequestOptions = {}): Promise<Turn> {
    const admission = await admit(operation, {}, request, endsWaiting(request.signal))
    const made: Turn = {
      operation,
      release: () => {
        if (takeTurn(made) === undefined) return
        admission.circuit.leave(admission.pass, 'unknown')
        pacer.settle(admission.departure, { outcome: 'failed' })
      },
    }
    turns.set(made, admission)
    return made
  }

  /** A turn is good for one attempt. */
  function takeTurn(made: Turn): Admission | undefined {
    const admission = turns.get(made)
    turns.delete(made)
    return admission
  }

  async function send(
    operation: Operation,
    parameters: Parameters,
    attempt: Attempt,
    { departure, priority, enqueuedMs, circuit, pass }: Admission,
  ) {
    attempt.sent()
    const sentAt = clock.now()
    let raw: RawResponse | undefined
    let receivedMs: number | undefined
    let settlement: Settlement = { outcome: 'failed' }
    let outcome: RequestEvent['outcome'] = 'ok'
    try {
      raw = await transport.get(operation, parameters, closing.signal, {
        onSent: () => pacer.sent(departure),
        onResponse: () => pacer.responded(departure),
      })
      const receivedAt = clock.now()
      receivedMs = clock.monotonicMs()
      const response = await readResponse({ operation, parameters }, raw)
      believe(operation, parameters, response.requestTime, receivedAt)
      settlement = { outcome: 'response', remaining: raw.remaining }
      return { response, sentAt, receivedAt }
    } catch (error) {
      outcome = error instanceof ExchangeError ? error.kind : 'malformed'
      if (outcome === 'rate-limited' || outcome === 'blocked')
        settlement = { outcome: 'rate-limited', retryAfterMs: raw?.retryAfterMs }
      // A refusal with a code of the service is a response, too.
      else if (error instanceof ExchangeError && error.code !== undefined)
        settlement = { outcome: 'response', remaining: raw?.remaining }
      throw error
    } finally {
      circuit.leave(pass, outcomeFor(outcome))
      pacer.settle(departure, settlement)
      options.onRequest?.({
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

  /** Throws when the response's clock is wrong: nothing that it says about now may be kept. */
  function believe(operation: Operation, parameters: Parameters, requestTime: TimeMs | null, receivedAt: TimeMs): void {
    if (requestTime === null) return
    const judged = options.serviceClock?.judge({ requestTime, receivedAt })
    if (judged === undefined || judged.isBelieved) return
    const off = `${Math.round(Math.abs(judged.aheadMs) / 60_000)} minutes ${judged.aheadMs > 0 ? 'ahead of' : 'behind'}`
    const what = `a requestTime that is ${off} this machine's clock, which should be checked, too`
    throw new ExchangeError('malformed', { operation, parameters, what })
  }

  async function enter(circuit: Circuit, operation: Operation, parameters: Parameters, signal: AbortSignal) {
    try {
      return await circuit.enter(signal)
    } catch (cause) {
      const what = 'given up while the operation is out of order'
      throw new ExchangeError('aborted', { operation, parameters, what, cause })
    }
  }

  async function acquire(
    operation: Operation,
    parameters: Parameters,
    priority: Priority,
    deadline: number | undefined,
    signal: AbortSignal,
  ): Promise<Departure> {
    try {
      return await pacer.acquire(operation, { priority, signal, ...(deadline === undefined ? {} : { deadline }) })
    } catch (cause) {
      throw new ExchangeError('aborted', { operation, parameters, what: 'given up while waiting for its turn', cause })
    }
  }

  return {
    instruments: (query, request) => call('instruments', query, instrumentRow, request),
    rpiSymbols: (request) => call('rpi-symbols', {}, rpiSymbolRow, request),
    tickers: (query, request) => call('tickers', query, tickerRow, request),
    orderBook: (query, request) => call('orderbook', query, orderBookRow, request),
    rpiOrderBook: (query, request) => call('rpi-orderbook', query, rpiOrderBookRow, request),
    fills: (query, request) => call('fills', query, fillRow, request),
    candles: (query, request) => call('candles', query, candleRow, request),
    historyCandles: (query, request) => call('history-candles', query, candleRow, request),
    turn,
    stats: () => pacer.stats(),
    suspend: () => pacer.suspend(),
    resume: () => pacer.resume(),
    close: () => {
      closing.abort(closedError())
      transport.close()
    },
  }
}

/** What belongs to a request that may be sent now. */
interface Admission {
  readonly departure: Departure
  readonly priority: Priority
  readonly enqueuedMs: number
  readonly circuit: Circuit
  readonly pass: CircuitPass
}

/** A row may be a little newer than its response. No market of this kind is older than 2010. */
function possibleTimes(requestTime: TimeMs): PossibleTimes {
  return { earliest: Date.UTC(2010, 0, 1), latest: requestTime + 60_000 }
}

const closedError = () => new Error('the client was closed')

/** Parameters as they are sent; those that are not given are left out. */
function toParameters(query: object): Parameters {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null)
  return Object.fromEntries(given.map(([name, value]) => [name, String(value)]))
}
