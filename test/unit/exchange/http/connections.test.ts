import { once } from 'node:events'
import net, { type AddressInfo, type Socket } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { ExchangeError } from '../../../../src/exchange/errors.js'
import type { RequestMoments } from '../../../../src/exchange/http/adapter.js'
import { readHeaders } from '../../../../src/exchange/http/headers.js'
import { createTransport, type Transport, type TransportOptions } from '../../../../src/exchange/http/transport.js'

const ok = 'HTTP/1.1 200 OK\r\n'
const response = (body: string) => `${ok}content-length: ${body.length}\r\n\r\n${body}`
const chunked = `${ok}transfer-encoding: chunked\r\n\r\n`

interface Received {
  readonly socket: Socket
  /** Of its connection, in the order of their coming, from 0. */
  readonly connection: number
  readonly head: string
}

let server: net.Server
let transport: Transport
/** What has come, in its order. */
let received: Received[]
let connections: Socket[]

/** A server that reads requests; what it sends for one is up to the test. */
async function start(
  onRequest: (request: Received) => void,
  more: Partial<TransportOptions> & { login?: string; protocol?: string } = {},
): Promise<void> {
  received = []
  connections = []
  server = net.createServer((socket) => {
    const connection = connections.push(socket) - 1
    socket.on('error', () => undefined)
    socket.on('data', (data) => {
      const request = { socket, connection, head: data.toString('latin1') }
      received.push(request)
      onRequest(request)
    })
  })
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  const { protocol = 'http', login = '', ...options } = more
  transport = createTransport({
    baseUrl: `${protocol}://${login}127.0.0.1:${(server.address() as AddressInfo).port}`,
    timeoutMs: 10_000,
    maxResponseBytes: 1_000_000,
    maxConnections: 8,
    ...options,
  })
}

afterEach(async () => {
  transport.close()
  for (const socket of connections) socket.destroy()
  await new Promise((resolve) => void server.close(resolve))
})

const silent: RequestMoments = { onSent: () => undefined, onResponse: () => undefined }

async function get(name: string, signal = new AbortController().signal, moments = silent): Promise<string> {
  const { body } = await transport.get('fills', { symbol: name }, signal, moments)
  return body.toString()
}

async function failure(request: Promise<unknown>): Promise<ExchangeError> {
  const error: unknown = await request.catch((reason: unknown) => reason)
  if (!(error instanceof ExchangeError)) throw new Error(`expected an ExchangeError, got ${String(error)}`)
  return error
}

async function until(isSo: () => boolean): Promise<void> {
  while (!isSo()) await new Promise((resolve) => setTimeout(resolve, 2))
}

const nameOf = ({ head }: Received) => /symbol=(\w+)/.exec(head)?.[1] ?? ''

