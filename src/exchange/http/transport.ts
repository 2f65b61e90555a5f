import { setMaxListeners } from 'node:events'
import { Axios, type AxiosAdapter, isAxiosError, isCancel } from 'axios'
import { Agent, type Dispatcher, errors, Pool, ProxyAgent } from 'undici'
import type { Operation } from '../../market/stream.js'
import { oneLine } from '../../market/values.js'
import { onAbort } from '../../runtime/abort.js'
import type { Clock } from '../../runtime/clock.js'
import { messageOf } from '../../runtime/text.js'
import { ExchangeError, type ExchangeErrorKind } from '../errors.js'
import { type RawResponse, responseTraits } from '../response.js'
import { acceptEncoding, adapterOver, createLookup, type RequestMoments, tooLargeCode } from './adapter.js'

export interface TransportOptions {
  /** Where the service is, for example https://api.example.com; a path is kept as a prefix. */
  readonly baseUrl: string
  /** From the start of a request to the last byte of its response, in milliseconds. */
  readonly timeoutMs: number
  readonly maxConnections: number
  /** The source address, on hosts that have several. */
  readonly localAddress?: string
  /** URL of an HTTP or HTTPS proxy, with its login if it wants one. */
  readonly proxy?: string
  readonly clock: Clock
  /** Carries the requests instead of connections of this process. */
  readonly adapter?: AxiosAdapter
}

export interface Transport {
  /**
   * Any HTTP status is a response; throws an `ExchangeError` when there is none, or not a whole one. The moments of
   * the request are told as they pass: on a new connection it is sent after the handshakes.
   */
  get(
    operation: Operation,
    parameters: Readonly<Record<string, string>>,
    signal: AbortSignal,
    moments: RequestMoments,
  ): Promise<RawResponse>
  close(): void
}

const pathPrefix = '/api/v3/market/'
/** Operations whose paths are not made of their names. */
const otherPaths: Readonly<Partial<Record<Operation, string>>> = {
  'futures-fills-history': '/api/v2/mix/market/fills-history',
  'spot-fills-history': '/api/v2/spot/market/fills-history',
}

