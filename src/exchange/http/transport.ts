import { isIP, type Socket } from 'node:net'
import { Axios, type AxiosAdapter, isAxiosError, isCancel } from 'axios'
import { Agent, buildConnector, type Dispatcher, errors, Pool, ProxyAgent } from 'undici'
import type { Operation } from '../../market/operation.js'
import { oneLine } from '../../market/oneLine.js'
import { onAbort } from '../../runtime/abort.js'
import type { Clock } from '../../runtime/clock.js'
import { messageOf } from '../../runtime/text.js'
import { ExchangeError, type ExchangeErrorKind } from '../errors.js'
import { type RawResponse, responseLimits } from '../response.js'
import { acceptEncoding, adapterOver, headerParts, NotAllowed, type RequestMoments, tooLargeCode } from './adapter.js'
import { createLookup, type HostLookup } from './lookup.js'

export interface TransportOptions {
  /** Address of the service, for example https://api.example.com. A path is kept as a prefix. */
  readonly baseUrl: string
  /** Longest time from the start of a request to the last byte of its response, in milliseconds. */
  readonly timeoutMs: number
  readonly maxConnections: number
  /** The source address, on hosts that have several. */
  readonly localAddress?: string
  /** URL of an HTTP or HTTPS proxy, with a login if the proxy needs one. */
  readonly proxy?: string
  readonly clock: Clock
  /** Carries the requests instead of connections of this process. */
  readonly adapter?: AxiosAdapter
}

export interface Transport {
  /**
   * Sends a request. Any HTTP status is a response. Throws an `ExchangeError` if no response, or no whole one, comes.
   * Functions in `moments` are called as the request proceeds: on a new connection it leaves after the handshakes.
   */
  get(operation: Operation, parameters: Readonly<Record<string, string>>, moments: RequestMoments): Promise<RawResponse>
  /** Aborts the requests under way. */
  close(): void
}

const credentialsOf = ({ username, password }: URL) =>
  Buffer.from(`${decodeURIComponent(username)}:${decodeURIComponent(password)}`).toString('base64')

/** Returns the parts of an address's login, and what a request sends of it. */
export function secretsOf(address: string): readonly string[] {
  const url = new URL(address)
  if (url.username === '') return []
  // An echo may leave out the padding.
  return [
    ...[url.username, url.password].map((part) => decodeURIComponent(part)),
    credentialsOf(url).replace(/=+$/, ''),
  ]
}

const pathPrefix = '/api/v3/market/'
/** Paths of operations that do not consist of the prefix and the name. */
const otherPaths: Readonly<Partial<Record<Operation, string>>> = {
  'futures-fills-history': '/api/v2/mix/market/fills-history',
  'spot-fills-history': '/api/v2/spot/market/fills-history',
}

export function createTransport(options: TransportOptions): Transport {
  const { clock } = options
  const base = new URL(options.baseUrl)
  const credentials = credentialsOf(base)
  const closing = new AbortController()
  // All dispatchers share the addresses: a resolver is often silent when connections break.
  const family = isIP(options.localAddress ?? '')
  const hosts = createLookup(clock, family === 4 || family === 6 ? { family } : {})
  const open = () => openDispatcher(options, hosts, closing.signal)
  let dispatcher = open()
  const retired = new Set<Dispatcher>()
  // A router that dropped one idle connection has dropped the others, too. Later requests open new connections.
  const broke = (broken: Dispatcher) => {
    if (broken !== dispatcher || closing.signal.aborted) return
    dispatcher = open()
    retired.add(broken)
    void broken.close().finally(() => retired.delete(broken))
  }
  const headers = {
    Accept: 'application/json',
    'Accept-Encoding': acceptEncoding,
    'User-Agent': 'market-recorder',
    ...(base.username === '' ? {} : { Authorization: `Basic ${credentials}` }),
  }
  // The defaults of axios are left out: they serve bodies, cookies and forms, and cost a merge with each request.
  const instance = new Axios({
    adapter: options.adapter ?? adapterOver({ headers, current: () => dispatcher, broke }),
    validateStatus: null,
  })
  base.username = base.password = ''
  const start = base.href.replace(/\/+$/, '')
  const addressOf = (operation: Operation) => `${start}${otherPaths[operation] ?? `${pathPrefix}${operation}`}`
  return {
    get: (operation, parameters, moments) =>
      get(instance, addressOf(operation), { operation, parameters, moments, closing: closing.signal, ...options }),
    close: () => {
      closing.abort()
      for (const one of [dispatcher, ...retired]) void one.destroy()
    },
  }
}

