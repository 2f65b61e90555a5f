import { expect, test } from 'vitest'
import { fillsPoller } from '../../../src/collect/poll/fillsPoller.js'
import { streams } from '../../../src/collect/streams/streams.js'
import type { Instrument } from '../../../src/market/instrument.js'
import { clientOf, envelope, startFakeService } from '../../support/fakeService.js'
import { aTicker } from '../../support/marketRows.js'
import { pollContext } from '../../support/pollContext.js'
import { queueUnderTest } from '../../support/queueUnderTest.js'

const own = queueUnderTest()
const key = { category: 'SPOT', symbol: 'BUSYUSDT' } as const

/** An instrument with ten fills a second, and so many requests for it. */
async function polling(
  allowedPerSecond: number,
  act: (poller: ReturnType<typeof fillsPoller>, tick: (volume: number) => void) => Promise<void>,
) {
  const fills = (now: number) =>
    Array.from(
      { length: 100 },
      (_, index) => `{"execId":"${now - index}","price":"1","size":"1","side":"buy","ts":"${now - index * 100}"}`,
    )
  const service = await startFakeService((_request, response) => {
    const now = Date.now()
    response.end(envelope(`[${fills(now).join(',')}]`, now))
  })
  const client = clientOf(service.url)
  const stopping = new AbortController()
  const context = pollContext(own, client, stopping.signal)
  context.universe.setInstruments('SPOT', [{ ...key, status: 'online' } as Instrument], true)
  const limits = { kind: 'overlap', minPollMs: 60_000, maxPollMs: 600_000, allowedPerSecond } as const
  const poller = fillsPoller(context, streams.fills, limits)
  try {
    // It is listed later than others, and what its tickers tell is heard all the same.
    poller.retarget([])
    poller.retarget([key])
    await expect.poll(() => own.stats.fills.responses).toBe(1)
    await expect.poll(() => own.stats.fills.rowsWritten).toBe(100)
    await act(poller, (volume) => {
      const now = Date.now()
      context.universe.setTickers([
        aTicker({ ...key, ts: now, receivedAt: now, volume24h: String(volume), lastPrice: String(volume) }),
      ])
      poller.tickersCame()
    })
  } finally {
    stopping.abort()
    await poller.stop()
    client.close()
    await service.close()
  }
}

test('tickers are worth a request when so many fills are expected in their category, and more when they tell of a burst', async () => {
  await polling(1, async (poller, tick) => {
    await expect.poll(() => poller.worthOfTickers('SPOT', 3_000)).toBeGreaterThan(0.3)
    let volume = 1_000_000
    const usual = poller.worthOfTickers('SPOT', 3_000)
    expect(usual).toBeLessThan(0.7)
    expect(poller.worthOfTickers('SPOT', 6_000)).toBeCloseTo(2 * usual, 1)
    expect(poller.worthOfTickers('USDT-FUTURES', 60_000)).toBe(0)
    tick(volume)
    await expect
      .poll(
        () => {
          // A thousand fills of the usual size between any two tickers.
          tick((volume += 1_000))
          return poller.worthOfTickers('SPOT', 3_000)
        },
        { timeout: 120_000 },
      )
      .toBeGreaterThan(2 * usual)
  })
})

test('tickers are worth nothing while the requests for fills suffice without', async () => {
  await polling(100, async (poller) => {
    expect(poller.worthOfTickers('SPOT', 600_000)).toBe(0)
  })
})