describe('connections', () => {
  it('are taken by requests in the order of their last use, the latest first', async () => {
    await start(() => undefined)
    const first = ['a', 'b', 'c'].map((name) => get(name))
    await until(() => received.length === 3)
    const held = received.toSorted((one, other) => nameOf(one).localeCompare(nameOf(other)))
    for (const i of [1, 0, 2]) {
      held[i]?.socket.write(response('held'))
      await first[i]
    }
    const next = ['d', 'e', 'f'].map((name) => get(name))
    await until(() => received.length === 6)
    const after = new Map(received.slice(3).map((request) => [nameOf(request), request]))
    expect(['d', 'e', 'f'].map((name) => after.get(name)?.connection)).toEqual(
      [2, 0, 1].map((i) => held[i]?.connection),
    )
    for (const { socket } of after.values()) socket.write(response('after'))
    expect(await Promise.all(next)).toEqual(['after', 'after', 'after'])
  })

  it('are no more than allowed: requests beyond wait, and one that is cut meanwhile is never sent', async () => {
    await start(() => undefined, { maxConnections: 2 })
    const abort = new AbortController()
    const [a, b, c, d] = [get('a'), get('b'), failure(get('c', abort.signal)), get('d')]
    await until(() => received.length === 2)
    abort.abort()
    expect((await c).kind).toBe('aborted')
    for (const { socket } of received.slice(0, 2)) socket.write(response('[]'))
    await Promise.all([a, b])
    await until(() => received.length === 3)
    received[2]?.socket.write(response('[]'))
    await d
    expect(received.map(nameOf).toSorted()).toEqual(['a', 'b', 'd'])
    expect(connections).toHaveLength(2)
  })

  it('that are being opened are closed with their request', async () => {
    // A server that never says its part of the handshake.
    await start(() => undefined, { protocol: 'https' })
    const abort = new AbortController()
    const request = failure(get('a', abort.signal))
    await until(() => connections.length === 1)
    const closed = once(connections[0] as Socket, 'close')
    abort.abort()
    expect((await request).kind).toBe('aborted')
    await closed
  })

  it('that are closed while idle fail no request, and nor does one that each response closes', async () => {
    await start(({ socket, connection }) => {
      const header = connection % 2 === 0 ? '' : 'connection: close\r\n'
      socket.end(`${ok}${header}content-length: 2\r\n\r\n[]`)
    })
    for (let i = 0; i < 20; i++) {
      expect(await get('a')).toBe('[]')
      await once(connections.at(-1) as Socket, 'close')
    }
    expect(connections).toHaveLength(20)
  })

  it('that something in between has forgotten cost one request its response: the next takes none that was idle then', async () => {
    let isForgotten = false
    const known = new Set<number>()
    await start(({ socket, connection }) => {
      if (isForgotten && known.has(connection)) return void socket.resetAndDestroy()
      known.add(connection)
      if (isForgotten || received.length >= 6) for (const { socket: one } of received) one.write(response('[]'))
    })
    expect(await Promise.all(['a', 'b', 'c', 'd', 'e', 'f'].map((name) => get(name)))).toHaveLength(6)
    isForgotten = true
    received = []
    const error = await failure(get('g'))
    expect(error).toMatchObject({ kind: 'network', retryable: true })
    expect(error.message).toContain('connection reset')
    received = []
    expect(await get('h')).toBe('[]')
    expect(received.map(({ connection }) => connection)).toEqual([6])
  })

  it('that say something while idle are closed: it is no response to the next request', async () => {
    await start(({ socket, connection }) => void socket.write(response(`"${connection}"`)))
    expect(await get('a')).toBe('"0"')
    const closed = once(connections[0] as Socket, 'close')
    connections[0]?.write(response('"planted"'))
    await closed
    expect(await get('b')).toBe('"1"')
  })

  it('go on after a request that was cut, a body too large, and a broken response', async () => {
    let text = ''
    await start(({ socket }) => void socket.write(text), { maxConnections: 1, maxResponseBytes: 100 })
    for (const [sent, kind] of [
      [response('x'.repeat(101)), 'too-large'],
      [`${chunked}65\r\n${'x'.repeat(101)}\r\n`, 'too-large'],
      ['nonsense', 'malformed'],
    ]) {
      text = sent ?? ''
      expect((await failure(get('a'))).kind).toBe(kind)
    }
    const abort = new AbortController()
    text = `${ok}content-length: 50\r\n\r\nhalf`
    const cut = failure(get('a', abort.signal, { ...silent, onResponse: () => abort.abort() }))
    expect((await cut).kind).toBe('aborted')
    text = response('[]')
    expect(await get('a')).toBe('[]')
  })

  it('are told who asks, and for whom', async () => {
    await start(({ socket }) => void socket.write(response('[]')), { login: 'us%20er:p%40ss@' })
    await get('a')
    const { port } = server.address() as AddressInfo
    const [line, ...headers] = (received[0]?.head ?? '').trimEnd().split('\r\n')
    expect(line).toBe('GET /api/v3/market/fills?symbol=a HTTP/1.1')
    expect(headers.map((header) => header.replace(/^[^:]+/, (name) => name.toLowerCase())).toSorted()).toEqual([
      'accept-encoding: br, gzip, deflate',
      'accept: application/json',
      `authorization: Basic ${Buffer.from('us er:p@ss').toString('base64')}`,
      'connection: keep-alive',
      `host: 127.0.0.1:${port}`,
      'user-agent: market-recorder',
    ])
  })
})

