import { pino } from 'pino'
import { afterEach, beforeEach, describe, expect, it, test } from 'vitest'
import { Incidents } from '../../../src/runtime/incidents.js'
import { type CandlePoller, candlePoller } from '../../../src/collect/poll/candlePoller.js'
import { type CandleTarget } from '../../../src/ledger/batch.js'
import { streams } from '../../../src/collect/streams/streams.js'
import { Universe } from '../../../src/collect/universe/universe.js'
import type { ExchangeClient } from '../../../src/exchange/client.js'
import { candleStream } from '../../../src/db/series.js'
import type { Instrument } from '../../../src/market/instrument.js'
import { coveredRanges } from '../../support/coverage.js'
import { noTradeRanges } from '../../support/noTradeRanges.js'
import { systemClock } from '../../../src/runtime/clock.js'
import { clientOf, envelope, type FakeService, startFakeService } from '../../support/fakeService.js'
import { aTicker } from '../../support/marketRows.js'
import { pollContext } from '../../support/pollContext.js'
import { queueUnderTest } from '../../support/queueUnderTest.js'

const own = queueUnderTest()

const minuteMs = 60_000
const hourMs = 60 * minuteMs
/** Just after a minute has begun. */
const start = Date.UTC(2026, 0, 5, 12) + 5_000
const minute = (index: number) => Math.floor(start / minuteMs) * minuteMs + index * minuteMs

let now: number
/** By how much this machine's clock is ahead of the service's. */
let aheadMs: number
/** By how much the wall clock was set back: the monotonic one goes on. */
let setBackMs: number
/** Opening times of the candles with a trade. */
let traded: number[]
/** Whether the limit of a request counts places on the time axis, or candles. */
let countsPlaces: boolean
let refused: ReadonlySet<string>
/** Whether something in between responds with an empty body. */
let isEmpty: boolean
/** What happens while a request is on its way. */
let meanwhile: () => void
let universe: Universe
let asked: { readonly symbol: string; readonly limit: number; readonly at: number }[]
let service: FakeService
let client: ExchangeClient
let incidents: Incidents
let stopping: AbortController
let poller: CandlePoller
const closings = new Map<string, () => void>()

beforeEach(async () => {
  now = start
  aheadMs = 0
  setBackMs = 0
  countsPlaces = true
  refused = new Set()
  isEmpty = false
  meanwhile = () => undefined
  universe = new Universe()
  asked = []
  service = await startFakeService((_request, response, url) => {
    const symbol = url.searchParams.get('symbol') ?? ''
    const limit = Number(url.searchParams.get('limit'))
    asked.push({ symbol, limit, at: now })
    meanwhile()
    if (isEmpty) return void response.end()
    if (refused.has(symbol)) {
      response.writeHead(400).end(`{"code":"48001","msg":"not supported","requestTime":${now},"data":null}`)
      return
    }
    const until = traded.filter((time) => time <= now)
    const shown = countsPlaces ? until.filter((time) => time > now - limit * minuteMs) : until.slice(-limit)
    const rows = shown.map((time) => [String(time), '1', '2', '1', '1.5', '10', String(time % 1000)])
    response.end(envelope(JSON.stringify(rows), now))
  })
  // What is compared with candles stands still until a test moves it; pauses take as long as they take.
  const clock = { ...systemClock, now: () => now + aheadMs }
  client = clientOf(service.url, { clock })
  const logger = pino({ level: 'silent' })
  incidents = new Incidents(logger, clock)
  stopping = new AbortController()
  const context = {
    ...pollContext(own, client, stopping.signal, clock),
    incidents,
    clock: { ...clock, monotonicMs: () => now - setBackMs },
    universe,
  }
  poller = candlePoller(context, streams.candles, 0, (_clock, expression, run) => {
    closings.set(expression, run)
    return () => void closings.delete(expression)
  })
})
afterEach(async () => {
  stopping.abort()
  await poller.stop()
  client.close()
  await service.close()
})

