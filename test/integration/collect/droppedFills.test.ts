import { randomBytes } from 'node:crypto'
import { expect, test } from 'vitest'
import { type FillsPoller, fillsPoller } from '../../../src/collect/poll/fillsPoller.js'
import { streams } from '../../../src/collect/streams/streams.js'
import { hourMs } from '../../../src/market/values.js'
import { clientOf, envelope, startFakeService } from '../../support/fakeService.js'
import { aTicker } from '../../support/marketRows.js'
import { pollContext } from '../../support/pollContext.js'
import { batchOf } from '../../support/batches.js'
import { at, queueUnderTest } from '../../support/queueUnderTest.js'

const own = queueUnderTest()

test('fills that were on the disk and had to make room there are asked for again at once', async () => {
  await own.closeQueue()
  const asking: { poller?: FillsPoller } = {}
  await own.openQueue({ maxBytes: 60_000, onDropped: (batches) => asking.poller?.dropped?.(batches) })
  await own.proxy.refuse()
  let requests = 0
  // One in an hour: it would not be asked again by itself for long.
  const fill = `{"execId":"1","price":"1","size":"1","side":"buy","ts":"${at - hourMs}"}`
  const service = await startFakeService((_request, response) => {
    requests++
    response.end(envelope(`[${fill}]`))
  })
  const client = clientOf(service.url)
  const stopping = new AbortController()
  const context = pollContext(own, client, stopping.signal)
  const limits = { kind: 'overlap', minPollMs: 100, maxPollMs: 600_000, allowedPerSecond: 18 } as const
  const poller = fillsPoller(context, streams.fills, limits)
  asking.poller = poller
  try {
    poller.retarget([{ category: 'SPOT', symbol: 'QUIETUSDT' }])
    await expect.poll(() => own.queue.backlog().spooledBytes).toBeGreaterThan(0)
    expect(requests).toBe(1)
    for (let index = 0; own.stats.fills.rowsDropped === 0; index++) {
      const lastPrice = `0.${BigInt(`0x${randomBytes(400).toString('hex')}`)}`
      await own.queue.write(
        batchOf('tickers', { category: 'SPOT' }, [aTicker({ ts: at + index, lastPrice })], at + index),
      )
    }
    await expect.poll(() => requests).toBeGreaterThan(1)
  } finally {
    stopping.abort()
    await poller.stop()
    client.close()
    await service.close()
  }
})
