import axios, { type AxiosAdapter, AxiosError, AxiosHeaders, type InternalAxiosRequestConfig } from 'axios'
import type { IncomingHttpHeaders } from 'node:http'
import { promisify } from 'node:util'
import zlib from 'node:zlib'
import type { Dispatcher } from 'undici'

declare module 'axios' {
  interface AxiosRequestConfig {
    /** Functions that are called as the request proceeds. */
    moments?: RequestMoments
  }
}

export interface RequestMoments {
  /** Asked when the request could leave, over an open connection. If it returns false, the request fails instead. */
  readonly mayLeave?: () => boolean
  /** Called when the request leaves, over an open connection. */
  readonly onSent: () => void
  /** Called when the head of the response is here. */
  readonly onResponse: () => void
  /** Called when the last byte of the response is here. The body may still have to be decompressed. */
  readonly onReceived?: () => void
}

interface HttpResponse {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly body: Buffer
}

type Decode = (body: Buffer, options: { readonly maxOutputLength: number }) => Promise<Buffer>
const gunzip = promisify<Buffer, zlib.ZlibOptions, Buffer>(zlib.gunzip)
const decoders = new Map<string, Decode>([
  ['br', promisify<Buffer, zlib.BrotliOptions, Buffer>(zlib.brotliDecompress)],
  ['gzip', gunzip],
  ['x-gzip', gunzip],
  ['deflate', promisify<Buffer, zlib.ZlibOptions, Buffer>(zlib.inflate)],
])
export const acceptEncoding = 'br, gzip, deflate'

/** Error codes of a connection that was ended by the other side, or by something in between. */
const resetCodes = new Set(['ECONNRESET', 'EPIPE', 'UND_ERR_SOCKET'])

interface Connections {
  /** Headers of each request. Through axios they would be copied five times. */
  readonly headers: Readonly<Record<string, string>>
  /** The dispatcher that new requests go to. */
  readonly current: () => Dispatcher
  /** Called when a connection of a dispatcher was ended during a request. */
  readonly broke: (dispatcher: Dispatcher) => void
}

/**
 * Carries the GET requests of axios over undici. The adapter that comes with axios puts streams between the socket and
 * the body. Small responses then take a multiple of the time. That adapter also opens a connection for each request
 * through a proxy.
 */
export function adapterOver({ headers: sent, current, broke }: Connections): AxiosAdapter {
  return async (config) => {
    const dispatcher = current()
    try {
      const { status, headers, body } = await receive(dispatcher, sent, config)
      const data = await decoded(body, headerParts(headers['content-encoding']), maxBytesOf(config))
      return { data, status, statusText: '', headers: new AxiosHeaders(headers as AxiosHeaders), config }
    } catch (error) {
      if (resetCodes.has((error as NodeJS.ErrnoException).code ?? '')) broke(dispatcher)
      throw axios.isCancel(error) ? error : AxiosError.from(error, undefined, config)
    }
  }
}

/** Error code of Node's decoders for a body that is larger than allowed. */
export const tooLargeCode = 'ERR_BUFFER_TOO_LARGE'

export function tooLarge(config: InternalAxiosRequestConfig): Error {
  return Object.assign(new Error(`more than ${maxBytesOf(config)} bytes`), { code: tooLargeCode })
}

/** Nothing was sent, so that this says nothing about the network or the service. */
export class NotAllowed extends Error {
  constructor() {
    super('the right to send was lost before the request left')
  }
}

function maxBytesOf({ maxContentLength = Infinity }: InternalAxiosRequestConfig): number {
  return maxContentLength
}

/** Gathers the pieces of a body. A list of them would take a hundred bytes more for each, and a piece may be one byte. */
class GrowingBuffer {
  length = 0
  #buffer = Buffer.alloc(0)

  append(piece: Buffer): void {
    const whole = this.length + piece.length
    if (whole > this.#buffer.length) {
      const larger = Buffer.allocUnsafe(Math.max(whole, 2 * this.#buffer.length))
      this.#buffer.copy(larger, 0, 0, this.length)
      this.#buffer = larger
    }
    piece.copy(this.#buffer, this.length)
    this.length = whole
  }

  whole(): Buffer {
    return this.#buffer.subarray(0, this.length)
  }
}

function receive(
  dispatcher: Dispatcher,
  headers: IncomingHttpHeaders,
  config: InternalAxiosRequestConfig,
): Promise<HttpResponse> {
  return new Promise((resolve, reject) => {
    const { moments, signal } = config
    const { origin, pathname, search } = new URL(config.url ?? '')
    const body = new GrowingBuffer()
    let head: Pick<HttpResponse, 'status' | 'headers'> | undefined
    let cut: ((reason: Error) => void) | undefined
    const end = (reason: Error) => {
      signal?.removeEventListener?.('abort', onAbort)
      reject(reason)
      cut?.(reason)
    }
    const onAbort = () => end(new axios.CanceledError(undefined, config))
    signal?.addEventListener?.('abort', onAbort)
    dispatcher.dispatch(
      { origin, path: pathname + search, method: 'GET', headers },
      {
        onRequestStart(controller) {
          cut = (reason) => controller.abort(reason)
          if (signal?.aborted === true) cut(new axios.CanceledError(undefined, config))
          else if (moments?.mayLeave?.() === false) cut(new NotAllowed())
          else moments?.onSent()
        },
        onResponseStart(_, status, received) {
          if (status < 200) return
          moments?.onResponse()
          head = { status, headers: received }
          if (Number(received['content-length'] ?? 0) > maxBytesOf(config)) end(tooLarge(config))
        },
        onResponseData(_, chunk) {
          if (body.length + chunk.length > maxBytesOf(config)) end(tooLarge(config))
          else body.append(chunk)
        },
        onResponseEnd() {
          signal?.removeEventListener?.('abort', onAbort)
          moments?.onReceived?.()
          if (head !== undefined) resolve({ ...head, body: body.whole() })
        },
        onResponseError: (_, error) => end(error),
      },
    )
  })
}

/**
 * Returns the parts of a header that is a list. It may have come several times: HTTP joins these with a comma. A comma
 * within a date parts nothing.
 */
export function headerParts(header: unknown): readonly string[] {
  const lines = (Array.isArray(header) ? header : [header]).filter((line) => typeof line === 'string')
  const parts = lines.flatMap((line) => line.split(/(?<!\b(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*),/i))
  return parts.map((part) => part.trim()).filter((part) => part !== '')
}

/** Nobody encodes a body more often. Each round costs as much as the largest body may. */
const maxEncodings = 4

async function decoded(body: Buffer, encodings: readonly string[], maxOutputLength: number): Promise<Buffer> {
  const names = encodings.map((name) => name.toLowerCase()).filter((name) => name !== 'identity')
  const decodes = names.flatMap((name) => decoders.get(name) ?? []).toReversed()
  // A body in an unknown encoding is left as it is. It then fails as something that is not JSON.
  if (body.length === 0 || names.length > maxEncodings || decodes.length < names.length) return body
  let plain = body
  for (const decode of decodes) plain = await decode(plain, { maxOutputLength })
  return plain
}
