import { afterEach, beforeEach, expect, test } from 'vitest'
import { cyclePoller } from '../../../src/collect/poll/cyclePoller.js'
import type { Poller } from '../../../src/collect/poll/poller.js'
import { streams } from '../../../src/collect/streams/streams.js'
import type { ExchangeClient } from '../../../src/exchange/client.js'
import { hourMs } from '../../../src/market/values.js'
import { type Clock, systemClock } from '../../../src/runtime/clock.js'
import type { BookTarget } from '../../../src/ledger/batch.js'
import { clientOf, envelope, type FakeService, startFakeService } from '../../support/fakeService.js'
import { pollContext } from '../../support/pollContext.js'
import { at, queueUnderTest } from '../../support/queueUnderTest.js'

const own = queueUnderTest()

let service: FakeService
let client: ExchangeClient
let stopping: AbortController
let poller: Poller<BookTarget>
let aheadMs: number

beforeEach(async () => {
  aheadMs = 0
  const clock: Clock = {
    ...systemClock,
    now: () => systemClock.now() + aheadMs,
    monotonicMs: () => systemClock.monotonicMs() + aheadMs,
  }
  const book = `{"a":[["2","1"]],"b":[["1","1"]],"ts":"${at}"}`
  service = await startFakeService((_request, response) => void response.end(envelope(book)))
  client = clientOf(service.url)
  stopping = new AbortController()
  const context = pollContext(own, client, stopping.signal, clock)
  poller = cyclePoller(context, streams.order_books, { kind: 'cycle', everyMs: 6 * hourMs })
})
afterEach(async () => {
  stopping.abort()
  await poller.stop()
  client.close()
  await service.close()
})

test('an order book that neither the database nor the disk took is asked for again within a minute', async () => {
  await own.proxy.refuse()
  await own.breakDisk()
  poller.retarget([{ category: 'SPOT', symbol: 'BTCUSDT', depth: 5 }])
  const { order_books: stats } = own.stats
  await expect.poll(() => stats.rowsDropped).toBe(1)
  aheadMs += 60_000
  await expect.poll(() => stats.rowsDropped).toBe(2)
  await own.proxy.restore()
  // One that is kept is asked for again at its place in the cycle.
  for (let tries = 0; stats.rowsWritten === 0 && tries < 10; tries++) {
    const before = stats.responses
    aheadMs += 60_000
    await expect.poll(() => stats.responses).toBeGreaterThan(before)
    await expect.poll(() => stats.rowsWritten + stats.rowsDropped).toBe(stats.responses)
  }
  expect(stats.rowsWritten).toBe(1)
})
