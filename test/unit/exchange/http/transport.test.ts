import { pbkdf2 } from 'node:crypto'
import dns from 'node:dns'
import { once } from 'node:events'
import net, { type AddressInfo, type Socket } from 'node:net'
import { promisify } from 'node:util'
import { gzipSync } from 'node:zlib'
import { afterEach, describe, expect, it, test, vi } from 'vitest'
import { ExchangeError } from '../../../../src/exchange/errors.js'
import type { RequestMoments } from '../../../../src/exchange/http/adapter.js'
import { createTransport, type Transport, type TransportOptions } from '../../../../src/exchange/http/transport.js'
import { systemClock } from '../../../../src/runtime/clock.js'

const hashForLong = promisify(pbkdf2)

const ok = 'HTTP/1.1 200 OK\r\n'
const response = (body: string) => `${ok}content-length: ${body.length}\r\n\r\n${body}`
/** One more byte than a response of fills may have. */
const tooMany = 1_048_577
const chunked = `${ok}transfer-encoding: chunked\r\n\r\n`

interface Received {
  readonly socket: Socket
  /** Number of its connection, in the order of arrival, from 0. */
  readonly connection: number
  readonly head: string
}

let server: net.Server
let transport: Transport
/** Requests in the order of arrival. */
let received: Received[]
let connections: Socket[]

