import { Axios, isAxiosError } from 'axios'
import type { Operation } from '../../market/stream.js'
import { oneLine } from '../../market/oneLine.js'
import { onAbort } from '../../runtime/abort.js'
import { type Clock, systemClock } from '../../runtime/clock.js'
import { responseBounds } from '../response/bounds.js'
import type { RawResponse } from '../response/response.js'
import { ExchangeError, type ExchangeErrorKind } from '../errors.js'
import {
  acceptEncoding,
  type Carry,
  type HttpResponse,
  type RequestMoments,
  sendOverConnections,
  TooLargeError,
} from './adapter.js'
import { Connections } from './connections.js'
import { messageOf } from '../../runtime/messageOf.js'

export interface TransportOptions {
  /** Where the service is, for example https://api.example.com; a path is kept as a prefix. */
  readonly baseUrl: string
  /** From the start of a request to the last byte of its response, in milliseconds. */
  readonly timeoutMs: number
  /** Of a response's body after decompression. */
  readonly maxResponseBytes: number
  readonly maxConnections: number
  /** The source address, on hosts that have several. */
  readonly localAddress?: string
  readonly clock?: Clock
  /** Carries a request and brings its response. Default: undici's connections. */
  readonly carry?: Carry
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

export function createTransport(options: TransportOptions): Transport {
  const baseUrl = new URL(options.baseUrl)
  const { maxConnections, localAddress } = options
  const connections = new Connections({
    baseUrl,
    maxConnections,
    ...(localAddress === undefined ? {} : { localAddress }),
    headers: ['Accept', 'application/json', 'Accept-Encoding', acceptEncoding, 'User-Agent', 'market-recorder'],
  })
  // Axios' own handling of headers, proxies and defaults takes longer than sending: the adapter needs none of it.
  const axios = new Axios({})
  const prefix = `${baseUrl.pathname.replace(/\/+$/, '')}${pathPrefix}`
  return {
    get: (operation, parameters, signal, moments) =>
      get(axios, connections, `${prefix}${operation}${queryText(parameters)}`, {
        operation,
        parameters,
        signal,
        moments,
        ...options,
      }),
    close: () => connections.close(),
  }
}

function queryText(parameters: Readonly<Record<string, string>>): string {
  const given = Object.entries(parameters).map(([name, value]) => `${name}=${encodeURIComponent(value)}`)
  return given.length === 0 ? '' : `?${given.join('&')}`
}

interface TransportRequest extends TransportOptions {
  readonly operation: Operation
  readonly parameters: Readonly<Record<string, string>>
  readonly signal: AbortSignal
  readonly moments: RequestMoments
}

async function get(
  axios: Axios,
  connections: Connections,
  path: string,
  request: TransportRequest,
): Promise<RawResponse> {
  const {
    operation,
    parameters,
    signal,
    moments,
    timeoutMs,
    clock = systemClock,
    carry = sendOverConnections,
  } = request
  const maxResponseBytes = Math.min(request.maxResponseBytes, responseBounds[operation].bytes)
  let cut: (reason: Error) => void = () => undefined
  let cause: 'timeout' | 'aborted' | undefined
  const end = (why: 'timeout' | 'aborted') => {
    cause ??= why
    cut(new Error(why))
  }
  // One deadline over everything, from connecting to the last byte.
  const stopTimer = clock.after(timeoutMs, () => end('timeout'))
  const forgetSignal = onAbort(signal, () => end('aborted'))
  try {
    if (signal.aborted) throw signal.reason
    const { data } = await axios.request<HttpResponse>({
      url: path,
      adapter: (config) =>
        carry(config, {
          connections,
          maxResponseBytes,
          moments,
          onStarted: (cutRequest) => {
            cut = cutRequest
          },
        }),
    })
    const { status, body, headers } = data
    return {
      status,
      body,
      remaining: readCount(headers['x-mbx-used-remain-limit']),
      retryAfterMs: readRetryAfter(headers['retry-after'], clock),
      location: headers.location,
    }
  } catch (error) {
    const [kind, what] = explainFailure(error, signal.aborted ? 'aborted' : cause, { timeoutMs, maxResponseBytes })
    throw new ExchangeError(kind, { operation, parameters, what, cause: withoutRequest(error) })
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
  EHOSTUNREACH: 'host unreachable',
  ENETUNREACH: 'network unreachable',
  EADDRNOTAVAIL: 'the local address is not available',
}

function explainFailure(
  error: unknown,
  cause: 'timeout' | 'aborted' | undefined,
  options: Pick<TransportOptions, 'timeoutMs' | 'maxResponseBytes'>,
): readonly [ExchangeErrorKind, string] {
  if (cause === 'timeout') return ['timeout', `no whole response within ${options.timeoutMs} ms`]
  if (cause === 'aborted') return ['aborted', 'the request was aborted']
  if (error instanceof TooLargeError)
    return ['too-large', `the response is larger than ${options.maxResponseBytes} bytes`]
  if (!isAxiosError(error)) return ['network', describe(error)]
  const code = error.code ?? ''
  const known = networkCodes[code]
  if (known !== undefined) return ['network', `${known}${placeOf(error.cause)}`]
  // Broken HTTP framing and broken compression: something answered, but not the service.
  if (
    code.startsWith('HPE_') ||
    code.startsWith('Z_') ||
    code.startsWith('ERR_BROTLI') ||
    code.startsWith('ERR__ERROR')
  )
    return ['malformed', `${code}: ${error.message}`]
  return ['network', describe(error)]
}

/** Which host, or which address and port, as the operating system's error names it. */
function placeOf(cause: unknown): string {
  const { hostname, address, port } = (cause ?? {}) as Readonly<Record<string, unknown>>
  if (typeof hostname === 'string') return `: ${hostname}`
  return typeof address === 'string' && typeof port === 'number' ? `: ${address}:${port}` : ''
}

/** Axios' errors hold the request, its sockets and buffers: too much to keep, and nothing for a log. */
function withoutRequest(error: unknown): unknown {
  if (!isAxiosError(error)) return error
  if (error.cause instanceof Error && !isAxiosError(error.cause)) return error.cause
  return new Error(error.code === undefined ? error.message : `${error.code}: ${error.message}`)
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
