import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import type { ExchangeClient } from '../../../src/exchange/client.js'
import { specifiedPerSecond } from '../../../src/market/operation.js'
import { clientOf } from '../../support/fakeService.js'
import { startSimulatorProcess } from '../../support/simulatorProcess.js'

const timeoutMs = 10_000
const instrument = { category: 'SPOT', symbol: 'BTCUSDT' } as const
const requests = {
  fills: (client: ExchangeClient) => client.fills(instrument),
  orderbook: (client: ExchangeClient) => client.orderBook({ ...instrument, limit: 5 }),
  'rpi-symbols': (client: ExchangeClient) => client.rpiSymbols(),
}

describe.concurrent('the limits are kept over real connections', () => {
  test.each([12, 30])('while the service stands still for %d s, and after that', async (seconds) => {
    const simulator = await startSimulatorProcess(['--scale', 'tiny'])
    onTestFinished(() => simulator.close())
    const client = clientOf(simulator.url, {
      timeoutMs,
      maxConnections: 64,
      limits: { overallPerMinute: 6_000, perSecond: specifiedPerSecond },
      latencyJitterMs: 100,
    })
    onTestFinished(() => client.close())
    let responses = 0
    const ending = new AbortController()
    onTestFinished(() => ending.abort())
    const keepSending = async (send: (client: ExchangeClient) => Promise<unknown>) => {
      while (!ending.signal.aborted)
        await send(client).then(
          () => responses++,
          // Those of the standstill are given up.
          () => undefined,
        )
    }
    for (const send of Object.values(requests)) for (let i = 0; i < 40; i++) void keepSending(send)
    const respondsAgain = (count: number) => {
      const before = responses
      return vi.waitFor(() => expect(responses).toBeGreaterThan(before + count), { timeout: 300_000, interval: 100 })
    }
    await respondsAgain(100)
    simulator.pause()
    await sleep(seconds * 1_000)
    simulator.resume()
    await respondsAgain(300)
    const { '127.0.0.1': report } = await simulator.report()
    for (const operation of Object.keys(requests) as (keyof typeof requests)[])
      expect(report?.operations[operation].highestPerSecond, operation).toBeLessThanOrEqual(
        specifiedPerSecond[operation],
      )
    expect(report?.overall).toMatchObject({ rejected: 0, blocks: 0 })
  })
})
