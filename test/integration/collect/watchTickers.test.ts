import { pino } from 'pino'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { watchTickers } from '../../../src/collect/poll/watchTickers.js'
import { Universe } from '../../../src/collect/universe/universe.js'
import type { ExchangeClient } from '../../../src/exchange/client.js'
import type { Instrument } from '../../../src/market/instrument.js'
import type { Ticker } from '../../../src/market/ticker.js'
import { type Clock, systemClock } from '../../../src/runtime/clock.js'
import { clientOf, envelope, type FakeService, startFakeService } from '../../support/fakeService.js'

const everyMs = 40
const logger = pino({ level: 'silent' })
const spot = { category: 'SPOT', symbol: 'AUSDT' } as const

let service: FakeService
let client: ExchangeClient
let universe: Universe
let ending: AbortController
let volume: number
let isFailing: boolean

beforeEach(async () => {
  volume = 0
  isFailing = false
  service = await startFakeService((_request, response) => {
    if (isFailing) return void response.writeHead(500).end('busy')
    volume++
    const row = { category: 'SPOT', symbol: 'AUSDT', ts: String(1_760_000_000_000 + volume), volume24h: String(volume) }
    response.end(envelope(JSON.stringify([{ ...row, lastPrice: '2' }])))
  })
  client = clientOf(service.url)
  universe = new Universe()
  universe.setInstruments('SPOT', [{ ...spot, status: 'online' } as Instrument])
  ending = new AbortController()
})
afterEach(async () => {
  ending.abort()
  client.close()
  await service.close()
})

const watch = (clock: Clock = systemClock, isWorthwhile = () => true) =>
  watchTickers(
    { client, clock, universe, logger, signal: ending.signal },
    { categories: ['SPOT'], everyMs, isWorthwhile },
  )
const knownVolume = () => Number(universe.tradeSign(spot)?.volume24h ?? 0)

test('looks at the tickers of each category again and again, and ends', async () => {
  const watching = watch()
  await vi.waitFor(() => expect(knownVolume()).toBeGreaterThan(3), 20_000)
  expect(new Set(service.requests)).toEqual(new Set(['/api/v3/market/tickers?category=SPOT']))
  ending.abort()
  await watching
  const requests = service.requests.length
  await systemClock.sleep(3 * everyMs)
  expect(service.requests).toHaveLength(requests)
})

test('looks only while more tickers help', async () => {
  let [isWorthwhile, times] = [false, 0]
  const watching = watch(systemClock, () => {
    times++
    return isWorthwhile
  })
  await vi.waitFor(() => expect(times).toBeGreaterThan(3), 20_000)
  expect(service.requests).toEqual([])
  isWorthwhile = true
  await vi.waitFor(() => expect(service.requests.length).toBeGreaterThan(1), 20_000)
  ending.abort()
  await watching
})

test('does not look while those that are recorded have only just come', async () => {
  let looks = 0
  const recorded = { ...spot, ts: 1_760_000_000_000, volume24h: '7', lastPrice: '2' }
  const clock: Clock = {
    ...systemClock,
    sleep: async (ms, signal) => {
      await systemClock.sleep(ms, signal)
      looks++
      universe.setTickers([{ ...recorded, receivedAt: clock.now() } as Ticker])
    },
  }
  const watching = watch(clock)
  await vi.waitFor(() => expect(looks).toBeGreaterThan(5), 20_000)
  ending.abort()
  await watching
  expect(service.requests).toEqual([])
})

test('goes on after failures', async () => {
  isFailing = true
  const watching = watch()
  await vi.waitFor(() => expect(service.requests.length).toBeGreaterThan(2), 20_000)
  expect(knownVolume()).toBe(0)
  isFailing = false
  await vi.waitFor(() => expect(knownVolume()).toBeGreaterThan(0), 20_000)
  ending.abort()
  await watching
})