const targetOf = (symbol: string, interval: '1m' | '3m'): CandleTarget => ({
  category: 'SPOT',
  symbol,
  type: 'market',
  interval,
  settleMs: 0,
  limit: 3,
})

/** The interval closes at a time; resolves when the target has been answered. */
async function closeAt(time: number, expression: string, target: CandleTarget): Promise<void> {
  now = time
  closings.get(expression)?.()
  await isAnswered(target)
}

function isAnswered(target: CandleTarget): Promise<void> {
  return expect.poll(() => poller.respondedAt(target), { interval: 10 }).toBe(now)
}

describe('the first response after a silence', () => {
  const from = (first: number, last: number) =>
    Array.from({ length: last - first + 1 }, (_, index) => minute(first + index))

  it('is followed by one that reaches back to the last candle before it, so that the silence is proven', async () => {
    const target = targetOf('FOLLOWED', '1m')
    traded = [...from(-30, -21), ...from(18, 20)]
    poller.retarget([target])
    await isAnswered(target)
    await closeAt(start + 20 * minuteMs, '0 */1 * * * *', target)
    await poller.stop()
    // From the last response with two to spare, which does not reach the candle at -21; then from that one.
    expect(asked.map(({ limit }) => limit)).toEqual([1000, 32, 54])
    expect(await coveredRanges(own.database.database.db, candleStream(target))).toEqual([
      { from: minute(-30), to: minute(20) },
    ])
    expect(await noTradeRanges(own.database.database.db, target)).toMatchObject([{ from: minute(-20), to: minute(18) }])
  })

  it('is enough when it shows the last candle before the silence itself', async () => {
    countsPlaces = false
    const target = targetOf('ENOUGH', '1m')
    traded = [...from(-30, -21), ...from(18, 20)]
    poller.retarget([target])
    await isAnswered(target)
    await closeAt(start + 20 * minuteMs, '0 */1 * * * *', target)
    await poller.stop()
    expect(asked.map(({ limit }) => limit)).toEqual([1000, 32])
    expect(await coveredRanges(own.database.database.db, candleStream(target))).toEqual([
      { from: minute(-30), to: minute(20) },
    ])
  })

  it('needs no other when nothing was traded since either', async () => {
    const target = targetOf('SILENT', '1m')
    traded = from(-30, -21)
    poller.retarget([target])
    await isAnswered(target)
    await closeAt(start + 20 * minuteMs, '0 */1 * * * *', target)
    await poller.stop()
    expect(asked.map(({ limit }) => limit)).toEqual([1000, 32])
    expect(await coveredRanges(own.database.database.db, candleStream(target))).toEqual([
      { from: minute(-30), to: minute(-20) },
    ])
  })
})

test('a response that neither the database nor the disk took is as if it had not come: the next one reaches as far back', async () => {
  const target = targetOf('UNKEPT', '1m')
  traded = [minute(-30), minute(-1)]
  await own.proxy.refuse()
  await own.breakDisk()
  poller.retarget([target])
  await expect.poll(() => own.stats.candles.rowsDropped).toBeGreaterThan(0)
  await own.proxy.restore()
  now = start + minuteMs
  closings.get('0 */1 * * * *')?.()
  await expect.poll(() => asked.length).toBe(2)
  expect(asked.map(({ limit }) => limit)).toEqual([1000, 1000])
})

