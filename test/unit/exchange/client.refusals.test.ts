import type { AxiosAdapter } from 'axios'
import { expect, test } from 'vitest'
import { createExchangeClient } from '../../../src/exchange/client.js'
import { createLogger } from '../../../src/runtime/logger.js'
import { createFakeClock } from '../../support/fakeClock.js'
import { believing, envelope, limitsOf } from '../../support/fakeService.js'
import { TestRight } from '../../support/rights.js'

test('an instrument that the service never admits pauses no other, and all pause when it admits none', async () => {
  const clock = createFakeClock()
  let isBlocked = false
  const adapter: AxiosAdapter = async (config) => {
    const isRefused = isBlocked || JSON.stringify([config.url, config.params]).includes('XAUUSDT')
    config.moments?.onSent()
    config.moments?.onResponse()
    const body = isRefused ? '{"code":"25013","msg":"not allowed from here","data":null}' : envelope('[]')
    return { data: Buffer.from(body), status: isRefused ? 403 : 200, statusText: '', headers: {}, config }
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
    retry: { attempts: 1, minDelayMs: 1, maxDelayMs: 5, totalMs: 10_000 },
    serviceClock: believing,
  })
  const requestFills = async (symbol: string) => {
    const kind = client.fills({ category: 'USDT-FUTURES', symbol }).then(
      () => 'ok',
      (error: { readonly kind: string }) => error.kind,
    )
    await clock.advance(10_000)
    return kind
  }
  for (let i = 0; i < 5; i++) {
    expect(await requestFills('XAUUSDT')).toBe('blocked')
    for (let j = 0; j < 8; j++) expect(await requestFills('BTCUSDT')).toBe('ok')
  }
  // Its first two refusals may be of the address.
  const refused = client.fills({ category: 'USDT-FUTURES', symbol: 'XAUUSDT' }).catch(() => undefined)
  await clock.advance(100)
  await refused
  expect(client.stats().pausedMs).toBe(0)
  isBlocked = true
  await expect(
    Promise.all([client.fills({ category: 'USDT-FUTURES', symbol: 'BTCUSDT' }), clock.advance(100)]),
  ).rejects.toThrow('blocked')
  expect(client.stats().pausedMs).toBeGreaterThan(1_000)
  client.close()
})
