import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { promisify } from 'node:util'
import { brotliCompress, constants } from 'node:zlib'
import type { CompleteFault } from './faults.js'

const compress = promisify(brotliCompress)
/** Smallest body that is compressed, in bytes. Compressing a smaller body would not save packets. */
const minBytes = 1_024
/** The lowest quality is used, because it is the fastest. The client decodes the same body at any quality. */
const params = { [constants.BROTLI_PARAM_QUALITY]: 1 }

/** Compresses the body with Brotli, if the client accepts it and the body has at least `minBytes`. */
export async function compressed(response: Outgoing, acceptEncoding: string | undefined): Promise<Outgoing> {
  const accepts = (acceptEncoding ?? '').split(',').some((name) => name.trim().split(';')[0] === 'br')
  if (!accepts) return response
  const whole = Buffer.concat(response.body.map((part) => Buffer.from(part)))
  if (whole.length < minBytes) return response
  return {
    ...response,
    headers: { ...response.headers, 'content-encoding': 'br' },
    body: [await compress(whole, { params })],
  }
}

/** A response that is ready to be sent. The body may come in parts, so that cached ones need no copy. */
export interface Outgoing {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: readonly (string | Buffer)[]
}

const htmlPage =
  '<!DOCTYPE html><html><head><title>502 Bad Gateway</title></head><body><h1>Bad Gateway</h1></body></html>'

const browserCheckPage =
  '<!DOCTYPE html><html><head><title>Just a moment...</title></head><body>Checking your browser before accessing the site.</body></html>'

/**
 * Returns the response as a fault changes it, or null if the fault changes no content, only the connection.
 *
 * @param errorStatus HTTP status of failures in the service's own terms
 */
export function spoiled(
  fault: CompleteFault,
  outgoing: Outgoing,
  requestTime: number,
  errorStatus: number,
): Outgoing | null {
  const json = { ...outgoing.headers, 'content-type': 'application/json' }
  switch (fault.kind) {
    case 'http':
      return { status: fault.status, headers: outgoing.headers, body: [fault.body ?? `HTTP ${fault.status}`] }
    case 'html':
      return { status: 200, headers: { ...outgoing.headers, 'content-type': 'text/html' }, body: [htmlPage] }
    case 'browserCheck':
      return { status: 403, headers: { 'content-type': 'text/html; charset=UTF-8' }, body: [browserCheckPage] }
    case 'emptyBody':
      return { ...outgoing, body: [] }
    case 'oldEnvelope':
      return {
        status: 200,
        headers: json,
        body: ['{"status":"error","err_code":"-1","err_msg":"system error","data":null}'],
      }
    case 'numericCode': {
      const body = { code: fault.code, msg: 'service upgrade', requestTime, data: null }
      return { status: 200, headers: json, body: [JSON.stringify(body)] }
    }
    case 'errorCode': {
      const body = { code: fault.code, msg: fault.msg, requestTime, data: null }
      return { status: errorStatus, headers: json, body: [JSON.stringify(body)] }
    }
    case 'hugeBody': {
      const filler = Buffer.alloc(65_536, ' ')
      return {
        ...outgoing,
        body: [...Array.from({ length: Math.ceil(fault.bytes / filler.length) }, () => filler), ...outgoing.body],
      }
    }
    default:
      return null
  }
}

export type Delivered = 'complete' | 'torn' | 'none'
/** `closed after` follows `complete` if the client then closes the connection without another request on it. */
export type Outcome = Delivered | 'closed after'

/** Sends a response as it is. Calls `done` when the body was passed to the socket, or the connection was lost. */
export function deliver(response: ServerResponse, outgoing: Outgoing, done: (outcome: Outcome) => void): void {
  watch(response, done)
  writeHead(response, outgoing)
  response.cork()
  for (const part of outgoing.body) response.write(part)
  response.end()
  response.uncork()
}

/** Sends half of the body and cuts the connection. */
export function deliverTorn(
  response: ServerResponse,
  outgoing: Outgoing,
  cut: 'length' | 'chunked',
  done: (outcome: Outcome) => void,
): void {
  const whole = Buffer.concat(outgoing.body.map((part) => Buffer.from(part)))
  if (cut === 'length') writeHead(response, outgoing)
  else response.writeHead(outgoing.status, { ...outgoing.headers })
  response.write(whole.subarray(0, Math.floor(whole.length / 2)), () => {
    response.socket?.destroy()
    done('torn')
  })
}

/** Sends the body in pieces over `overMs` milliseconds. */
export function deliverSlowly(
  response: ServerResponse,
  outgoing: Outgoing,
  overMs: number,
  done: (outcome: Outcome) => void,
): void {
  watch(response, done)
  writeHead(response, outgoing)
  const whole = Buffer.concat(outgoing.body.map((part) => Buffer.from(part)))
  const pieces = 10
  const size = Math.ceil(whole.length / pieces)
  let piece = 0
  const timer = setInterval(() => {
    response.write(whole.subarray(piece * size, ++piece * size))
    if (piece < pieces) return
    clearInterval(timer)
    response.end()
  }, overMs / pieces)
  response.once('close', () => clearInterval(timer))
}

function writeHead(response: ServerResponse, outgoing: Outgoing): void {
  const length = outgoing.body.reduce((sum, part) => sum + Buffer.byteLength(part), 0)
  response.writeHead(outgoing.status, { ...outgoing.headers, 'content-length': String(length) })
}

/** Callback for the last response of each connection. A further request proves that the client has that response. */
const unconfirmed = new WeakMap<Socket, (outcome: Outcome) => void>()

/** Must be called when a request arrives. The client may reset the connection before that request has a response. */
export function confirmPrevious(socket: Socket): void {
  if (unconfirmed.has(socket)) unconfirmed.set(socket, () => undefined)
}

function watch(response: ServerResponse, done: (outcome: Outcome) => void): void {
  const { socket } = response
  if (socket !== null) {
    if (!unconfirmed.has(socket)) {
      // A client that closes a connection with unread data resets it. This is known only when the connection closes.
      socket.once('close', (hadError) => {
        unconfirmed.get(socket)?.(hadError ? 'torn' : 'closed after')
      })
    }
    unconfirmed.set(socket, () => undefined)
  }
  let isWhole = false
  response.once('finish', () => {
    // A response also finishes if its connection has just been cut. The client does not get it then.
    isWhole = socket?.destroyed === false
    if (!isWhole) return
    done('complete')
    if (socket !== null) unconfirmed.set(socket, done)
  })
  response.once('close', () => {
    if (!isWhole) done('torn')
  })
}

/** Resolves after a look at all connections, which notices clients that gave up while this process was busy. */
export async function connectionsLookedAt(): Promise<void> {
  // The first turn finishes the previous look at the connections. Only the second looks again.
  await nextTurn()
  await nextTurn()
}