test('empty bodies of a moment are as if no response had come: the next one comes after the next close and reaches as far back', async () => {
  const target = targetOf('EMPTY', '1m')
  traded = [minute(-30), minute(-1)]
  const requestAfterClose = async (index: number, requests: number, body: 'empty' | 'whole') => {
    isEmpty = body === 'empty'
    now = start + index * minuteMs
    // As long as the request before is not over, there is none. A close that is told of again before the busy machine has asked
    // would bring a request too many.
    let closeMs = -Infinity
    const close = () => {
      if (asked.length < requests && performance.now() > closeMs + 1_000) {
        closeMs = performance.now()
        closings.get('0 */1 * * * *')?.()
      }
      return asked.length
    }
    await expect.poll(close, { interval: 10 }).toBe(requests)
    await isTaken()
  }
  // The poller tells the time of a response once the queue has taken it, so time stands still until then.
  const isTaken = async () => {
    const taken = () => own.stats.candles.responses - own.queue.backlog().batches
    await expect.poll(taken, { interval: 10 }).toBe(asked.length)
  }
  isEmpty = true
  poller.retarget([target])
  await expect.poll(() => asked.length).toBe(1)
  await isTaken()
  // The first request came just before a close.
  await requestAfterClose(0.1, 2, 'empty')
  await requestAfterClose(1, 3, 'whole')
  await requestAfterClose(2, 4, 'empty')
  await requestAfterClose(3, 5, 'whole')
  expect(asked.map(({ limit }) => limit)).toEqual([1000, 1000, 1000, 13, 14])
})

test('a trade that a ticker tells of while a response is on its way is news: the response may not hold it', async () => {
  const target = targetOf('MASKED', '1m')
  const tells = (volume24h: string) =>
    universe.setTickers([aTicker({ category: 'SPOT', symbol: 'MASKED', ts: now, receivedAt: now, volume24h })])
  universe.setInstruments('SPOT', [{ category: 'SPOT', symbol: 'MASKED', status: 'online' } as Instrument], true)
  traded = [minute(-30), minute(-1)]
  tells('100')
  poller.retarget([target])
  await isAnswered(target)
  meanwhile = () => tells('110')
  await closeAt(start + minuteMs, '0 */1 * * * *', target)
  // After a response without news the series is otherwise not asked for each minute.
  await closeAt(start + 2 * minuteMs, '0 */1 * * * *', target)
  expect(asked).toHaveLength(3)
})

test.each([-8, -0.25, 0.25, 8, 24])('is not silent while it trades, with the clock %f hours ahead', async (hours) => {
  aheadMs = hours * hourMs
  const target = targetOf('TRADING', '1m')
  const ticker = { category: 'SPOT', symbol: 'TRADING', ts: now, volume24h: '100', turnover24h: '100' } as const
  universe.setInstruments('SPOT', [{ category: 'SPOT', symbol: 'TRADING', status: 'online' } as Instrument], true)
  universe.setTickers([aTicker(ticker)])
  traded = [minute(-10 * 60), minute(-1), minute(0)]
  poller.retarget([target])
  await isAnswered(target)
  await closeAt(start + minuteMs, '0 */1 * * * *', target)
  const turnover = () => universe.planned().instruments[0]?.turnover24h
  expect(turnover()).toBe('100')
  // After hours without a trade it is silent.
  traded = [minute(-10 * 60)]
  await closeAt(start + 7 * hourMs, '0 */1 * * * *', target)
  await expect.poll(turnover).toBe('0')
})

describe('an interval that an instrument does not have', () => {
  it('is asked for again a day later and not before, is no incident, and keeps no other from being asked for', async () => {
    refused = new Set(['WITHOUT'])
    traded = [minute(-6), minute(-3)]
    const without = targetOf('WITHOUT', '3m')
    const other = targetOf('OTHER', '3m')
    poller.retarget([without, other])
    await isAnswered(other)
    const isRefused = (times: number) => expect.poll(() => own.stats.candles.failures, { interval: 10 }).toBe(times)
    await isRefused(1)
    for (const hours of [1, 12, 23.75, 24, 25, 47.75]) {
      await closeAt(start + hours * hourMs, '0 */3 * * * *', other)
      await isRefused(hours < 24 ? 1 : 2)
      // A new list of targets with the same series in it changes nothing.
      poller.retarget([without, other])
    }
    await poller.stop()
    const hoursOf = (symbol: string) =>
      asked.filter((request) => request.symbol === symbol).map(({ at }) => (at - start) / hourMs)
    expect(hoursOf('WITHOUT')).toEqual([0, 24])
    expect(hoursOf('OTHER')).toEqual([0, 1, 12, 23.75, 24, 25, 47.75])
    expect(incidents.recent()).toEqual([])
  })
})
