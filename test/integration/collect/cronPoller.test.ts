import { pino } from 'pino'
import { expect, test } from 'vitest'
import { ClockSkew } from '../../../src/collect/poll/clockSkew.js'
import { cronPoller } from '../../../src/collect/poll/cronPoller.js'
import { RejectionCap } from '../../../src/collect/poll/rejectionCap.js'
import { streams } from '../../../src/collect/streams.js'
import { Universe } from '../../../src/collect/universe/universe.js'
import { systemClock } from '../../../src/runtime/clock.js'
import { Incidents } from '../../../src/runtime/incidents.js'
import { clientOf, envelope, startFakeService } from '../../support/fakeService.js'
import { sinkUnderTest } from '../../support/sinkUnderTest.js'

const own = sinkUnderTest()

test('a request by schedule is due by the next time, so that nothing that is always overdue keeps it waiting for ever', async () => {
  const service = await startFakeService((_request, response) => void response.end(envelope('[]')))
  const client = clientOf(service.url)
  const stopping = new AbortController()
  const logger = pino({ level: 'silent' })
  const waits: number[] = []
  const noting: typeof streams.tickers = {
    ...streams.tickers,
    fetch: (from, target, options) => {
      waits.push((options.deadline ?? Infinity) - systemClock.monotonicMs())
      return streams.tickers.fetch(from, target, options)
    },
  }
  const context = {
    client,
    sink: own.sink,
    stats: own.stats,
    incidents: new Incidents(logger, systemClock),
    clock: systemClock,
    logger,
    universe: new Universe(),
    clockSkew: new ClockSkew(systemClock, logger),
    rejectionCap: new RejectionCap(),
    signal: stopping.signal,
  }
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
