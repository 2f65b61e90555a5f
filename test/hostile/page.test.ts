import http from 'node:http'
import net from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import fc from 'fast-check'
import { pino } from 'pino'
import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest'
import { loadConfig } from '../../src/config/resolve.js'
import { createMetrics } from '../../src/runtime/metrics.js'
import { endpoints } from '../../src/serve/api/endpoints.js'
import { type RunningServer, startServer } from '../../src/serve/server.js'
import { recordInstruments } from '../../src/ledger/instruments.js'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import { anInstrument, someTime } from '../support/marketRows.js'
import { settableSource } from '../support/recorderSource.js'
import { systemClock } from '../../src/runtime/clock.js'

let created: TestDatabase
let server: RunningServer
let port: number
const sockets: net.Socket[] = []

beforeAll(async () => {
  created = await createTestDatabase()
  await recordInstruments(created.database.db, 'SPOT', [anInstrument({ symbol: 'BTCUSDT' })], someTime)
  const config = loadConfig({ env: {} })
  config.serve.port = 0
  server = await startServer({
    config,
    clock: systemClock,
    source: settableSource(Date.now()),
    metrics: createMetrics({ version: 'test' }),
    databaseUrl: created.url,
    version: 'test',
    logger: pino({ level: 'silent' }),
  })
  port = Number(new URL(server.url).port)
})

afterEach(() => {
  for (const socket of sockets.splice(0)) socket.destroy()
})

afterAll(async () => {
  await server?.close()
  await created?.drop()
})

/** A request as bytes, because a client would mend what is wrong with it. */
function ask(head: string): net.Socket {
  const socket = net.connect(port, '127.0.0.1')
  socket.on('error', () => undefined)
  sockets.push(socket)
  socket.write(head)
  return socket
}

const request = (path: string) => `GET ${path} HTTP/1.1\r\nhost: 127.0.0.1:${port}\r\n\r\n`

function statusOf(path: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const asked = http.get({ port, host: '127.0.0.1', path, agent: false }, (response) => {
      response.resume().on('end', () => resolve(response.statusCode ?? 0))
    })
    asked.on('error', reject)
  })
}

/** A busy database may not answer in time: what is only that passes. */
async function settledStatusOf(path: string): Promise<number> {
  let status = await statusOf(path)
  for (let again = 0; status === 503 && again < 20; again++) {
    await sleep(250)
    status = await statusOf(path)
  }
  return status
}

const isHealthy = () => vi.waitFor(async () => expect(await statusOf('/healthz')).toBe(200), { timeout: 120_000 })

test('any parameters are answered or refused, and none of them reaches the database only to fail there', async () => {
  const names = fc.oneof(
    fc.constantFrom(
      'category',
      'symbol',
      'limit',
      'before',
      'from',
      'to',
      'search',
      'interval',
      'days',
      'offset',
      'type',
    ),
    fc.string({ maxLength: 5 }),
  )
  const values = fc.oneof(
    fc.constantFrom(
      'SPOT',
      'BTCUSDT',
      '1m',
      'fills',
      '0',
      '-1',
      '1e999',
      '253402300799999',
      '8640000000000000',
      'NaN',
      '\0',
      "';--",
    ),
    fc.constantFrom('\u0000x', '\ud800', '%', '\\', '_%_', '龙'.repeat(100), 'x'.repeat(3_000), '9'.repeat(400)),
    fc.string(),
  )
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...Object.keys(endpoints), '/api/nothing', '/assets/..%2f..%2fpackage.json'),
      fc.array(fc.tuple(names, values), { maxLength: 6 }),
      async (path, parameters) => {
        const query = parameters.map(([name, value]) => `${escaped(name)}=${escaped(value)}`).join('&')
        expect([200, 400, 404, 431]).toContain(await settledStatusOf(`${path}?${query}`))
      },
    ),
    { numRuns: 300 },
  )
})

/** Every byte of it, also of what is no character. */
function escaped(text: string): string {
  return [...Buffer.from(text)].map((byte) => `%${byte.toString(16).padStart(2, '0')}`).join('')
}

test('broken requests end themselves only', async () => {
  const broken = [
    'nonsense\r\n\r\n',
    'GET / HTTP/9.9\r\n\r\n',
    `GET /${'x'.repeat(100_000)} HTTP/1.1\r\n\r\n`,
    `GET / HTTP/1.1\r\nhost: 127.0.0.1\r\n${'x: y\r\n'.repeat(50_000)}\r\n`,
    'POST /api/status HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 99999999999\r\n\r\n',
    'POST / HTTP/1.1\r\nhost: 127.0.0.1\r\ntransfer-encoding: chunked\r\ncontent-length: 5\r\n\r\nzz',
    request('/%00'),
    request('/%zz?%zz=%zz'),
    request('//../../../etc/passwd'),
    '\x16\x03\x01\x02\x00',
  ]
  for (const head of broken) {
    ask(head)
    await isHealthy()
  }
})

test('readers that send or read nothing hold nobody up', async () => {
  for (let i = 0; i < 100; i++) ask('GET /api/sta')
  for (let i = 0; i < 100; i++) ask(request('/api').repeat(20)).pause()
  await isHealthy()
  expect(await settledStatusOf('/api/status')).toBe(200)
})

test('two hundred open pages are served, one more is told so, and when they have gone there is room', async () => {
  const open = Array.from({ length: 200 }, () => ask(request('/api/events?category=SPOT&symbol=BTCUSDT')))
  const lively = new Set<net.Socket>()
  for (const socket of open) socket.on('data', (data: Buffer) => data.includes('event: status') && lively.add(socket))
  await vi.waitFor(() => expect(lively.size).toBe(200), { timeout: 120_000 })
  expect(await statusOf('/api/events')).toBe(503)
  await isHealthy()
  for (const socket of open) socket.destroy()
  await vi.waitFor(
    async () => {
      const again = ask(request('/api/events'))
      const answered = await Promise.race([
        new Promise<Buffer>((resolve) => again.once('data', resolve)),
        sleep(30_000),
      ])
      expect(String(answered)).toContain('200 OK')
    },
    { timeout: 120_000, interval: 250 },
  )
})
