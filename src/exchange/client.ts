import type { Category } from '../market/category.js'
import type { RejectedRow, RpiSymbol } from '../market/rows.js'
import { type Operation, operationOfPastFills } from '../market/operation.js'
import type { MachineMs, ServiceMs } from '../market/values.js'
import { type Ending, endedByEither, LightEnding } from '../runtime/abort.js'
import { backoffMs, type Clock, sleepFor } from '../runtime/clock.js'
import { random } from '../runtime/randomness.js'
import type { Right } from '../runtime/right.js'
import { ExchangeError } from './errors.js'
import { candleFormat, fillFormat, pastFillFormat } from './formats/trades.js'
import { futuresCalls } from './formats/futures.js'
import { instrumentFormat, rpiSymbolFormat } from './formats/instruments.js'
import { orderBookFormat, rpiOrderBookFormat, tickerFormat } from './formats/quotes.js'
import { type Format, readRows } from './formats/rows.js'
import type { AcquireOptions, PacerStats } from './limits/pacer.js'
import { type Attempt, type RequestOptions, Sender, type SenderOptions, type Turn } from './sender.js'

/** A successful response: its rows, and what could not be understood of them. */
export interface Page<Row> {
  readonly operation: Operation
  /** Time of the response by the service's clock, as `ServiceClock` believes it. */
  readonly requestTime: ServiceMs
  /**
   * False for an empty body. The service sends one for an instrument without candles yet, but a proxy may send one,
   * too.
   */
  readonly hasEnvelope: boolean
  /** Our clock when the last byte arrived. */
  readonly receivedAt: MachineMs
  readonly rows: readonly Row[]
  /** Rows that could not be understood, and remarks about rows that were kept, up to a bound. */
  readonly rejected: readonly RejectedRow[]
  /**
   * Number of rows that are in neither list. They are rejected rows beyond the bound of `rejected`, and rows beyond the
   * largest number that the operation may give.
   */
  readonly unkept: number
  /** Names the next page of older rows, if the operation gives a cursor. */
  readonly cursor?: string
}

/**
 * Requests the service's public market data. Each call waits for its place within the limits, and is repeated where
 * that helps. It throws an `ExchangeError` otherwise. A row that cannot be understood is in `rejected` and fails no
 * call.
 *
 * Three mechanisms deal with failures here. `withRetries` repeats a single failed request within seconds.
 * `limits/circuit.ts` lets one request at a time try an operation that fails for everybody. `limits/penalty.ts` pauses
 * all operations after a rejection, unless experience (`limits/refusals.ts`) shows that one instrument alone is rejected.
 * The caller deals with failures that last longer.
 */
export interface ExchangeClient extends Calls {
  rpiSymbols(options?: RequestOptions): Promise<Page<RpiSymbol>>
  /**
   * Waits for a place within the limits before the caller chooses what to request, because by then it knows more. The
   * caller passes the turn in the options of its request.
   */
  turn(operation: Operation, options?: AcquireOptions): Promise<Turn>
  /** Tells how much of the limits is in use, and how many requests wait. */
  stats(): PacerStats
  /** Closes the connections. Requests that wait or are under way fail with an error of kind `aborted`. */
  close(): void
}

/** The operations by the names of their methods. A service may lack those of futures and of past fills. */
const calls = {
  instruments: { operation: 'instruments', format: instrumentFormat },
  tickers: { operation: 'tickers', format: tickerFormat },
  orderBook: { operation: 'orderbook', format: orderBookFormat },
  rpiOrderBook: { operation: 'rpi-orderbook', format: rpiOrderBookFormat },
  fills: { operation: 'fills', format: fillFormat },
  pastFills: { operation: operationOfPastFills, format: pastFillFormat },
  candles: { operation: 'candles', format: candleFormat },
  historyCandles: { operation: 'history-candles', format: candleFormat },
  ...futuresCalls,
} as const

type Calls = {
  [Name in keyof typeof calls]: (typeof calls)[Name]['format'] extends Format<infer Query, infer Row, infer _Wire>
    ? (query: Query, options?: RequestOptions) => Promise<Page<Row>>
    : never
}

interface RetryPolicy {
  /** Number of attempts, including the first. At least 1. */
  readonly attempts: number
  readonly minDelayMs: number
  readonly maxDelayMs: number
  /** No attempt is sent later than this after the first one was sent. */
  readonly totalMs: number
}

export interface ExchangeOptions extends SenderOptions {
  readonly retry: RetryPolicy
  /** Called with the last failure of a sent request when a repetition has succeeded. If all fail, the caller gets it. */
  readonly onRepeated?: (error: ExchangeError) => void
}

