import { pino } from 'pino'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { watchTickers } from '../../../src/collect/poll/fillsPoller.js'
import { Universe } from '../../../src/collect/universe/universe.js'
import type { ExchangeClient } from '../../../src/exchange/client.js'
import type { Category } from '../../../src/market/category.js'
import type { Instrument } from '../../../src/market/instrument.js'
import { systemClock } from '../../../src/runtime/clock.js'
import { aTicker } from '../../support/marketRows.js'
import { clientOf, envelope, type FakeService, startFakeService } from '../../support/fakeService.js'

const gapMs = 40
const logger = pino({ level: 'silent' })
const spot = { category: 'SPOT', symbol: 'AUSDT' } as const

let service: FakeService
let client: ExchangeClient
let universe: Universe
let ending: AbortController
let volume: number
let isFailing: boolean
/** Responses for futures wait for it. */
let futuresGate: Promise<void>

beforeEach(async () => {
  volume = 0
  isFailing = false
  futuresGate = Promise.resolve()
  service = await startFakeService(async (request, response) => {
    if (request.url?.includes('FUTURES')) await futuresGate
    if (isFailing) return void response.writeHead(500).end('busy')
    volume++
    const row = { category: 'SPOT', symbol: 'AUSDT', ts: String(1_760_000_000_000 + volume), volume24h: String(volume) }
    response.end(envelope(JSON.stringify([{ ...row, lastPrice: '2' }])))
  })
  client = clientOf(service.url)
  universe = new Universe()
  universe.setInstruments('SPOT', [{ ...spot, status: 'online' } as Instrument], true)
  ending = new AbortController()
})
afterEach(async () => {
  ending.abort()
  client.close()
  await service.close()
})

type Watch = Parameters<typeof watchTickers>[1]
type WorthOf = (category: Category, sinceMs: number) => number
const watch = (worthOfTickers: WorthOf = () => 1, options: Partial<Watch> = {}, tickersCame = () => {}) =>
  watchTickers(
    { client, clock: systemClock, serviceNow: () => Date.now(), universe, logger, signal: ending.signal },
    { categories: ['SPOT'], minMs: 0, gapMs, ...options },
    { worthOfTickers, tickersCame },
  )
const knownVolume = () => Number(universe.tradeSign(spot)?.volume24h ?? 0)

test('reads the tickers of a category again and again, tells of each read, and ends', async () => {
  const told: number[] = []
  const watching = watch(
    () => 1,
    {},
    () => void told.push(knownVolume()),
  )
  await vi.waitFor(() => expect(knownVolume()).toBeGreaterThan(3), 120_000)
  expect(told.slice(0, 3)).toEqual([1, 2, 3])
  expect(new Set(service.requests)).toEqual(new Set(['/api/v3/market/tickers?category=SPOT']))
  ending.abort()
  await watching
  const requests = service.requests.length
  await systemClock.sleep(3 * gapMs)
  expect(service.requests).toHaveLength(requests)
})

test('reads only where a read is worth a request', async () => {
  let [worth, times] = [0.9, 0]
  const watching = watch(() => {
    times++
    return worth
  })
  await vi.waitFor(() => expect(times).toBeGreaterThan(3), 120_000)
  expect(service.requests).toEqual([])
  worth = 1
  await vi.waitFor(() => expect(service.requests.length).toBeGreaterThan(1), 120_000)
  ending.abort()
  await watching
})

test('reads where it is worth most, and elsewhere while that read lasts', async () => {
  const worth = { SPOT: 2, 'COIN-FUTURES': 3, 'USDC-FUTURES': 0.9 }
  let openGate = () => {}
  futuresGate = new Promise((resolve) => {
    openGate = resolve
  })
  const categories = ['SPOT', 'USDC-FUTURES', 'COIN-FUTURES'] as const
  const watching = watch((category) => worth[category as keyof typeof worth], { categories })
  await vi.waitFor(() => expect(service.requests).toContain('/api/v3/market/tickers?category=SPOT'), 120_000)
  expect(service.requests[0]).toContain('COIN-FUTURES')
  expect(service.requests.filter((path) => path.includes('USDC'))).toEqual([])
  ending.abort()
  openGate()
  await watching
})

test('does not read again before the least time has passed since the newest tickers came', async () => {
  let times = 0
  universe.setTickers([aTicker({ ...spot, ts: Date.now() })])
  const watching = watch(
    () => {
      times++
      return 1
    },
    { minMs: 60_000 },
  )
  await systemClock.sleep(5 * gapMs)
  expect(times).toBe(0)
  ending.abort()
  await watching
  expect(service.requests).toEqual([])
})

test('asks how much a read is worth by the time since the newest tickers came', async () => {
  const asked: number[] = []
  universe.setTickers([aTicker({ ...spot, ts: Date.now() - 5_000 })])
  const watching = watch((_category, sinceMs) => {
    asked.push(sinceMs)
    return 0
  })
  await vi.waitFor(() => expect(asked.length).toBeGreaterThan(2), 120_000)
  for (const sinceMs of asked) expect(sinceMs).toBeGreaterThanOrEqual(5_000)
  expect(asked).toEqual(asked.toSorted((a, b) => a - b))
  ending.abort()
  await watching
})

test('goes on after failures', async () => {
  isFailing = true
  const watching = watch()
  await vi.waitFor(() => expect(service.requests.length).toBeGreaterThan(2), 120_000)
  expect(knownVolume()).toBe(0)
  isFailing = false
  await vi.waitFor(() => expect(knownVolume()).toBeGreaterThan(0), 120_000)
  ending.abort()
  await watching
})