export function createTransport(options: TransportOptions): Transport {
  const { clock } = options
  const { href, username, password } = new URL(options.baseUrl)
  const login = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`
  const base = new URL(href)
  base.username = base.password = ''
  const closing = new AbortController()
  // Every connection adds a listener to this signal. Node.js would warn of a leak.
  setMaxListeners(0, closing.signal)
  const open = () => openDispatcher(options, clock, closing.signal)
  let dispatcher = open()
  const retired = new Set<Dispatcher>()
  // A router that dropped one idle connection has dropped the others, too. Later requests open new connections.
  const broke = (broken: Dispatcher) => {
    if (broken !== dispatcher || closing.signal.aborted) return
    dispatcher = open()
    retired.add(broken)
    void broken.close().finally(() => retired.delete(broken))
  }
  // Without axios' defaults: they are for bodies, cookies and forms, and are merged with each request.
  const instance = new Axios({
    adapter: options.adapter ?? adapterOver({ current: () => dispatcher, broke }),
    headers: {
      Accept: 'application/json',
      'Accept-Encoding': acceptEncoding,
      'User-Agent': 'market-recorder',
      ...(username === '' ? {} : { Authorization: `Basic ${Buffer.from(login).toString('base64')}` }),
    },
    validateStatus: null,
  })
  const start = base.href.replace(/\/+$/, '')
  const addressOf = (operation: Operation) => `${start}${otherPaths[operation] ?? `${pathPrefix}${operation}`}`
  return {
    get: (operation, parameters, signal, moments) =>
      get(instance, addressOf(operation), { operation, parameters, moments, closing: signal, ...options }),
    close: () => {
      closing.abort()
      for (const one of [dispatcher, ...retired]) void one.destroy()
    },
  }
}

/** An idle connection is closed then, before anything between here and there forgets it without a word. */
const maxIdleMs = 15_000

/** One connection for each request under way; those that are idle are kept for a while. */
function openDispatcher(options: TransportOptions, clock: Clock, signal: AbortSignal): Dispatcher {
  const { maxConnections, localAddress, proxy, timeoutMs } = options
  // The signal ends connections that are being opened, too: they would hold the process up.
  const connect = { timeout: timeoutMs, keepAliveInitialDelay: 1000, lookup: createLookup(clock), signal }
  const settings: Pool.Options = {
    connections: maxConnections,
    pipelining: 1,
    // One deadline stands over the whole request.
    headersTimeout: 0,
    bodyTimeout: 0,
    keepAliveTimeout: maxIdleMs,
    keepAliveMaxTimeout: maxIdleMs,
    ...(localAddress === undefined ? {} : { localAddress }),
  }
  if (proxy === undefined) return new Agent({ ...settings, connect })
  return new ProxyAgent({
    uri: proxy,
    // Requests over plain HTTP are handed to the proxy as they are: many proxies open tunnels to port 443 alone.
    proxyTunnel: false,
    proxyTls: connect,
    requestTls: { timeout: timeoutMs, signal },
    factory: (origin, { connect: through }: Pool.Options) =>
      new Pool(origin, { ...settings, ...(through && { connect: through }) }),
    clientFactory: (origin, { connect: toProxy }: Pool.Options) =>
      new Pool(origin, { ...settings, ...(toProxy && { connect: toProxy }) }),
  })
}

/** Enough for one turn of the event loop, in which everything that has come is read. */
const shortestReadMs = 1

interface TransportRequest extends TransportOptions {
  readonly operation: Operation
  readonly parameters: Readonly<Record<string, string>>
  readonly moments: RequestMoments
  readonly closing: AbortSignal
}

async function get(instance: Axios, address: string, options: TransportRequest): Promise<RawResponse> {
  const { operation, parameters, moments, closing, timeoutMs, clock } = options
  const maxContentLength = responseTraits(operation).bytes
  const cut = new AbortController()
  let isLate = false
  // One deadline over everything, from connecting to the last byte.
  const dueMs = clock.monotonicMs() + timeoutMs
  let stopTimer = clock.after(timeoutMs, () => {
    // After a standstill of the process, timers fire before the bytes that came meanwhile are read. Those bytes are
    // read first.
    const lateMs = clock.monotonicMs() - dueMs
    stopTimer = clock.after(Math.max(shortestReadMs, Math.min(lateMs, timeoutMs)), () => {
      isLate = true
      cut.abort()
    })
  })
  const forgetSignal = onAbort(closing, () => cut.abort())
  if (closing.aborted) cut.abort()
  try {
    const query = new URLSearchParams(parameters).toString()
    const { status, data, headers } = await instance.get<Buffer>(query === '' ? address : `${address}?${query}`, {
      signal: cut.signal,
      maxContentLength,
      // What is here in time is kept, however long a busy machine takes to decompress it.
      moments: { ...moments, onReceived: () => stopTimer() },
    })
    return {
      status,
      body: data,
      remaining: readCount(headers['x-mbx-used-remain-limit']),
      retryAfterMs: readRetryAfter(headers['retry-after'], clock),
      location: readHeader(headers['location']),
    }
  } catch (error) {
    const [kind, what] = explainFailure(error, isLate, { timeoutMs, maxContentLength })
    throw new ExchangeError(kind, { operation, parameters, what, cause: causeOf(error) })
  } finally {
    stopTimer()
    forgetSignal()
  }
}

const networkCodes: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'connection refused',
  ECONNRESET: 'connection reset before the end of the response',
  EPIPE: 'connection closed while sending',
  ENOTFOUND: 'host name not found',
  EAI_AGAIN: 'host name could not be looked up',
  ETIMEDOUT: 'connection timed out',
  UND_ERR_CONNECT_TIMEOUT: 'connection timed out',
  // The other side closed the connection, or did so before all that it had announced.
  UND_ERR_SOCKET: 'connection reset before the end of the response',
  UND_ERR_RES_CONTENT_LENGTH_MISMATCH: 'connection reset before the end of the response',
  EHOSTUNREACH: 'host unreachable',
  ENETUNREACH: 'network unreachable',
  EADDRNOTAVAIL: 'the local address is not available',
}

/** Broken HTTP framing and broken compression: something answered, but not the service. */
const brokenCodes = /^(HPE_|Z_|ERR_BROTLI|ERR__ERROR|ERR_ASSERTION|UND_ERR_HEADERS_OVERFLOW)/

function explainFailure(
  error: unknown,
  isLate: boolean,
  { timeoutMs, maxContentLength }: { readonly timeoutMs: number; readonly maxContentLength: number },
): readonly [ExchangeErrorKind, string] {
  if (isLate) return ['timeout', `no whole response within ${timeoutMs} ms`]
  if (isCancel(error)) return ['aborted', 'the request was aborted']
  const cause = causeOf(error)
  const { code = '' } = cause as NodeJS.ErrnoException
  if (code === tooLargeCode) return ['too-large', `the response is larger than ${maxContentLength} bytes`]
  const known = networkCodes[code]
  if (known !== undefined) return ['network', `${known}${placeOf(cause)}`]
  if (cause instanceof errors.HTTPParserError || brokenCodes.test(code)) return ['malformed', describe(cause)]
  return ['network', describe(cause)]
}

/** Which host, or which address and port, as the operating system's error names it. */
function placeOf(cause: unknown): string {
  const { hostname, address, port } = (cause ?? {}) as Readonly<Record<string, unknown>>
  if (typeof hostname === 'string') return `: ${hostname}`
  return typeof address === 'string' && typeof port === 'number' ? `: ${address}:${port}` : ''
}

/** Axios' errors hold the request and its configuration: too much to keep, and nothing for a log. */
function causeOf(error: unknown): unknown {
  if (!isAxiosError(error)) return error
  return error.cause ?? Object.assign(new Error(error.message), { code: error.code })
}

function describe(error: unknown): string {
  return oneLine(messageOf(error), 200)
}

function readHeader(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined
}

function readCount(value: unknown): number | undefined {
  const text = readHeader(value)
  return text !== undefined && /^\d{1,9}$/.test(text) ? Number(text) : undefined
}

/** Seconds or a date. */
function readRetryAfter(value: unknown, clock: Clock): number | undefined {
  const seconds = readCount(value)
  if (seconds !== undefined) return seconds * 1000
  const date = Date.parse(readHeader(value) ?? '')
  return Number.isNaN(date) ? undefined : Math.max(0, date - clock.now())
}
