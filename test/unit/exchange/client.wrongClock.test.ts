import { pino } from 'pino'
import { describe, expect, it } from 'vitest'
import { ServiceClock } from '../../../src/exchange/serviceClock.js'
import { systemClock } from '../../../src/runtime/clock.js'
import { clientOf, envelope, startFakeService } from '../../support/fakeService.js'
import { failure, oneResponse } from '../../support/oneResponse.js'

const exchange = oneResponse()

describe('a client that knows the time', () => {
  const now = Date.now()
  const guarded = async (body: string) => {
    await exchange.answering(body)
    return clientOf(exchange.service.url, { serviceClock: new ServiceClock(systemClock, pino({ level: 'silent' })) })
  }

  it('takes a response with a wrong clock for none', async () => {
    const reader = await guarded(envelope('[]', Date.UTC(4000, 0, 1)))
    const error = await failure(reader.fills({ category: 'SPOT', symbol: 'BTCUSDT' }))
    reader.close()
    expect(error).toMatchObject({ kind: 'wrong-clock', retryable: true })
    expect(error.message).toMatch(/a requestTime that is \d+ minutes ahead of this machine's clock; set this machine's/)
  })

  it('gives an empty body the time that the service has told before, and fails without one', async () => {
    const aheadMs = 8 * 3_600_000
    const clock = { ...systemClock, now: () => systemClock.now() + aheadMs }
    const serviceClock = new ServiceClock(clock, pino({ level: 'silent' }))
    const candles = { category: 'SPOT', symbol: 'NEWUSDT', type: 'market', interval: '1m' } as const
    await exchange.answering('')
    const reader = clientOf(exchange.service.url, { serviceClock, clock })
    expect(await failure(reader.candles(candles))).toMatchObject({ kind: 'malformed', retryable: true })
    serviceClock.judge({ requestTime: now, receivedAt: now, receivedMs: clock.monotonicMs(), roundTripMs: 0 })
    const { requestTime, receivedAt } = await reader.candles(candles)
    reader.close()
    expect(Math.abs(requestTime - now)).toBeLessThan(60_000)
    expect(Math.abs(receivedAt - now - aheadMs)).toBeLessThan(60_000)
  })

  it('does not take a candle for closed because one server of several is minutes ahead', async () => {
    await forms(0)
    await forms(4)
  })

  /** Requests a forming candle from a server that is ahead, after so many responses of others. */
  const forms = async (honest: number) => {
    const openTime = Math.floor(Date.now() / 3_600_000) * 3_600_000
    const candle = `[["${openTime}","1","1","1","1","5","5"]]`
    const asked = { category: 'SPOT', symbol: 'BTCUSDT', type: 'market', interval: '1H' } as const
    let aheadMs = 0
    const now = openTime + 3_590_000
    const servers = await startFakeService((_, response) => void response.end(envelope(candle, now + aheadMs)))
    const clock = { ...systemClock, now: () => now }
    const serviceClock = new ServiceClock(clock, pino({ level: 'silent' }))
    const reader = clientOf(servers.url, { serviceClock, clock })
    for (let i = 0; i < honest; i++) await reader.candles(asked)
    aheadMs = 280_000
    await reader.candles(asked)
    const { rows, requestTime } = await reader.candles(asked)
    reader.close()
    await servers.close()
    expect(rows).toMatchObject([{ openTime, isClosed: false }])
    expect(requestTime).toBeLessThan(openTime + 3_600_000)
  }

  /** A client of a service whose responses, one a second, have one ticker of this moment and times that are off. */
  const steppedClient = async (
    aheadMsOf: (place: number) => number,
    onResponse: (off: number, rows: number) => void,
  ) => {
    let [passedMs, aheadMs] = [0, 0]
    const clock = {
      ...systemClock,
      now: () => systemClock.now() + passedMs,
      monotonicMs: () => systemClock.monotonicMs() + passedMs,
      uptimeMs: () => systemClock.uptimeMs() + passedMs,
    }
    const servers = await startFakeService((_, response) => {
      const row = { symbol: 'A', ts: `${clock.now() + Math.max(0, aheadMs)}` }
      response.end(envelope(JSON.stringify([row]), clock.now() + aheadMs))
    })
    const serviceClock = new ServiceClock(clock, pino({ level: 'silent' }))
    const reader = clientOf(servers.url, { serviceClock, clock })
    for (let place = 0; place < 300; place++) {
      aheadMs = aheadMsOf(place)
      const page = await reader.tickers({ category: 'SPOT' })
      onResponse(page.requestTime - clock.now(), page.rows.length)
      passedMs += 1_000
    }
    reader.close()
    await servers.close()
  }

  it("rejects no row after a step of the service's clock, and judges by the new time within a minute", async () => {
    const lateAt: number[] = []
    let place = 0
    await steppedClient(
      (at) => (at < 150 ? 0 : 200_000),
      (off, rows) => {
        expect(rows).toBe(1)
        expect(off).toBeLessThanOrEqual(201_000)
        if (place++ >= 150 && off < 199_000) lateAt.push(place - 150)
      },
    )
    expect(lateAt.at(-1)).toBeLessThan(60)
  })

  it.each([
    ['one of two', 2, -200_000],
    ['one of four', 4, -70_000],
  ])('rejects no row because %s servers is minutes behind', async (_, servers, behindMs) => {
    await steppedClient(
      (at) => (at % servers === servers - 1 ? behindMs : 0),
      (off, rows) => {
        expect(rows).toBe(1)
        expect(off).toBeLessThanOrEqual(1_000)
      },
    )
  })

  it('rejects rows of a time that cannot be, and takes 0 for none', async () => {
    const ticker = (symbol: string, ts: number) => ({ symbol, ts: `${ts}` })
    const rows = [
      ticker('A', now),
      ticker('B', Date.UTC(9999, 0, 1)),
      ticker('C', now + 600_000),
      ticker('D', 1),
      ticker('E', 0),
      ticker('F', now + 30_000),
    ]
    const reader = await guarded(envelope(JSON.stringify(rows), now))
    const page = await reader.tickers({ category: 'SPOT' })
    expect(page.rows.map(({ symbol, ts }) => [symbol, ts])).toEqual([
      ['A', now],
      ['E', now],
      ['F', now + 30_000],
    ])
    expect(page.rejected.map(({ reason }) => reason)).toEqual([
      'a time that cannot be: 9999-01-01T00:00:00.000Z',
      `a time that cannot be: ${new Date(now + 600_000).toISOString()}`,
      'a time that cannot be: 1970-01-01T00:00:00.001Z',
    ])
    reader.close()
  })
})