/** Starts a server that reads requests. The test decides what it sends for each. */
async function start(
  onRequest: (request: Received) => void,
  more: Partial<TransportOptions> & { login?: string; protocol?: string; host?: string } = {},
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
  const { protocol = 'http', login = '', host = '127.0.0.1', ...options } = more
  transport = createTransport({
    clock: systemClock,
    baseUrl: `${protocol}://${login}${host}:${(server.address() as AddressInfo).port}`,
    timeoutMs: 10_000,
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

async function get(name: string, moments = silent): Promise<string> {
  const { body } = await transport.get('fills', { symbol: name }, moments)
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

test('a response that has come is read, although the process stood still until its deadline was over', async () => {
  const timeoutMs = 1_000
  let standsStill = false
  await start(
    ({ socket }) => {
      socket.write(response('[]'))
      if (!standsStill) return
      const until = performance.now() + timeoutMs + 50
      while (performance.now() < until);
    },
    { timeoutMs },
  )
  expect(await get('first')).toBe('[]')
  standsStill = true
  expect(await get('second')).toBe('[]')
})

test('a response that has come in time is kept, although its decompression waits for a busy machine', async () => {
  const body = gzipSync('[]')
  const head = `${ok}content-encoding: gzip\r\ncontent-length: ${body.length}\r\n\r\n`
  const timeoutMs = 400
  let work: Promise<unknown> = Promise.resolve()
  await start(
    ({ socket }) => {
      // All threads that decompress are busy when the response comes.
      work = Promise.all(Array.from({ length: 12 }, () => hashForLong('secret', 'salt', 300_000, 64, 'sha512')))
      socket.write(Buffer.concat([Buffer.from(head), body]))
    },
    { timeoutMs },
  )
  const startedMs = performance.now()
  expect(await get('compressed')).toBe('[]')
  expect(performance.now() - startedMs).toBeGreaterThan(timeoutMs)
  await work
})

describe('connections', () => {
  it('are used again', async () => {
    await start(({ socket }) => void socket.write(response('[]')))
    for (let i = 0; i < 20; i++) expect(await get('a')).toBe('[]')
    // One may still be busy with the end of a response when the next request comes.
    expect(connections.length).toBeLessThanOrEqual(2)
  })

  it('are no more than allowed: requests beyond wait, and closing aborts them unsent', async () => {
    await start(() => undefined, { maxConnections: 2 })
    const first = get('a')
    const others = ['b', 'c', 'd'].map((name) => failure(get(name)))
    await until(() => received.length === 2)
    received.find((request) => nameOf(request) === 'a')?.socket.write(response('[]'))
    await first
    await until(() => received.length === 3)
    transport.close()
    for (const request of others) expect((await request).kind).toBe('aborted')
    expect(received.map(nameOf).toSorted()).toEqual(['a', 'b', 'c'])
    expect(connections).toHaveLength(2)
  })

  it('that are being opened are closed with the client', async () => {
    // A server that never says its part of the handshake.
    await start(() => undefined, { protocol: 'https' })
    const request = failure(get('a'))
    await until(() => connections.length === 1)
    const closed = once(connections[0] as Socket, 'close')
    transport.close()
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
    let elapse = () => {}
    const after = (_ms: number, action: () => void) => ((elapse = action), () => {})
    await start(({ socket }) => void socket.write(text), { maxConnections: 1, clock: { ...systemClock, after } })
    for (const [sent, kind] of [
      [response('x'.repeat(tooMany)), 'too-large'],
      [`${chunked}${tooMany.toString(16)}\r\n${'x'.repeat(tooMany)}\r\n`, 'too-large'],
      ['nonsense', 'malformed'],
    ]) {
      text = sent ?? ''
      expect((await failure(get('a'))).kind).toBe(kind)
    }
    text = `${ok}content-length: 50\r\n\r\nhalf`
    // The deadline passes, and then the time for bytes that have come.
    const cut = failure(get('a', { ...silent, onResponse: () => [1, 2].forEach(() => elapse()) }))
    expect((await cut).kind).toBe('timeout')
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
    expect(await get('a', moments)).toBe('[]')
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
      'malformed',
      'Response does not match the HTTP/1.1 protocol (Invalid EOF state)',
    ],
    [
      'another protocol',
      'HTTP/1.1 101 Go\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n',
      'network',
      'connection reset before',
    ],
    ['no HTTP', 'SSH-2.0-x\r\n', 'malformed', 'Response does not match the HTTP/1.1 protocol (Expected HTTP/'],
    [
      'a broken chunk',
      `${chunked}zz\r\n[]`,
      'malformed',
      'Response does not match the HTTP/1.1 protocol (Invalid character in chunk size)',
    ],
    [
      'a broken header',
      `${ok}a b: c\r\n\r\n`,
      'malformed',
      'Response does not match the HTTP/1.1 protocol (Invalid header token)',
    ],
    ['two lengths', `${ok}content-length: 2\r\ncontent-length: 9\r\n\r\n[]`, 'network', 'connection reset before'],
    ['too many headers', `${ok}${'x: 1234567890\r\n'.repeat(2_000)}\r\n`, 'malformed', 'Headers Overflow Error'],
    [
      'leave to go on that nobody asked for',
      `HTTP/1.1 100 Continue\r\n\r\n${response('[]')}`,
      'network',
      'connection reset before',
    ],
    [
      'a status without a meaning',
      `HTTP/1.1 000 No\r\ncontent-length: 2\r\n\r\n[]`,
      'malformed',
      'The expression evaluated to a falsy value',
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

test('the last addresses are used when the network drops connections and the resolver is silent', async () => {
  const addresses: dns.LookupAddress[] = [{ address: '127.0.0.1', family: 4 }]
  const resolve = vi.spyOn(dns.promises, 'lookup').mockImplementation(() => Promise.resolve(addresses as never))
  let aheadMs = 0
  const clock = { ...systemClock, monotonicMs: () => systemClock.monotonicMs() + aheadMs }
  let isDropping = false
  try {
    await start(({ socket }) => (isDropping ? socket.resetAndDestroy() : socket.write(response('[]'))), {
      host: 'service.test',
      clock,
    })
    expect(await get('first')).toBe('[]')
    isDropping = true
    expect((await failure(get('dropped'))).kind).toBe('network')
    isDropping = false
    resolve.mockRejectedValue(Object.assign(new Error('no response'), { code: 'EAI_AGAIN' }))
    aheadMs = 3_600_000
    expect(await get('later')).toBe('[]')
  } finally {
    resolve.mockRestore()
  }
})

test('a connection that has ended leaves no listener at a signal that others have, too', async () => {
  const listening = vi.spyOn(EventTarget.prototype, 'addEventListener')
  try {
    await start(({ socket }) => socket.end(`${ok}connection: close\r\ncontent-length: 2\r\n\r\n{}`))
    for (let request = 0; request < 30; request++) await get('a')
    expect(connections).toHaveLength(30)
    const signals = listening.mock.contexts
    expect(Math.max(...signals.map((one) => signals.filter((other) => other === one).length))).toBeLessThan(5)
  } finally {
    listening.mockRestore()
  }
})