/** Time after which an idle connection is closed, before something on the way to the service drops it silently. */
const maxIdleMs = 15_000

/**
 * Time for a connection to one of several addresses. Node gives up each of them after 250 ms, which a service on another
 * continent needs for its handshake.
 */
const addressWithinMs = 2_000

/** Opens a dispatcher. Each request under way has its own connection, and idle connections are kept for a while. */
function openDispatcher(options: TransportOptions, hosts: HostLookup, signal: AbortSignal): Dispatcher {
  const { maxConnections, localAddress, proxy, timeoutMs } = options
  const connect = {
    timeout: timeoutMs,
    keepAliveInitialDelay: 1000,
    lookup: hosts.lookup,
    autoSelectFamilyAttemptTimeout: addressWithinMs,
  }
  const settings: Pool.Options = {
    connections: maxConnections,
    pipelining: 1,
    // These timeouts are off, because one deadline in `get` covers the whole request.
    headersTimeout: 0,
    bodyTimeout: 0,
    keepAliveTimeout: maxIdleMs,
    keepAliveMaxTimeout: maxIdleMs,
    ...(localAddress === undefined ? {} : { localAddress }),
  }
  if (proxy === undefined) return new Agent({ ...settings, connect: noteFamily(connectorOf(connect, signal), hosts) })
  return new ProxyAgent({
    uri: proxy,
    // Requests over plain HTTP need no tunnel, and many proxies open tunnels only to port 443.
    proxyTunnel: false,
    proxyTls: connect,
    requestTls: { timeout: timeoutMs },
    factory: (origin, { connect: through }: Pool.Options) =>
      new Pool(origin, { ...settings, ...(through && { connect: through }) }),
    clientFactory: (origin) => new Pool(origin, { ...settings, connect: connectorOf(connect, signal) }),
  })
}

/**
 * Returns a connector for one host. The signal ends connections that are being opened, because these would keep the
 * process from ending. Each has a signal of its own, because Node never takes the listener of a socket off its signal.
 */
function connectorOf(connect: buildConnector.BuildOptions, signal: AbortSignal): buildConnector.connector {
  let session: Buffer | undefined
  return (options, done) => {
    const ending = new AbortController()
    const stopListening = onAbort(signal, () => ending.abort())
    const open = buildConnector({ ...connect, ...(session && { session }), signal: ending.signal })
    const finish: buildConnector.Callback = (...result) => {
      stopListening()
      // The next TLS connection resumes the session.
      result[1]?.on('session', (ticket: Buffer) => (session = ticket))
      done(...result)
    }
    const isEncrypted = options.protocol === 'https:'
    const port = options.port || (isEncrypted ? '443' : '80')
    open({ ...options, protocol: 'http:', port }, (...result) => {
      const [error, socket] = result
      if (error !== null) return finish(error, null)
      if (!isEncrypted) return finish(null, dropUnsent(socket, socket))
      open({ ...options, httpSocket: socket }, (...secured) =>
        secured[0] === null ? finish(null, dropUnsent(secured[1], socket)) : finish(secured[0], null),
      )
    })
  }
}

/**
 * Resets a connection whose request was given up. Otherwise the system would go on sending the request, and it would
 * arrive when the network is back: as one more than the limits allow.
 */
function dropUnsent(connection: Socket, tcp: Socket): Socket {
  const destroy = connection.destroy.bind(connection)
  // Whatever has come shows that the request before it has arrived.
  let arrivedBytes = connection.bytesWritten
  connection.on('readable', () => (arrivedBytes = connection.bytesWritten))
  connection.destroy = (error) => {
    // undici says so when a request was aborted, which may not have left at all.
    if (error?.message === 'aborted' && connection.bytesWritten > arrivedBytes && !tcp.destroyed) tcp.resetAndDestroy()
    return destroy(error)
  }
  return connection
}

/** Returns a connector that tells the look-up which family of addresses can be reached. */
function noteFamily(connector: buildConnector.connector, hosts: HostLookup): buildConnector.connector {
  return (options, done) =>
    connector(options, (...result) => {
      const { remoteFamily } = result[1] ?? {}
      if (remoteFamily !== undefined) hosts.prefer(remoteFamily === 'IPv6' ? 6 : 4)
      done(...result)
    })
}

