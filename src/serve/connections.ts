import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Context, HonoRequest, MiddlewareHandler } from 'hono'
import { accepts } from 'hono/accepts'
import { bounds } from '../market/bounds.js'

/** Limits on how long a connection may take to send a request, and how long it may stay idle. */
const timeouts = {
  headersTimeout: 10_000,
  requestTimeout: 15_000,
  keepAliveTimeout: 5_000,
  connectionsCheckingInterval: 2_000,
} as const
/** A connection without traffic for this long is closed, even in the middle of a response. */
const stalledMs = 30_000
/** Largest amount of rendered responses that wait for slow readers, over all connections. */
const maxUnsentBytes = 32_000_000
/** Requests ahead of a response that count as an attack. The connection is closed without the response. */
const maxAhead = 16
/** Largest number of different responses that are being rendered at once. */
const maxRenderings = 200

type Listener = (request: IncomingMessage, response: ServerResponse) => void

/** Paths that probes ask. They wait for each other only. */
const probed = new Set(['/healthz', '/readyz'])

/**
 * Creates a server that limits its connections: their number, how long one may be idle, and how much waits for it. Beyond
 * the number, the connection that has been silent for longest is closed, or one that does not read. So a probe finds a
 * place, because it asks at once.
 *
 * @param onRefused called for each connection that is closed for another
 */
export function createBoundedServer(listener: Listener, onRefused: () => void): Server {
  const inHand = new Map<Socket, Set<ServerResponse>>()
  /** Connections without a request in hand. The one that has been silent for longest is the first. */
  const silent = new Set<Socket>()
  const server = createServer(timeouts, oneRequestAtATime(oneRequestATurn(listener), inHand, silent))
  server.on('connection', (socket) => {
    silent.add(socket)
    socket.once('close', () => silent.delete(socket))
    if (silent.size + inHand.size <= bounds.connections) return
    const [longest = socket] = silent
    // Where all others have a request in hand, the first that does not read its response goes.
    const unread = longest === socket && [...inHand.keys()].find(({ writableLength }) => writableLength > 0)
    const closed = unread || longest
    silent.delete(closed)
    closed.destroy()
    onRefused()
  })
  server.setTimeout(stalledMs)
  return server
}

/**
 * Passes on one request of a connection at a time. One more may wait, because a client may read all of a response
 * before this process has ended it. If a client sends more requests, the connection is closed after the current
 * response. Otherwise thousands of responses could wait in memory for their reader.
 */
function oneRequestAtATime(
  listener: Listener,
  inHand: Map<Socket, Set<ServerResponse>>,
  silent: Set<Socket>,
): Listener {
  /** Number of requests sent ahead, for each connection that is about to be closed. */
  const ahead = new WeakMap<Socket, number>()
  /** Connections with a request that waits for the response before it. */
  const waiting = new WeakSet<Socket>()
  return take

  function take(request: IncomingMessage, response: ServerResponse): void {
    const { socket } = request
    const before = ahead.get(socket)
    if (before !== undefined) {
      ahead.set(socket, before + 1)
      if (before === maxAhead) socket.destroy()
      return
    }
    const responses = inHand.get(socket) ?? new Set()
    const [earlier] = responses
    // A client may have read the end of a response before this process learns that it was sent.
    if (earlier !== undefined && responses.size === 1 && !waiting.has(socket)) {
      waiting.add(socket)
      earlier.once('close', () => {
        waiting.delete(socket)
        if (!ahead.has(socket) && !socket.destroyed) take(request, response)
      })
      return
    }
    if (earlier !== undefined) {
      ahead.set(socket, 1)
      socket.pause()
      const last = [...responses].at(-1)
      if (last?.headersSent === false) last.shouldKeepAlive = false
      last?.once('finish', () => socket.destroySoon())
      return
    }
    inHand.set(socket, responses.add(response))
    silent.delete(socket)
    response.once('close', () => {
      responses.delete(response)
      if (responses.size > 0) return
      inHand.delete(socket)
      if (!socket.destroyed) silent.add(socket)
    })
    let unsentBytes = 0
    for (const { writableLength } of inHand.keys()) unsentBytes += writableLength
    if (unsentBytes <= maxUnsentBytes) return listener(request, response)
    refuse(response, 503, 'too many responses wait for their readers; try again in a few seconds')
  }
}

/**
 * Passes on one probe and one other request in a turn of the event loop, so that the recording has its turns however many
 * ask at once, and whatever they ask. A turn accepts one connection, so long turns would keep new ones waiting. Requests
 * with more parameters than any path takes are refused unread.
 */
function oneRequestATurn(listener: Listener): Listener {
  const probes: Parameters<Listener>[] = []
  const others: Parameters<Listener>[] = []
  let isServing = false
  return (request, response) => {
    const { url = '' } = request
    if (url.split('&', bounds.parameters + 1).length > bounds.parameters)
      return refuse(response, 400, `no path takes more than ${bounds.parameters} parameters`)
    const waiting = probed.has(url) ? probes : others
    waiting.push([request, response])
    if (!isServing) setImmediate(serve)
    isServing = true
  }

  function serve(): void {
    const served = [...probes.splice(0, 1), ...others.splice(0, 1)]
    isServing = probes.length + others.length > 0
    if (isServing) setImmediate(serve)
    for (const each of served) if (!each[1].destroyed) listener(...each)
  }
}

function refuse(response: ServerResponse, status: 400 | 503, error: string): void {
  const retry = status === 503 && { 'Retry-After': '5' }
  response.writeHead(status, { 'Content-Type': 'application/json', Connection: 'close', ...retry })
  response.end(JSON.stringify({ error }))
}

interface Rendered {
  readonly status: number
  readonly headers: Headers
  readonly body: ArrayBuffer
}

/**
 * Renders a response once for all simultaneous requests with the same key. Requests without one, such as those whose
 * response never ends, are not held.
 */
export function renderOnce(keyOf: (request: HonoRequest) => string | null): MiddlewareHandler {
  const underWay = new Map<string, Promise<Rendered>>()
  return async (context, next) => {
    const what = keyOf(context.req)
    if (what === null) return next()
    const key = `${encodingOf(context)} ${what}`
    let rendering = underWay.get(key)
    if (rendering === undefined) {
      if (underWay.size >= maxRenderings) {
        return context.json({ error: 'too many requests at once; try again in a few seconds' }, 503, {
          'Retry-After': '5',
        })
      }
      rendering = render().finally(() => underWay.delete(key))
      underWay.set(key, rendering)
    }
    const { status, headers, body } = await rendering
    context.res = new Response(body, { status, headers })
    return undefined

    async function render(): Promise<Rendered> {
      await next()
      const { status, headers } = context.res
      return { status, headers, body: await context.res.arrayBuffer() }
    }
  }
}

/** Returns the encoding of a response. All spellings of a header that lead to it share one rendering. */
function encodingOf(context: Context): string {
  return accepts(context, {
    header: 'Accept-Encoding',
    supports: ['gzip'],
    default: 'identity',
    // As the middleware `compress` chooses. `*` stands for encodings without a line of their own.
    match(accepted, { supports: [gzip = ''], default: identity }) {
      const named =
        accepted.find(({ type }) => type.toLowerCase() === gzip) ?? accepted.find(({ type }) => type === '*')
      return (named?.q ?? 0) > 0 ? gzip : identity
    },
  })
}
