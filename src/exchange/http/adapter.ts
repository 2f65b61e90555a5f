import type http from 'node:http'
import { promisify } from 'node:util'
import zlib from 'node:zlib'
import { AxiosError, type AxiosResponse, type InternalAxiosRequestConfig } from 'axios'

export interface HttpResponse {
  readonly status: number
  /** After decompression. */
  readonly body: Buffer
  readonly headers: http.IncomingHttpHeaders
}

export interface RequestMoments {
  /** The last byte of the request has left. */
  onSent(): void
  /** The head of the response is here. */
  onResponse(): void
}

/** Where all requests go. */
export interface Server {
  readonly request: typeof http.request
  /** Everything but the path, which is the `url` of axios' request. */
  readonly options: http.RequestOptions
}

export interface AdapterOptions {
  readonly server: Server
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

/** Has no header: what the response says is in its data, where axios does not convert it header by header. */
const noHeaders = {}
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
 * Sends one GET over Node's own HTTP for axios, whose adapter takes three times as long: no streams between the socket
 * and the body, no redirects, and the moments of the request told as they pass. Any status resolves. Rejects with the
 * error of the socket, the parser or the decoder, or a `TooLargeError`.
 */
export async function sendOverNode(
  config: InternalAxiosRequestConfig,
  options: AdapterOptions,
): Promise<AxiosResponse<HttpResponse>> {
  const data = await exchange(config, options)
  return { data, status: data.status, statusText: '', headers: noHeaders, config, request: undefined }
}

function exchange(config: InternalAxiosRequestConfig, options: AdapterOptions): Promise<HttpResponse> {
  const { server, maxResponseBytes, moments } = options
  return new Promise((resolve, reject) => {
    const request = server.request({ ...server.options, path: config.url })
    options.onStarted((reason) => request.destroy(reason))
    request.once('finish', () => moments.onSent())
    request.on('error', (error) => reject(asAxiosError(error, config)))
    let hasResponse = false
    // Node tells nothing else of a response that switches protocols: its connection is closed.
    request.once('close', () => {
      if (!hasResponse) reject(new AxiosError('the connection closed without a response', 'ECONNRESET'))
    })
    request.once('response', (response) => {
      hasResponse = true
      moments.onResponse()
      const chunks: Buffer[] = []
      let bytes = 0
      const tooLarge = () => {
        const error = new TooLargeError(`more than ${maxResponseBytes} bytes`)
        reject(error)
        request.destroy(error)
      }
      if (Number(response.headers['content-length'] ?? 0) > maxResponseBytes) return tooLarge()
      response.on('data', (chunk: Buffer) => {
        bytes += chunk.length
        if (bytes > maxResponseBytes) tooLarge()
        else chunks.push(chunk)
      })
      response.on('error', (error) => reject(asAxiosError(error, config)))
      response.on('close', () => {
        // Node tells of a body that was cut off by an error in most cases, but not in all.
        if (!response.complete) reject(new AxiosError('the connection closed before the end of the body', 'ECONNRESET'))
      })
      response.on('end', () => {
        if (!response.complete) return
        const body = chunks.length === 1 ? (chunks[0] ?? noBody) : Buffer.concat(chunks, bytes)
        const { statusCode: status = 0, headers } = response
        const encodings = headers['content-encoding']
        if (encodings === undefined || encodings === '' || bytes === 0) return resolve({ status, body, headers })
        decoded(body, encodings, maxResponseBytes).then(
          (decodedBody) => resolve({ status, body: decodedBody, headers }),
          (error: Error) => reject(error instanceof TooLargeError ? error : asAxiosError(error, config)),
        )
      })
    })
    request.end()
  })
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
