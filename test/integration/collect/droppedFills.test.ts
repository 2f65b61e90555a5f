import { randomBytes } from 'node:crypto'
import { pino } from 'pino'
import { expect, test } from 'vitest'
import { ClockSkew } from '../../../src/collect/poll/clockSkew.js'
import { fillsPoller } from '../../../src/collect/poll/fillsPoller.js'
import { RejectionCap } from '../../../src/collect/poll/rejectionCap.js'
import { streams } from '../../../src/collect/streams.js'
import { Universe } from '../../../src/collect/universe/universe.js'
import { hourMs } from '../../../src/market/values.js'
import { systemClock } from '../../../src/runtime/clock.js'
import { Incidents } from '../../../src/runtime/incidents.js'
import { clientOf, envelope, startFakeService } from '../../support/fakeService.js'
import { aTicker } from '../../support/marketRows.js'
import { at, batchOf, sinkUnderTest } from '../../support/sinkUnderTest.js'

const own = sinkUnderTest()

test('fills that were on the disk and had to make room there are asked for again at once', async () => {
  await own.closeSink()
  await own.openSink({ maxBytes: 60_000 })
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
  const logger = pino({ level: 'silent' })
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
  const limits = { kind: 'overlap', minPollMs: 100, maxPollMs: 600_000, allowedPerSecond: 18 } as const
  const poller = fillsPoller(context, streams.fills, limits)
  try {
    poller.retarget([{ category: 'SPOT', symbol: 'QUIETUSDT' }])
    await expect.poll(() => own.sink.backlog().spooledBytes, { timeout: 60_000 }).toBeGreaterThan(0)
    expect(requests).toBe(1)
    for (let index = 0; own.stats.fills.rowsDropped === 0; index++) {
      const lastPrice = `0.${BigInt(`0x${randomBytes(400).toString('hex')}`)}`
      await own.sink.write(
        batchOf('tickers', { category: 'SPOT' }, [aTicker({ ts: at + index, lastPrice })], at + index),
      )
    }
    await expect.poll(() => requests, { timeout: 60_000 }).toBeGreaterThan(1)
  } finally {
    stopping.abort()
    await poller.stop()
    client.close()
    await service.close()
  }
})
