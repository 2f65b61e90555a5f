import { inspect } from 'node:util'
import { brotliCompressSync, gzipSync } from 'node:zlib'
import { afterEach, describe, expect, it } from 'vitest'
import type { ExchangeClient, ExchangeOptions } from '../../../src/exchange/client.js'
import type { RequestEvent } from '../../../src/exchange/sender.js'
import { ExchangeError } from '../../../src/exchange/errors.js'
import { createTransport } from '../../../src/exchange/http/transport.js'
import {
  clientOf,
  envelope,
  type FakeService,
  type Handler,
  limitsOf,
  startFakeService,
} from '../../support/fakeService.js'
import { systemClock } from '../../../src/runtime/clock.js'

let service: FakeService
let client: ExchangeClient

async function start(handler: Handler, more: Partial<ExchangeOptions> = {}): Promise<void> {
  service = await startFakeService(handler)
  client = clientOf(service.url, more)
}

afterEach(async () => {
  client.close()
  await service.close()
})

const fills = () => client.fills({ category: 'SPOT', symbol: 'BTCUSDT' })

async function failure(request: Promise<unknown>): Promise<ExchangeError> {
  const error: unknown = await request.then(
    () => undefined,
    (reason: unknown) => reason,
  )
  if (!(error instanceof ExchangeError)) throw new Error(`expected an ExchangeError, got ${String(error)}`)
  expect(error.message).not.toMatch(/\n/)
  expect(error.message).toContain('fills SPOT BTCUSDT')
  return error
}

describe('requests', () => {
  it('go to the operation with their parameters, and leave out what is not given', async () => {
    await start((_request, response) => void response.end(envelope('[]')))
    await client.candles({ category: 'USDT-FUTURES', symbol: 'BTCUSDT', interval: '1m', startTime: 5, limit: 10 })
    await client.rpiSymbols()
    expect(service.requests).toEqual([
      '/api/v3/market/candles?category=USDT-FUTURES&symbol=BTCUSDT&interval=1m&startTime=5&limit=10',
      '/api/v3/market/rpi-symbols',
    ])
  })

  it('end when the response switches protocols, and leave no place taken', async () => {
    await start((request) => {
      request.socket.end('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n')
    })
    expect((await failure(fills())).kind).toBe('network')
    expect(client.stats().inFlight).toBe(0)
  })

  it('keep a path in the base URL', async () => {
    await start((_request, response) => void response.end(envelope('[]')))
    const prefixed = clientOf(`${service.url}/prefix/`)
    await prefixed.rpiSymbols()
    prefixed.close()
    expect(service.requests).toEqual(['/prefix/api/v3/market/rpi-symbols'])
  })

  it('reuse their connection and leave from the configured address', async () => {
    const ports = new Set<string>()
    await start(
      (request, response) => {
        ports.add(`${request.socket.remoteAddress} ${request.socket.remotePort}`)
        response.end(envelope('[]'))
      },
      { localAddress: '127.0.0.7' },
    )
    for (let i = 0; i < 5; i++) await fills()
    expect(ports.size).toBeLessThanOrEqual(2)
    for (const port of ports) expect(port).toMatch(/^127\.0\.0\.7 /)
  })

  it('tell when they have left and when they are answered, on new connections and old', async () => {
    await start((_request, response) => void response.end(envelope('[]')))
    const transport = createTransport({
      clock: systemClock,
      baseUrl: service.url,
      timeoutMs: 1_000,
      maxConnections: 1,
    })
    const order: string[] = []
    const moments = { onSent: () => void order.push('sent'), onResponse: () => void order.push('answered') }
    for (let i = 0; i < 2; i++) {
      await transport.get('fills', {}, moments)
      order.push('read')
    }
    transport.close()
    expect(order).toEqual(['sent', 'answered', 'read', 'sent', 'answered', 'read'])
  })

  it('read compressed responses', async () => {
    let encoding = 'gzip'
    await start((_request, response) => {
      const body = envelope('[]', 42)
      response.setHeader('content-encoding', encoding)
      response.end(encoding === 'gzip' ? gzipSync(body) : brotliCompressSync(body))
    })
    expect((await fills()).requestTime).toBe(42)
    encoding = 'br'
    expect((await fills()).requestTime).toBe(42)
  })

  it.each([
    ['few bytes that unfold to few', 10],
    ['few bytes that unfold to more than a megabyte', 1_500_000],
  ])('read a response of %s', async (_name, padding) => {
    await start((_request, response) => {
      response.setHeader('content-encoding', 'br')
      response.end(brotliCompressSync(envelope(`[${' '.repeat(padding)}]`, 42)))
    })
    expect((await client.rpiSymbols()).requestTime).toBe(42)
  })

  it('say when they were answered by our clock', async () => {
    await start((_request, response) => void setTimeout(() => response.end(envelope('[]', 7)), 30))
    const before = Date.now()
    const page = await fills()
    expect(page.requestTime).toBe(7)
    expect(page.receivedAt - before).toBeGreaterThanOrEqual(25)
    expect(page.receivedAt).toBeLessThanOrEqual(Date.now())
  })
})