const emptyTooEarly = 'an empty body before any response that tells the time of the service'

/**
 * Creates a client, which connects only with its first request. Its requests wait while `right` does not hold. Throws if
 * an option is out of its range.
 */
export function createExchangeClient(right: Right, options: ExchangeOptions): ExchangeClient {
  const sender = new Sender(right, options)

  async function call<Query extends object, Row, Wire>(
    operation: Operation,
    query: Query,
    format: Format<Query, Row, Wire>,
    request: RequestOptions = {},
  ): Promise<Page<Row>> {
    const parameters = toParameters(format.parametersOf?.(query) ?? query)
    const signal = sender.endOfWaiting(request.signal)
    const { clock, retry, onRepeated } = options
    const attemptOnce = async (attempt: Attempt): Promise<Page<Row>> => {
      const { response, requestTime: ownTime, receivedAt } = await sender.send(operation, parameters, request, attempt)
      const hasEnvelope = ownTime !== null
      const requestTime = ownTime ?? options.serviceClock.now()
      if (requestTime === null) throw new ExchangeError('malformed', { operation, parameters, what: emptyTooEarly })
      const read = await readRows(format, response, { operation, parameters, query, requestTime, receivedAt })
      const { rows, rejected } = read
      const unkept = read.unkept + response.surplusRows
      const page = { operation, requestTime, hasEnvelope, receivedAt, rows, rejected, unkept }
      const { cursor } = response
      return cursor === undefined ? page : { ...page, cursor }
    }
    return withRetries(clock, retry, signal, attemptOnce, onRepeated)
  }

  const methods = Object.entries(calls).map(([name, { operation, format }]) => [
    name,
    (query: object, request?: RequestOptions) => {
      const { category } = query as { readonly category: Category }
      const named = typeof operation === 'function' ? operation(category) : operation
      return call(named, query, format as Format<object, unknown>, request)
    },
  ])
  return {
    ...(Object.fromEntries(methods) as Calls),
    rpiSymbols: (request) => call('rpi-symbols', {}, rpiSymbolFormat, request),
    turn: (operation, request) => sender.turn(operation, request),
    stats: () => sender.pacer.stats(),
    close: () => sender.close(),
  }
}

/** Converts a query to parameters as text, without those that are undefined. */
function toParameters(query: object): Readonly<Record<string, string>> {
  const parameters: Record<string, string> = {}
  for (const [name, value] of Object.entries(query) as [string, string | number | undefined][])
    if (value !== undefined) parameters[name] = String(value)
  return parameters
}

/**
 * Calls `attempt` until it succeeds, fails for good, or the policy's attempts or time are used up. It then throws the
 * last `ExchangeError`. Delays grow exponentially with full jitter, so that requests that failed together do not return
 * together.
 *
 * @param onRepeated called with the last failure when a repetition has succeeded
 */
async function withRetries<T>(
  clock: Clock,
  policy: RetryPolicy,
  signal: Ending,
  attempt: (attempt: Attempt) => Promise<T>,
  onRepeated?: (error: ExchangeError) => void,
): Promise<T> {
  let firstSentMs: number | undefined
  const sent = () => {
    firstSentMs ??= clock.monotonicMs()
  }
  const remainingMs = () => policy.totalMs - (clock.monotonicMs() - (firstSentMs ?? clock.monotonicMs()))
  let lastError: ExchangeError | undefined
  for (let number = 1; ; number++) {
    // The first attempt has no time limit here, because the policy's time is for repetitions.
    const timeUp = lastError === undefined ? undefined : new LightEnding()
    const stopTimer = timeUp && clock.after(Math.max(0, remainingMs()), () => timeUp.abort())
    try {
      const result = await attempt({ number, signal: endedByEither(signal, timeUp), sent })
      if (lastError !== undefined && lastError.kind !== 'not-sent') onRepeated?.(lastError)
      return result
    } catch (error) {
      // A repetition that was given up tells nothing. The failure that made it necessary is thrown instead. One that
      // departed before the time was up is finished all the same, and its failure counts.
      const isGivenUp = error instanceof ExchangeError && error.kind === 'aborted'
      if (isGivenUp && lastError !== undefined) throw lastError
      if (!(error instanceof ExchangeError) || !error.retryable || number >= policy.attempts) throw error
      lastError = error
    } finally {
      stopTimer?.()
    }
    const { minDelayMs: minMs, maxDelayMs: maxMs } = policy
    const delayMs = Math.max(random() * backoffMs(number, { minMs, maxMs }), lastError.retryAfterMs ?? 0)
    if (delayMs >= remainingMs()) throw lastError
    if (!(await sleepFor(clock, delayMs, signal))) throw lastError
  }
}
