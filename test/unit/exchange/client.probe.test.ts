import type { AxiosAdapter } from 'axios'
import { describe, expect, test } from 'vitest'
import { createExchangeClient } from '../../../src/exchange/client.js'
import type { RequestOptions } from '../../../src/exchange/sender.js'
import { createFakeClock } from '../../support/fakeClock.js'
import { believing, envelope, limitsOf } from '../../support/fakeService.js'
import { createLogger } from '../../../src/runtime/logger.js'
import { TestRight } from '../../support/rights.js'

const instrument = { category: 'SPOT', symbol: 'BTCUSDT' } as const
const series = { ...instrument, interval: '1m' } as const

type Response = () => Promise<readonly [status: number, body: string]>

const works: Response = async () => [200, envelope('[]')]
const busy: Response = async () => [503, 'busy']
const hangs: Response = () => new Promise(() => undefined)

/** A client whose circuit of candles is open, and whose next request of candles is the probe. */
async function setUp(attempts = 1) {
  const clock = createFakeClock()
  const service = { candles: busy, requested: 0 }
  const adapter: AxiosAdapter = async (config) => {
    const isOfCandles = config.url?.includes('candles') === true
    if (isOfCandles) service.requested++
    config.moments?.onSent()
    const cut = new Promise<never>((_resolve, reject) => {
      config.signal?.addEventListener?.('abort', () => reject(new Error('cut')))
    })
    const [status, body] = await Promise.race([isOfCandles ? service.candles() : works(), cut])
    config.moments?.onResponse()
    return { data: Buffer.from(body), status, statusText: '', headers: {}, config }
  }
  const right = new TestRight()
  const client = createExchangeClient(right, {
    clock,
    logger: createLogger('silent'),
    adapter,
    baseUrl: 'http://127.0.0.1:9',
    timeoutMs: 5_000,
    maxConnections: 16,
    limits: limitsOf(20, 600),
    latencyJitterMs: 0,
    retry: { attempts, minDelayMs: 1, maxDelayMs: 5, totalMs: 10_000 },
    serviceClock: believing,
  })
  /** Resolves to the kind of the failure, or to `ok`. */
  const askForCandles = (options?: RequestOptions): Promise<string> =>
    client.candles(series, options).then(
      () => 'ok',
      (error: { kind: string }) => error.kind,
    )
  while (service.requested < 10) {
    const failing = askForCandles()
    await clock.advance(2_000)
    expect(await failing).toBe('unavailable')
  }
  return { clock, client, right, service, askForCandles }
}

describe('an operation that was out of order', () => {
  test('is live again soon, whoever tries it first and however much else is live', async () => {
    const { clock, client, service, askForCandles } = await setUp()
    service.candles = works
    // More than the limits allow, and all of it more urgent than what first finds out whether candles work again.
    const keepAsking = async () => {
      for (;;) await client.fills(instrument, { deadline: clock.monotonicMs() })
    }
    const asking = Array.from({ length: 50 }, () => keepAsking().catch(() => undefined))
    await clock.advance(3_000)
    const filled = askForCandles({ priority: 'backfill' })
    await clock.advance(100)
    let live = 'waits'
    void askForCandles({ deadline: clock.monotonicMs() }).then((outcome) => (live = outcome))
    await clock.advance(20_000)
    expect(live).toBe('ok')
    client.close()
    await Promise.all([...asking, filled])
  })

  const broken: Response = () => Promise.reject(new Error('the connection broke'))
  test.each<[how: string, response: Response, outcome: string]>([
    ['a success', works, 'ok'],
    ['a failure', busy, 'unavailable'],
    ['a refusal', async () => [200, '{"code":"40034","msg":"no such symbol"}'], 'unknown-symbol'],
    ['a rejection for the rate', async () => [429, ''], 'rate-limited'],
    ['a body that is no response', async () => [200, '<html>'], 'malformed'],
    ['a connection that breaks', broken, 'network'],
    ['nothing in time', hangs, 'timeout'],
  ])('has the next request go when its probe ended with %s', async (_how, response, outcome) => {
    const { clock, service, askForCandles } = await setUp()
    service.candles = response
    const outcomes: string[] = []
    void askForCandles().then((kind) => outcomes.push(kind))
    await clock.advance(0)
    service.candles = works
    void askForCandles().then((kind) => outcomes.push(kind))
    await clock.advance(10_000)
    expect(outcomes).toEqual([outcome, 'ok'])
  })

  test('has the next request go when its probe was a turn that is given up, or lost the right to send', async () => {
    const { clock, client, right, service, askForCandles } = await setUp()
    const turn = await client.turn('candles')
    const outcomes: string[] = []
    void askForCandles().then((kind) => outcomes.push(kind))
    await clock.advance(20_000)
    expect(service.requested).toBe(10)
    service.candles = () => {
      right.take()
      return broken()
    }
    turn.release()
    await clock.advance(1_000)
    expect(outcomes).toEqual(['network'])
    service.candles = works
    void askForCandles().then((kind) => outcomes.push(kind))
    await clock.advance(20_000)
    expect(service.requested).toBe(11)
    right.give()
    await clock.advance(5_000)
    expect(outcomes).toEqual(['network', 'ok'])
  })

  test('keeps nobody who gives up, and no repetition whose time is over', async () => {
    const { clock, service, askForCandles } = await setUp(2)
    await clock.advance(5_000)
    const repeated = askForCandles({ deadline: clock.monotonicMs() + 1 })
    await clock.advance(100)
    service.candles = hangs
    const urgent = askForCandles({ deadline: clock.monotonicMs() - 1_000 })
    const stop = new AbortController()
    const aborted = askForCandles({ signal: stop.signal })
    await clock.advance(8_000)
    stop.abort()
    expect(await aborted).toBe('aborted')
    let outcome = 'waits'
    void repeated.then((kind) => (outcome = kind))
    await clock.advance(1_000)
    expect(outcome).toBe('waits')
    await clock.advance(1_000)
    expect(outcome).toBe('unavailable')
    await clock.advance(60_000)
    expect(await urgent).toBe('timeout')
  })
})
