import { once } from 'node:events'
import { type AddressInfo, connect, type Server, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { expect, test, vi } from 'vitest'
import { type Context, Hono } from 'hono'
import { compress } from 'hono/compress'
import { bounds } from '../../../src/market/bounds.js'
import { createBoundedServer, renderOnce } from '../../../src/serve/connections.js'
import { countTurns } from '../../support/turns.js'

/** Sends so many requests at once on one connection. Resolves to the number of responses when it is closed or all are there. */
async function responsesTo(count: number): Promise<{ responses: number; handled: number }> {
  let handled = 0
  const server = createBoundedServer(
    (_, response) => {
      handled += 1
      // All of the body is there before the response ends, as with a stream.
      response.writeHead(200, { 'content-length': 2 }).write('ok')
      void sleep(20).then(() => response.end())
    },
    () => undefined,
  ).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
  let text = ''
  socket.setEncoding('utf8').on('data', (chunk: string) => (text += chunk))
  const responses = () => text.split('HTTP/1.1 200').length - 1
  try {
    socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(count))
    await Promise.race([
      once(socket, 'close'),
      (async () => {
        while (responses() < count) await sleep(5)
      })(),
    ])
    return { responses: responses(), handled }
  } finally {
    socket.destroy()
    server.close()
  }
}

test('a request that comes as the response before it ends gets its response on the same connection', async () => {
  expect(await responsesTo(2)).toEqual({ responses: 2, handled: 2 })
})

test('a client that sends several ahead gets one response, and the connection is closed', async () => {
  expect(await responsesTo(10)).toEqual({ responses: 1, handled: 1 })
})

test('a client that asks has a place, while more silent ones than places come again and again', async () => {
  let refused = 0
  const server = createBoundedServer(
    (_, response) => response.end('ok'),
    () => refused++,
  ).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const silent = new Set<Socket>()
  let isOver = false
  const come = () => {
    if (isOver) return
    const socket = connect(port, '127.0.0.1')
    silent.add(socket.on('error', () => undefined))
    socket.on('close', () => {
      silent.delete(socket)
      setTimeout(come, 5)
    })
  }
  for (let count = 0; count < bounds.connections + 88; count++) come()
  try {
    await vi.waitFor(() => expect(refused).toBeGreaterThanOrEqual(88), { timeout: 120_000 })
    for (let probe = 0; probe < 50; probe++) {
      const response = await fetch(`http://127.0.0.1:${port}/healthz`, { headers: { connection: 'close' } })
      expect(await response.text()).toBe('ok')
    }
  } finally {
    isOver = true
    for (const socket of silent) socket.destroy()
    server.close()
  }
})

/** An app that renders each path but `/endless` once, and holds all responses until they are released. */
function heldApp(bodyOf: (context: Context) => string) {
  let handled = 0
  let release = () => {}
  const held = new Promise<void>((resolve) => (release = resolve))
  const app = new Hono()
  app.use(
    '/*',
    renderOnce(({ path }) => (path === '/endless' ? null : path)),
    compress({ encoding: 'gzip' }),
  )
  app.get('/*', async (context) => {
    handled++
    await held
    return context.text(bodyOf(context))
  })
  return { app, handled: () => handled, release }
}

test('simultaneous requests with one key are one rendering, and those without a key are none', async () => {
  const { app, handled, release } = heldApp(({ req }) => req.path)
  const paths = Array.from({ length: 300 }, (_, place) => `/metrics?a=${place}`)
  const responses = [...paths, '/endless', '/endless'].map((path) => app.request(path))
  await vi.waitFor(() => expect(handled()).toBe(3), 120_000)
  release()
  const texts = await Promise.all(responses.map(async (response) => (await response).text()))
  expect(texts).toEqual([...paths.map(() => '/metrics'), '/endless', '/endless'])
})

test('all spellings of the encodings that a client takes are two renderings: with gzip and without', async () => {
  const { app, handled, release } = heldApp(() => 'a'.repeat(2_000))
  const spelled = (text: string) => app.request('/metrics', { headers: { 'accept-encoding': text } })
  const withGzip = ['gzip', 'GZIP;q=0.5', '*', 'br, *;q=0.1'].concat(
    Array.from({ length: 300 }, (_, n) => `a${n}, gzip`),
  )
  const without = ['', 'br', 'gzip;q=0', '*, gzip;q=0', 'x-gzip', '*;q=0'].concat(
    Array.from({ length: 300 }, (_, n) => `a${n}`),
  )
  const responses = [...withGzip, ...without].map(spelled)
  await vi.waitFor(() => expect(handled()).toBe(2), 120_000)
  release()
  const encodings = await Promise.all(
    responses.map(async (response) => (await response).headers.get('content-encoding')),
  )
  expect(encodings).toEqual([...withGzip.map(() => 'gzip'), ...without.map(() => null)])
})