/** Long enough for one turn of the event loop, in which all bytes that have come are read. */
const shortestReadMs = 1

interface TransportRequest extends TransportOptions {
  readonly operation: Operation
  readonly parameters: Readonly<Record<string, string>>
  readonly moments: RequestMoments
  readonly closing: AbortSignal
}

async function get(instance: Axios, address: string, options: TransportRequest): Promise<RawResponse> {
  const { operation, parameters, moments, closing, timeoutMs, clock } = options
  const maxContentLength = responseLimits(operation).bytes
  const cut = new AbortController()
  let isLate = false
  // One deadline covers everything, from connecting to the last byte.
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
    // Unlike `get`, this merges configurations only once.
    const { status, data, headers } = await instance.request<Buffer>({
      method: 'GET',
      url: query === '' ? address : `${address}?${query}`,
      signal: cut.signal,
      maxContentLength,
      // A response that came in time is kept, however long a busy machine takes to decompress it.
      moments: { ...moments, onReceived: () => stopTimer() },
    })
    return {
      status,
      body: data,
      remaining: readCounts(headers['x-mbx-used-remain-limit'])[0],
      retryAfterMs: readWaits(headers['retry-after'], clock).at(-1),
      location: headerParts(headers['location']).join(',') || undefined,
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
  // undici gives these codes when the other side closed the connection before the end of the response.
  UND_ERR_SOCKET: 'connection reset before the end of the response',
  UND_ERR_RES_CONTENT_LENGTH_MISMATCH: 'connection reset before the end of the response',
  EHOSTUNREACH: 'host unreachable',
  ENETUNREACH: 'network unreachable',
  EADDRNOTAVAIL: 'the local address is not available',
}

/** Error codes of broken HTTP and broken compression: something responded, but not the service. */
const brokenCodes = /^(HPE_|Z_|ERR_BROTLI|ERR__ERROR|ERR_ASSERTION|UND_ERR_HEADERS_OVERFLOW)/

function explainFailure(
  error: unknown,
  isLate: boolean,
  { timeoutMs, maxContentLength }: { readonly timeoutMs: number; readonly maxContentLength: number },
): readonly [ExchangeErrorKind, string] {
  if (isLate) return ['timeout', `no whole response within ${timeoutMs} ms`]
  if (isCancel(error)) return ['aborted', 'the request was aborted']
  const cause = causeOf(error)
  if (cause instanceof NotAllowed) return ['not-sent', cause.message]
  const { code = '' } = cause as NodeJS.ErrnoException
  if (code === tooLargeCode) return ['too-large', `the response is larger than ${maxContentLength} bytes`]
  const known = networkCodes[code]
  if (known !== undefined) return ['network', `${known}${placeOf(cause)}`]
  if (cause instanceof errors.HTTPParserError || brokenCodes.test(code)) return ['malformed', describe(cause)]
  return ['network', describe(cause)]
}

/** Names the host, or the address and port, that the operating system's error names. */
function placeOf(cause: unknown): string {
  const { hostname, address, port } = (cause ?? {}) as Readonly<Record<string, unknown>>
  if (typeof hostname === 'string') return `: ${hostname}`
  return typeof address === 'string' && typeof port === 'number' ? `: ${address}:${port}` : ''
}

/** Returns the error behind an axios error, which also holds the request and its configuration: too much for a log. */
function causeOf(error: unknown): unknown {
  if (!isAxiosError(error)) return error
  return error.cause ?? Object.assign(new Error(error.message), { code: error.code })
}

function describe(error: unknown): string {
  return oneLine(messageOf(error), 200)
}

/** Reads the counts of a header, the smallest first. */
function readCounts(header: unknown): readonly number[] {
  const counts = headerParts(header).filter((part) => /^\d{1,9}$/.test(part))
  return counts.map(Number).toSorted((a, b) => a - b)
}

/** Reads the times of a Retry-After header, each in seconds or as a date, the shortest first. */
function readWaits(header: unknown, clock: Clock): readonly number[] {
  const dates = headerParts(header).filter((part) => /^[a-z]/i.test(part))
  const untilDates = dates.map((date) => Math.max(0, Date.parse(date) - clock.now()))
  const waits = [...readCounts(header).map((seconds) => seconds * 1000), ...untilDates]
  return waits.filter((wait) => !Number.isNaN(wait)).toSorted((a, b) => a - b)
}
