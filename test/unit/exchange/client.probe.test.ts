import type { AxiosAdapter } from 'axios'
import { expect, test } from 'vitest'
import { createExchangeClient } from '../../../src/exchange/client.js'
import { createFakeClock } from '../../support/fakeClock.js'
import { believing, envelope, limitsOf } from '../../support/fakeService.js'
import { createLogger } from '../../../src/runtime/logger.js'

const instrument = { category: 'SPOT', symbol: 'BTCUSDT' } as const
const series = { ...instrument, interval: '1m' } as const

test('an operation that was out of order is live again soon, whoever tries it first and however much else is live', async () => {
  const clock = createFakeClock()
  let isOutOfOrder = true
  const adapter: AxiosAdapter = async (config) => {
    config.moments?.onSent()
    const isFailing = isOutOfOrder && config.url?.includes('candles') === true
    config.moments?.onResponse()
    const data = Buffer.from(isFailing ? 'busy' : envelope('[]'))
    return { data, status: isFailing ? 503 : 200, statusText: '', headers: {}, config }
  }
  const client = createExchangeClient({
    clock,
    logger: createLogger('silent'),
    adapter,
    baseUrl: 'http://127.0.0.1:9',
    timeoutMs: 5_000,
    maxConnections: 16,
    limits: limitsOf(20, 600),
    latencyJitterMs: 0,
    retry: { attempts: 1, minDelayMs: 1, maxDelayMs: 5, totalMs: 10_000 },
    serviceClock: believing,
    mayDepart: () => true,
  })
  for (let i = 0; i < 10; i++) {
    const failing = client.candles(series).catch((error: { kind: string }) => error.kind)
    await clock.advance(2_000)
    expect(await failing).toBe('unavailable')
  }
  isOutOfOrder = false
  // More than the limits allow, and all of it more urgent than what first finds out whether candles work again.
  const keepAsking = async () => {
    for (;;) await client.fills(instrument, { deadline: clock.monotonicMs() })
  }
  const asking = Array.from({ length: 50 }, () => keepAsking().catch(() => undefined))
  await clock.advance(3_000)
  const filled = client.candles(series, { priority: 'backfill' }).catch(() => undefined)
  await clock.advance(100)
  let isLive = false
  const live = client.candles(series, { deadline: clock.monotonicMs() }).then(() => (isLive = true))
  live.catch(() => undefined)
  await clock.advance(20_000)
  expect(isLive).toBe(true)
  client.close()
  await Promise.all([...asking, filled])
})