describe('a response', () => {
  it('comes after informational ones, which are none', async () => {
    await start(({ socket }) => {
      socket.write('HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n')
      setImmediate(() => socket.write(response('[]')))
    })
    const order: string[] = []
    const moments = { onSent: () => void order.push('sent'), onResponse: () => void order.push('response') }
    expect(await get('a', undefined, moments)).toBe('[]')
    expect(order).toEqual(['sent', 'response'])
  })

  it('may come in pieces', async () => {
    await start(({ socket }) => {
      void (async () => {
        for (const piece of [
          'HT',
          'TP/1.1 200 OK\r\ntransfer-enc',
          'oding: chunked\r\n\r\n2',
          '\r\n[',
          '1\r\n1\r\n]\r\n0\r\n\r\n',
        ]) {
          socket.write(piece)
          await new Promise((resolve) => setTimeout(resolve, 5))
        }
      })()
    })
    expect(await get('a')).toBe('[1]')
  })

  it.each([
    ['nothing', '', 'network', 'connection reset before the end of the response'],
    ['half a head', `${ok}x-y: `, 'network', 'connection reset before the end of the response'],
    ['half a body', `${ok}content-length: 9\r\n\r\n[]`, 'network', 'connection reset before'],
    [
      'half a body of its last response',
      `${ok}connection: close\r\ncontent-length: 9\r\n\r\n[]`,
      'network',
      'connection reset before',
    ],
    ['half a chunk', `${chunked}5\r\n[]`, 'network', 'connection reset before'],
    [
      'chunks without the last',
      `${ok}connection: close\r\ntransfer-encoding: chunked\r\n\r\n2\r\n[]\r\n`,
      'network',
      'connection reset before',
    ],
    [
      'another protocol',
      'HTTP/1.1 101 Go\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n',
      'network',
      'connection reset before',
    ],
    ['no HTTP', 'SSH-2.0-x\r\n', 'malformed', 'HPE_INVALID_CONSTANT: Parse Error: Expected HTTP/'],
    [
      'a broken chunk',
      `${chunked}zz\r\n[]`,
      'malformed',
      'HPE_INVALID_CHUNK_SIZE: Parse Error: Invalid character in chunk size',
    ],
    [
      'a broken header',
      `${ok}a b: c\r\n\r\n`,
      'malformed',
      'HPE_INVALID_HEADER_TOKEN: Parse Error: Invalid header token',
    ],
    [
      'two lengths',
      `${ok}content-length: 2\r\ncontent-length: 9\r\n\r\n[]`,
      'malformed',
      'HPE_INVALID_HEADER: Parse Error: Invalid headers',
    ],
    [
      'too many headers',
      `${ok}${'x: 1234567890\r\n'.repeat(2_000)}\r\n`,
      'malformed',
      'HPE_HEADER_OVERFLOW: Parse Error: Header overflow',
    ],
    [
      'leave to go on that nobody asked for',
      `HTTP/1.1 100 Continue\r\n\r\n${response('[]')}`,
      'malformed',
      'HPE_INVALID_STATUS: Parse Error',
    ],
    [
      'a status without a meaning',
      `HTTP/1.1 000 No\r\ncontent-length: 2\r\n\r\n[]`,
      'malformed',
      'HPE_INVALID_STATUS: Parse Error',
    ],
  ])('of %s is a failure that says so', async (_name, text, kind, message) => {
    await start(({ socket }) => void socket.end(text))
    const error = await failure(get('a'))
    expect(error).toMatchObject({ kind, retryable: true })
    expect(error.message).toContain(`: ${message}`)
    expect(error.cause).toBeInstanceOf(Error)
  })

  it.each([
    ['with a length', `${ok}content-length: 9\r\n\r\n[]`],
    ['in chunks', `${chunked}2\r\n[]\r\n`],
    ['up to the end of the connection', `${ok}\r\n[]`],
  ])('%s whose connection is reset is not whole', async (_name, text) => {
    await start(({ socket }) => {
      socket.write(text)
      setTimeout(() => socket.resetAndDestroy(), 20)
    })
    const error = await failure(get('a'))
    expect(error.kind).toBe('network')
    expect(error.message).toContain('connection reset before the end of the response')
  })
})

describe('the headers that are read', () => {
  const read = (...raw: string[]) => readHeaders(raw.map((text) => Buffer.from(text, 'latin1')))

  it('are found whatever their case, and the others are not', () => {
    expect(read('Content-Length', '12', 'Set-Cookie', 'x', 'LOCATION', '/é', '__proto__', 'x')).toEqual({
      'content-length': '12',
      location: '/é',
    })
  })

  it('that may be given once count as first given; others are lists', () => {
    const raw = ['retry-after', '5', 'Retry-After', '6', 'content-encoding', 'br', 'Content-Encoding', 'gzip']
    expect(read(...raw)).toEqual({ 'retry-after': '5', 'content-encoding': 'br, gzip' })
  })
})