describe('failures of the transport', () => {
  it('a refused connection is a network failure', async () => {
    await start((_request, response) => void response.end())
    await service.close()
    const error = await failure(fills())
    expect(error).toMatchObject({ kind: 'network', retryable: true, cause: { code: 'ECONNREFUSED' } })
    expect(error.message).toContain('connection refused')
    // A log of it must not spill the request, nor must an error keep its buffers alive.
    expect(inspect(error, { depth: 9 })).not.toContain('httpAgent')
  })

  it('an unknown host is a network failure', async () => {
    await start((_request, response) => void response.end())
    const lost = clientOf('http://no-such-host.invalid')
    const error = await failure(lost.fills({ category: 'SPOT', symbol: 'BTCUSDT' }))
    lost.close()
    expect(error.kind).toBe('network')
    expect(error.message).toMatch(/host name (not found|could not be looked up): \S+\.invalid;/)
  })

  it('a reset connection is a network failure', async () => {
    await start((request) => void request.socket.resetAndDestroy())
    expect((await failure(fills())).kind).toBe('network')
  })

  it('a body shorter than its announced length is not taken for a response', async () => {
    await start((_request, response) => {
      response.setHeader('content-length', '1000')
      response.write(envelope('[]'))
      setTimeout(() => response.socket?.destroy(), 20)
    })
    const error = await failure(fills())
    expect(error).toMatchObject({ kind: 'network', retryable: true })
  })

  it('a chunked body cut before its end is not taken for a response', async () => {
    await start((_request, response) => {
      response.write(envelope('[]'))
      setTimeout(() => response.socket?.destroy(), 20)
    })
    expect(await failure(fills())).toMatchObject({ kind: 'network', retryable: true })
  })

  it('broken compression is malformed', async () => {
    await start((_request, response) => {
      response.setHeader('content-encoding', 'gzip')
      response.end('this is not gzip')
    })
    expect((await failure(fills())).kind).toBe('malformed')
  })

  it('no response in time is a timeout', async () => {
    await start(() => undefined, { timeoutMs: 50 })
    const error = await failure(fills())
    expect(error).toMatchObject({ kind: 'timeout', retryable: true })
    expect(error.message).toContain('50 ms')
  })

  it('the time allowed covers the whole body, however steadily it drips', async () => {
    await start(
      (_request, response) => {
        const drip = setInterval(() => response.write(' '), 10)
        response.on('close', () => clearInterval(drip))
      },
      { timeoutMs: 120 },
    )
    expect((await failure(fills())).kind).toBe('timeout')
  })

  it('too many bytes are refused, and not asked for again', async () => {
    await start((_request, response) => void response.end('x'.repeat(1_500_000)), {
      retry: { attempts: 3, minDelayMs: 1, maxDelayMs: 1, totalMs: 1000 },
    })
    expect(await failure(fills())).toMatchObject({ kind: 'too-large', retryable: false })
    expect(service.requests).toHaveLength(1)
  })

  it('bytes are counted after decompression', async () => {
    await start((_request, response) => {
      response.setHeader('content-encoding', 'gzip')
      response.end(gzipSync('0'.repeat(5_000_000)))
    })
    expect((await failure(fills())).kind).toBe('too-large')
  })

  it('a redirect is not followed', async () => {
    await start((_request, response) => {
      response.writeHead(302, { location: 'http://elsewhere.invalid/' })
      response.end()
    })
    const error = await failure(fills())
    expect(error).toMatchObject({ kind: 'malformed', retryable: false })
    expect(error.message).toContain('elsewhere.invalid')
  })

  it('an abort leaves a request under way to its end, but does not repeat it', async () => {
    const abort = new AbortController()
    await start((_request, response) => {
      abort.abort(new Error('enough'))
      response.end(envelope('[]', 42))
    })
    const request = client.fills({ category: 'SPOT', symbol: 'BTCUSDT' }, { signal: abort.signal })
    expect(await request).toMatchObject({ requestTime: 42, rows: [] })

    const failing = await startFakeService((_request, response) => {
      second.abort(new Error('enough'))
      response.writeHead(503).end()
    })
    const second = new AbortController()
    const other = clientOf(failing.url, { retry: { attempts: 3, minDelayMs: 100, maxDelayMs: 100, totalMs: 5000 } })
    const repeated = other.fills({ category: 'SPOT', symbol: 'BTCUSDT' }, { signal: second.signal })
    // Its failure is the news, not that it is not repeated.
    expect((await failure(repeated)).kind).toBe('unavailable')
    expect(failing.requests).toHaveLength(1)
    other.close()
    await failing.close()
  })

  it('an abort ends a request that waits for its turn, and one never sent', async () => {
    await start((_request, response) => void response.end(envelope('[]')), {
      limits: limitsOf(1, 1),
    })
    const abort = new AbortController()
    const request = client.fills({ category: 'SPOT', symbol: 'BTCUSDT' }, { signal: abort.signal })
    setTimeout(() => abort.abort(), 20)
    expect((await failure(request)).kind).toBe('aborted')
    const aborted = client.fills({ category: 'SPOT', symbol: 'BTCUSDT' }, { signal: AbortSignal.abort() })
    expect((await failure(aborted)).kind).toBe('aborted')
    expect(service.requests).toHaveLength(0)
  })

  it('closing the client ends what waits, what is under way and what comes later', async () => {
    await start(() => undefined, { limits: limitsOf(1) })
    const waiting = [fills(), fills(), fills()]
    setTimeout(() => client.close(), 30)
    for (const request of waiting) expect((await failure(request)).kind).toBe('aborted')
    expect((await failure(fills())).kind).toBe('aborted')
  })
})

