import type { AxiosAdapter } from 'axios'
import { expect, test } from 'vitest'
import { createExchangeClient } from '../../../src/exchange/client.js'
import { createLogger } from '../../../src/runtime/logger.js'
import { createFakeClock } from '../../support/fakeClock.js'
import { believing, envelope, limitsOf } from '../../support/fakeService.js'
import { TestRight } from '../../support/rights.js'

interface Refusal {
  readonly status: number
  readonly code: string
  readonly headers?: Readonly<Record<string, string>>
}

/** A service that always refuses some instruments, and a client that has asked for each fill eight times. */
async function setUp(refusal: Refusal) {
  const clock = createFakeClock()
  const state = { isBlocked: false, sent: [] as string[] }
  const adapter: AxiosAdapter = async (config) => {
    const request = JSON.stringify([config.url, config.params])
    const isRefused = state.isBlocked || request.includes('REFUSED')
    state.sent.push(request)
    config.moments?.onSent()
    config.moments?.onResponse()
    const body = isRefused ? `{"code":"${refusal.code}","msg":"no","data":null}` : envelope('[]')
    const [status, headers] = isRefused ? [refusal.status, refusal.headers ?? {}] : [200, {}]
    return { data: Buffer.from(body), status, statusText: '', headers, config }
  }
  const client = createExchangeClient(new TestRight(), {
    clock,
    logger: createLogger('silent'),
    adapter,
    baseUrl: 'http://127.0.0.1:9',
    timeoutMs: 5_000,
    maxConnections: 16,
    limits: limitsOf(20, 6_000),
    latencyJitterMs: 0,
    retry: { attempts: 4, minDelayMs: 250, maxDelayMs: 5_000, totalMs: 30_000 },
    serviceClock: believing,
  })
  const requestFills = (symbol: string) =>
    client.fills({ category: 'USDT-FUTURES', symbol }).then(
      () => 'ok',
      (error: { readonly kind: string }) => error.kind,
    )
  for (let round = 0; round < 8; round++)
    for (const symbol of ['BTCUSDT', 'ETHUSDT', 'REFUSED1', 'XRPUSDT', 'REFUSED2', 'SOLUSDT']) {
      void requestFills(symbol)
      void requestFills('BTCUSDT')
      await clock.advance(60_000)
    }
  state.sent = []
  return { clock, client, state, requestFills }
}

test.each([
  { status: 403, code: '25013' },
  { status: 200, code: '40000' },
  { status: 429, code: '429' },
  { status: 200, code: '25004' },
  { status: 403, code: '25013', headers: { 'retry-after': '2' } },
  { status: 429, code: '429', headers: { 'retry-after': '2' } },
])('instruments that are always blocked pause nothing, until everything is: %j', async (refusal) => {
  const { clock, client, state, requestFills } = await setUp(refusal)
  const refused = requestFills('REFUSED1')
  const others = ['BTCUSDT', 'ETHUSDT', 'XRPUSDT'].map(requestFills)
  await clock.advance(1_000)
  expect(await Promise.all(others)).toEqual(['ok', 'ok', 'ok'])
  expect(state.sent.filter((request) => !request.includes('REFUSED'))).toHaveLength(3)
  expect(client.stats()).toMatchObject({ pausedMs: 0, rate: 1 })
  // Too many requests are repeated after some time.
  await clock.advance(30_000)
  expect(await refused).not.toBe('ok')
  // A block of the address pauses everything all the same.
  state.isBlocked = true
  for (let i = 0; i < 4; i++) void requestFills('BTCUSDT')
  await clock.advance(1_000)
  expect(client.stats().pausedMs).toBeGreaterThan(0)
  client.close()
})

test('refusals that name the address pause everything each time', async () => {
  const { clock, client, requestFills } = await setUp({ status: 418, code: '40000' })
  void requestFills('REFUSED1')
  await clock.advance(100)
  expect(client.stats().pausedMs).toBeGreaterThan(1_000)
  client.close()
})

test('an instrument is left alone for as long as the service says, and the others go on', async () => {
  const { clock, client, state, requestFills } = await setUp({
    status: 429,
    code: '429',
    headers: { 'retry-after': '50' },
  })
  const kinds: unknown[] = []
  for (let second = 0; second < 100; second++) {
    void requestFills('REFUSED1').then((kind) => kinds.push(kind))
    void requestFills('BTCUSDT')
    await clock.advance(1_000)
  }
  expect(state.sent.filter((request) => request.includes('REFUSED'))).toHaveLength(2)
  expect(state.sent.filter((request) => request.includes('BTCUSDT')).length).toBeGreaterThan(98)
  expect(new Set(kinds)).toEqual(new Set(['rate-limited']))
  // A place that was taken for it is free again.
  void requestFills('REFUSED1')
  await clock.advance(1_000)
  const turn = await client.turn('fills')
  const inVain = client.fills({ category: 'USDT-FUTURES', symbol: 'REFUSED1' }, { turn }).catch(() => undefined)
  await clock.advance(1)
  expect(client.stats().inFlight).toBe(0)
  await clock.advance(60_000)
  await inVain
  client.close()
})
