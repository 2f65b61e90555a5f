import { promisify } from 'node:util'
import zlib from 'node:zlib'
import { AxiosError, AxiosHeaders, type AxiosResponse, type InternalAxiosRequestConfig } from 'axios'
import type { Connections, RequestHandler } from './connections.js'
import { type HttpHeaders, readHeaders } from './headers.js'
import { asNodeSays } from './undiciErrors.js'

export interface HttpResponse {
  readonly status: number
  /** After decompression. */
  readonly body: Buffer
  readonly headers: HttpHeaders
}

export interface RequestMoments {
  /** The last byte of the request has left. */
  onSent(): void
  /** The head of the response is here. */
  onResponse(): void
}

export interface AdapterOptions {
  readonly connections: Connections
  /** Of a body, as it comes and after decompression. */
  readonly maxResponseBytes: number
  readonly moments: RequestMoments
  /** Is given what ends the request at once. */
  readonly onStarted: (cut: (reason: Error) => void) => void
}

/** What sends one request for axios. */
export type Carry = (
  config: InternalAxiosRequestConfig,
  options: AdapterOptions,
) => Promise<AxiosResponse<HttpResponse>>

/** A body beyond what is allowed. */
export class TooLargeError extends Error {}

/** Axios' response has none: they are in its data, where it does not convert them header by header. Of its own kind, it is not copied. */
const noAxiosHeaders = new AxiosHeaders()
const noHeaders: HttpHeaders = {}
const noBody = Buffer.alloc(0)

interface Decoder {
  readonly async: (body: Buffer, options: DecodeOptions) => Promise<Buffer>
  readonly sync: (body: Buffer, options: DecodeOptions) => Buffer
}
interface DecodeOptions {
  readonly maxOutputLength: number
}

const gzip: Decoder = { async: promisify<Buffer, DecodeOptions, Buffer>(zlib.gunzip), sync: zlib.gunzipSync }
const decoders: Readonly<Record<string, Decoder>> = {
  gzip,
  'x-gzip': gzip,
  deflate: { async: promisify<Buffer, DecodeOptions, Buffer>(zlib.inflate), sync: zlib.inflateSync },
  br: { async: promisify<Buffer, DecodeOptions, Buffer>(zlib.brotliDecompress), sync: zlib.brotliDecompressSync },
}
/** Brotli takes the least time to undo. */
export const acceptEncoding = 'br, gzip, deflate'

/**
 * Up to this size a body is decoded on the spot, which takes a quarter of the time of another thread; but no more than so much of
 * what comes out of it, so that it is over within a millisecond or two.
 */
const maxSpotBytes = 16_384
const maxSpotOutputBytes = 1_048_576

/**
 * Sends one GET over undici for axios, whose own adapter takes four times as long: no streams between the socket and the body,
 * no redirects, and the moments of the request told as they pass. Any status resolves. Rejects with the error of the
 * socket, the parser or the decoder, as Node's own HTTP has them, or a `TooLargeError`.
 */
export async function sendOverConnections(
  config: InternalAxiosRequestConfig,
  options: AdapterOptions,
): Promise<AxiosResponse<HttpResponse>> {
  const data = await exchange(config, options)
  return { data, status: data.status, statusText: '', headers: noAxiosHeaders, config, request: undefined }
}

function exchange(config: InternalAxiosRequestConfig, options: AdapterOptions): Promise<HttpResponse> {
  return new Promise((resolve, reject) => {
    const receiver = new Receiver(options, resolve, (error) =>
      reject(error instanceof TooLargeError ? error : asAxiosError(error, config)),
    )
    receiver.cut = options.connections.send(config.url ?? '/', receiver)
    options.onStarted(receiver.cut)
  })
}

/** Gathers one response. */
class Receiver implements RequestHandler {
  cut: (reason: Error) => void = () => undefined
  readonly #options: AdapterOptions
  readonly #resolve: (response: HttpResponse) => void
  readonly #reject: (error: Error) => void
  #status = 0
  #headers: HttpHeaders = noHeaders
  readonly #chunks: Buffer[] = []
  #bytes = 0

  constructor(options: AdapterOptions, resolve: (response: HttpResponse) => void, reject: (error: Error) => void) {
    this.#options = options
    this.#resolve = resolve
    this.#reject = reject
  }

  onSent(): void {
    this.#options.moments.onSent()
  }

  onHead(status: number, headers: readonly Buffer[]): void {
    this.#options.moments.onResponse()
    this.#status = status
    this.#headers = readHeaders(headers)
    if (Number(this.#headers['content-length'] ?? 0) > this.#options.maxResponseBytes) this.#tooLarge()
  }

  onData(chunk: Buffer): void {
    this.#bytes += chunk.length
    if (this.#bytes > this.#options.maxResponseBytes) this.#tooLarge()
    else this.#chunks.push(chunk)
  }

  onEnd(): void {
    const [status, headers, chunks] = [this.#status, this.#headers, this.#chunks]
    const body = chunks.length === 1 ? (chunks[0] ?? noBody) : Buffer.concat(chunks, this.#bytes)
    const encodings = headers['content-encoding']
    if (encodings === undefined || encodings === '' || body.length === 0)
      return this.#resolve({ status, body, headers })
    decoded(body, encodings, this.#options.maxResponseBytes).then(
      (decodedBody) => this.#resolve({ status, body: decodedBody, headers }),
      (error: Error) => this.#reject(error),
    )
  }

  onError(error: Error): void {
    this.#reject(error instanceof TooLargeError ? error : asNodeSays(error, this.#status !== 0))
  }

  #tooLarge(): void {
    this.cut(new TooLargeError(`more than ${this.#options.maxResponseBytes} bytes`))
  }
}

async function decoded(body: Buffer, encodings: string, maxOutputLength: number): Promise<Buffer> {
  let result = body
  // Several are undone from the last to the first. One that is not known is left: the body is then no JSON.
  for (const encoding of encodings.toLowerCase().split(',').slice(-maxEncodings).toReversed()) {
    const decoder = decoders[encoding.trim()]
    if (decoder === undefined) return result
    try {
      result = onTheSpot(decoder, result, maxOutputLength) ?? (await decoder.async(result, { maxOutputLength }))
    } catch (error) {
      if (isTooLarge(error)) throw new TooLargeError(`more than ${maxOutputLength} bytes`)
      throw error
    }
  }
  return result
}

/** Null for what is better left to another thread. */
function onTheSpot(decoder: Decoder, body: Buffer, maxOutputLength: number): Buffer | null {
  if (body.length > maxSpotBytes) return null
  try {
    return decoder.sync(body, { maxOutputLength: Math.min(maxOutputLength, maxSpotOutputBytes) })
  } catch (error) {
    if (isTooLarge(error) && maxOutputLength > maxSpotOutputBytes) return null
    throw error
  }
}

function isTooLarge(error: unknown): boolean {
  return (error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE'
}

/** More than one makes no sense, and each costs. */
const maxEncodings = 2

function asAxiosError(error: Error, config: InternalAxiosRequestConfig): AxiosError {
  const { code } = error as NodeJS.ErrnoException
  const failure = new AxiosError(error.message, code, config)
  failure.cause = error
  return failure
}