describe('repetitions', () => {
  const retry = { attempts: 3, minDelayMs: 1, maxDelayMs: 2, totalMs: 5_000 }

  it('are made for what can succeed, and every attempt is reported', async () => {
    const events: RequestEvent[] = []
    let count = 0
    await start(
      (_request, response) => {
        count++
        if (count === 1) response.writeHead(503).end('<html>busy</html>')
        else if (count === 2) response.end('<html>login</html>')
        else response.end(envelope('[]'))
      },
      { retry, onRequest: (event) => events.push(event) },
    )
    await client.fills({ category: 'SPOT', symbol: 'BTCUSDT' }, { priority: 'backfill' })
    expect(events.map(({ outcome, attempt, priority }) => [outcome, attempt, priority])).toEqual([
      ['unavailable', 1, 'backfill'],
      ['malformed', 2, 'backfill'],
      ['ok', 3, 'backfill'],
    ])
    for (const { durationMs, waitedMs } of events) expect(Math.min(durationMs, waitedMs)).toBeGreaterThanOrEqual(0)
  })

  it('end with the attempts allowed', async () => {
    await start((_request, response) => void response.writeHead(500).end(), { retry })
    expect((await failure(fills())).kind).toBe('unavailable')
    expect(service.requests).toHaveLength(3)
  })

  it('are not made for what will fail again', async () => {
    await start(
      (_request, response) => void response.end('{"code":"40034","msg":"none","requestTime":1,"data":null}'),
      {
        retry,
      },
    )
    expect((await failure(fills())).kind).toBe('unknown-symbol')
    expect(service.requests).toHaveLength(1)
  })

  it('pass on a final error that comes after the time for all attempts', async () => {
    let timeIsUp = () => {}
    const after: typeof systemClock.after = (ms, then) => {
      if (ms > 3_000_000) timeIsUp = then
      return systemClock.after(ms, then)
    }
    await start(
      (_request, response) => {
        if (service.requests.length === 1) return void response.writeHead(503).end()
        timeIsUp()
        response.end('{"code":"40034","msg":"none","requestTime":1,"data":null}')
      },
      { clock: { ...systemClock, after }, retry: { ...retry, totalMs: 3_600_000 } },
    )
    expect((await failure(fills())).kind).toBe('unknown-symbol')
    expect(service.requests).toHaveLength(2)
  })

  it('wait as long as the service asks, and give up when that is too long', async () => {
    await start((_request, response) => void response.writeHead(503, { 'retry-after': '60' }).end(), { retry })
    expect(await failure(fills())).toMatchObject({ kind: 'unavailable', retryAfterMs: 60_000 })
    expect(service.requests).toHaveLength(1)
  })

  it('end with the time for all attempts, also while waiting for a turn', async () => {
    await start((_request, response) => void response.writeHead(500).end(), {
      limits: limitsOf(1),
      retry: { attempts: 9, minDelayMs: 1, maxDelayMs: 1, totalMs: 100 },
    })
    expect((await failure(fills())).kind).toBe('unavailable')
    expect(service.requests).toHaveLength(1)
  })
})
