import { expect, test } from 'vitest'
import { cronPoller } from '../../../src/collect/poll/cronPoller.js'
import { streams } from '../../../src/collect/streams/streams.js'
import { systemClock } from '../../../src/runtime/clock.js'
import { clientOf, envelope, startFakeService } from '../../support/fakeService.js'
import { pollContext } from '../../support/pollContext.js'
import { queueUnderTest } from '../../support/queueUnderTest.js'

const own = queueUnderTest()

test('a request by schedule is due by the next time, so that nothing that is always overdue keeps it waiting for ever', async () => {
  const service = await startFakeService((_request, response) => void response.end(envelope('[]')))
  const client = clientOf(service.url)
  const stopping = new AbortController()
  const waits: number[] = []
  const noting: typeof streams.tickers = {
    ...streams.tickers,
    fetch: (from, target, options) => {
      waits.push((options.deadline ?? Infinity) - systemClock.monotonicMs())
      return streams.tickers.fetch(from, target, options)
    },
  }
  const context = pollContext(own, client, stopping.signal)
  const poller = cronPoller(context, noting, '*/5 * * * * *', () => undefined)
  poller.retarget([{ category: 'SPOT' }])
  await poller.pollAll?.()
  stopping.abort()
  await poller.stop()
  client.close()
  await service.close()
  // Noted a little later than it was reckoned.
  expect(waits[0]).toBeLessThanOrEqual(5_000)
})
