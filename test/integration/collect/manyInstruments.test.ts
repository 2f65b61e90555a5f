import { expect, test } from 'vitest'
import { cronPoller } from '../../../src/collect/poll/cronPoller.js'
import { streams } from '../../../src/collect/streams/streams.js'
import { type Clock, systemClock } from '../../../src/runtime/clock.js'
import { clientOf, envelope, startFakeService } from '../../support/fakeService.js'
import { pollContext } from '../../support/pollContext.js'
import { queueUnderTest } from '../../support/queueUnderTest.js'

const own = queueUnderTest()

test('instruments beyond the bound of a category are counted and named, and neither stored nor requested', async () => {
  const rows = Array.from({ length: 9_000 }, (_, place) => {
    return { category: 'SPOT', symbol: `S${place}`, baseCoin: 'S', quoteCoin: 'USDT', status: 'online' }
  })
  const service = await startFakeService((_request, response, url) => {
    const category = url.searchParams.get('category') ?? ''
    const listed = category === 'SPOT' ? rows : [{ ...rows[0], category }]
    response.end(envelope(JSON.stringify(listed)))
  })
  const client = clientOf(service.url)
  const stopping = new AbortController()
  let aheadMs = 0
  const clock: Clock = { ...systemClock, monotonicMs: () => systemClock.monotonicMs() + aheadMs }
  const context = pollContext(own, client, stopping.signal, clock)
  const poller = cronPoller(context, streams.instruments, '0 0 0 1 1 *', () => undefined)
  poller.retarget([{ category: 'SPOT' }])
  expect(await poller.pollAll()).toBe('all')
  aheadMs = 20_000
  // The list of another category says nothing about this one.
  poller.retarget([{ category: 'MARGIN' }])
  expect(await poller.pollAll()).toBe('all')
  await expect.poll(() => own.stats.instruments.rowsWritten).toBe(6_001)
  // A slow machine requests the list again, and counts a response again that also waited on the disk.
  const { rowsRejected } = own.stats.instruments
  expect([rowsRejected > 0, rowsRejected % 3_000]).toEqual([true, 0])
  expect(context.universe.planned().instruments).toHaveLength(6_001)
  const [incident] = context.incidents.recent()
  expect(incident).toMatchObject({ what: 'instruments rows', until: null })
  expect(incident?.message).toContain('3000 rows of a response were left out')
  stopping.abort()
  await poller.stop()
  client.close()
  await service.close()
})