test('requests take turns, probes pass them, and one with very many parameters is not read', async () => {
  const counted = countTurns()
  const served: { readonly url: string; readonly turn: number }[] = []
  const server = createBoundedServer(
    ({ url = '' }, response) => {
      served.push({ url, turn: counted.turn })
      const untilMs = performance.now() + 20
      while (performance.now() < untilMs);
      response.end('ok')
    },
    () => undefined,
  ).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  try {
    const asked = Array.from({ length: 50 }, (_, place) => fetch(`${address}/api/candles?x=${place}`))
    await vi.waitFor(() => expect(served.length).toBeGreaterThan(2), 120_000)
    const health = await fetch(`${address}/healthz`)
    expect(health.status).toBe(200)
    expect(served.length).toBeLessThan(50)
    expect((await Promise.all(asked)).map(({ status }) => status)).toEqual(asked.map(() => 200))
    const pages = served.filter(({ url }) => url !== '/healthz')
    expect(new Set(pages.map((each) => each.turn)).size).toBe(pages.length)
    const many = await fetch(`${address}/api/candles?${Array.from({ length: 2_000 }, (_, n) => `a${n}`).join('&')}`)
    expect(many.status).toBe(400)
    expect(await many.json()).toEqual({ error: 'no path takes more than 32 parameters' })
    expect(served).toHaveLength(51)
  } finally {
    counted.stop()
    server.close()
  }
})

test.each(['/healthz', '/readyz'])('however many ask for %s take turns, and let others have theirs', async (path) => {
  const counted = countTurns()
  const served: { readonly url: string; readonly turn: number }[] = []
  const server = createBoundedServer(
    ({ url = '' }, response) => {
      served.push({ url, turn: counted.turn })
      response.end('ok')
    },
    () => undefined,
  ).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const sockets = Array.from({ length: 50 }, () => connect(port, '127.0.0.1'))
  try {
    await Promise.all(sockets.map((socket) => once(socket, 'connect')))
    await vi.waitFor(async () => expect(await connectionsOf(server)).toBe(50), 120_000)
    for (const [place, socket] of sockets.entries())
      socket.write(`GET ${place === 25 ? '/api/candles' : path} HTTP/1.1\r\nHost: a\r\n\r\n`)
    await vi.waitFor(() => expect(served).toHaveLength(50), 120_000)
    const probes = served.filter(({ url }) => url === path)
    expect(new Set(probes.map(({ turn }) => turn)).size).toBe(49)
    expect(served.findIndex(({ url }) => url === '/api/candles')).toBeLessThan(40)
  } finally {
    counted.stop()
    for (const socket of sockets) socket.destroy()
    server.close()
  }
})

const connectionsOf = (server: Server) => promisify(server.getConnections.bind(server))()

test('a client that asks has a place where all others do not read their responses', async () => {
  const before = bounds.connections
  Object.assign(bounds, { connections: 3 })
  let refused = 0
  const served: Socket[] = []
  const server = createBoundedServer(
    ({ url, socket }, response) => {
      response.end(url === '/healthz' ? 'ok' : Buffer.alloc(8_000_000))
      served.push(socket)
    },
    () => refused++,
  ).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const others = Array.from({ length: 3 }, () =>
    connect(port, '127.0.0.1')
      .on('error', () => undefined)
      .pause(),
  )
  try {
    for (const other of others) other.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
    await expect.poll(() => served.filter(({ writableLength }) => writableLength > 0)).toHaveLength(3)
    const probe = connect(port, '127.0.0.1')
    probe.write('GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n')
    const [response] = (await once(probe, 'data')) as [Buffer]
    expect(response.toString()).toContain('ok')
    expect(refused).toBe(1)
    probe.destroy()
  } finally {
    Object.assign(bounds, { connections: before })
    for (const other of others) other.destroy()
    server.close()
  }
})
