import { pino } from 'pino'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { z } from 'zod'
import { loadConfig } from '../../../src/config/resolve.js'
import { createMetrics } from '../../../src/runtime/metrics.js'
import { recorderResponses } from '../../../src/serve/api/contract.js'
import { marketResponses } from '../../../src/serve/api/marketContract.js'
import { type RunningServer, startServer } from '../../../src/serve/server.js'
import { serviceMs } from '../../../src/market/values.js'
import { upsertCandles } from '../../../src/ledger/storeCandles.js'
import { openDatabase } from '../../../src/db/database.js'
import { type TestDatabase, createTestDatabase } from '../../support/database.js'
import { aCandle } from '../../support/marketRows.js'
import { insertPageMarket } from '../../support/insertPageMarket.js'
import { freshen, serveSource, settableSource } from '../../support/recorderSource.js'
import { systemClock } from '../../../src/runtime/clock.js'

const minute = 60_000
const dayMs = 86_400_000
/** The market's time stands still, so that no day or hour ends between two tests. */
const now = Date.now()
const today = Math.floor(now / dayMs) * dayMs
/** Two days ago: a whole day lies between it and now. */
const noon = today - 2 * dayMs + dayMs / 2
const series = { stream: 'candles', category: 'SPOT', symbol: 'BTCUSDT', type: 'market', interval: '1m' } as const

let testDatabase: TestDatabase
let server: RunningServer
const source = settableSource(Date.now() - 60_000)

beforeAll(async () => {
  testDatabase = await createTestDatabase()
  await insertPageMarket(testDatabase.database.db, noon, now)
  freshen(source, Date.now())
  source.state.serviceNow = () => serviceMs(now)
  server = await serveSource(source, testDatabase.url)
})

afterAll(async () => {
  await server?.close()
  await testDatabase?.drop()
})

/** Runs something at the time of the service at which the newest stored minute forms. */
async function whileMinutesAreNew(run: () => Promise<void>): Promise<void> {
  source.state.serviceNow = () => serviceMs(noon + 240 * minute - 1)
  try {
    await run()
  } finally {
    source.state.serviceNow = () => serviceMs(now)
  }
}

async function get<Schema extends z.ZodType>(path: string, schema: Schema): Promise<z.output<Schema>> {
  const response = await fetch(server.url + path)
  const body = await response.json()
  expect(response.status, JSON.stringify(body)).toBe(200)
  return schema.parse(body)
}

async function failure(path: string, init: RequestInit = {}): Promise<{ status: number; error: string }> {
  const response = await fetch(server.url + path, init)
  return { status: response.status, ...recorderResponses.failure.parse(await response.json()) }
}

describe('candles', () => {
  test('are the newest before a moment, ascending, exact to the last digit', async () => {
    const newest = '/api/candles?category=SPOT&symbol=BTCUSDT&limit=3'
    const { candles, source: read } = await get(newest, marketResponses.candles)
    expect(read).toBe('1m')
    expect(candles.map(({ openTime, close, isClosed }) => [(openTime - noon) / minute, close, isClosed])).toEqual([
      [237, '237.000000000000000001', true],
      [238, '238.000000000000000001', true],
      [239, '239.000000000000000001', false],
    ])
    const before = noon + 2 * minute
    const older = await get(`/api/candles?category=SPOT&symbol=BTCUSDT&before=${before}`, marketResponses.candles)
    expect(older.candles.map(({ openTime }) => (openTime - noon) / minute)).toEqual([0, 1])
  })

  test('come with what is proven and what is missing among them', async () => {
    const { covered, gaps } = await get('/api/candles?category=SPOT&symbol=BTCUSDT&limit=240', marketResponses.candles)
    expect(covered).toEqual([{ from: noon, to: noon + 240 * minute }])
    expect(gaps).toEqual([])
  })

  test('of an interval that is not recorded are rolled up from minutes', async () => {
    const path = '/api/candles?category=SPOT&symbol=BTCUSDT&interval=1H&limit=10'
    const { candles, source: read } = await get(path, marketResponses.candles)
    expect(read).toBe('1m')
    expect(candles).toHaveLength(4)
    expect(candles[0]).toEqual({
      openTime: noon,
      open: '10',
      high: '12',
      low: '9',
      close: '59.000000000000000001',
      baseVolume: '300.0',
      quoteTurnover: '3300.00',
      isClosed: true,
      isComplete: true,
    })
    expect(candles.map(({ isClosed }) => isClosed)).toEqual([true, true, true, false])
  })

  test('of an interval that is recorded are those', async () => {
    const { db } = testDatabase.database
    await upsertCandles(db, [aCandle({ symbol: 'ETHUSDT', interval: '1D', openTime: today - dayMs / 3 })])
    const path = '/api/candles?category=SPOT&symbol=ETHUSDT&interval=1D'
    const { candles, source: read } = await get(path, marketResponses.candles)
    expect(read).toBe('1D')
    expect(candles.map(({ openTime }) => openTime)).toEqual([today - dayMs / 3])
  })

  test('of an unknown instrument are none', async () => {
    const answer = await get('/api/candles?category=SPOT&symbol=NOSUCH', marketResponses.candles)
    expect(answer).toEqual({ candles: [], source: '1m', hasOlder: false, covered: [], gaps: [] })
  })
})

describe('instruments', () => {
  test('are found by a part of symbol or coin in any case, those with most turnover in dollars first', async () => {
    const { instruments } = await get('/api/instruments?search=eth', marketResponses.instruments)
    expect(instruments.map(({ symbol }) => symbol)).toEqual(['ETHUSDT', 'ETHBTC'])
    const all = await get('/api/instruments', marketResponses.instruments)
    expect(all.instruments[0]).toMatchObject({ category: 'SPOT', symbol: 'BTCUSDT' })
    const one = await get('/api/instruments?search=btc&category=USDT-FUTURES', marketResponses.instruments)
    expect(one.instruments.map(({ category, symbol }) => `${category} ${symbol}`)).toEqual(['USDT-FUTURES BTCUSDT'])
  })

  test.each([
    ['eth usdt', ['ETHUSDT']],
    ['usdt  ETH', ['ETHUSDT']],
    ['futures btc', ['BTCUSDT']],
    ['btc nonsense', []],
  ])('the words of "%s" are found wherever they stand', async (search, symbols) => {
    const path = `/api/instruments?search=${encodeURIComponent(search)}`
    const { instruments } = await get(path, marketResponses.instruments)
    expect(instruments.map(({ symbol }) => symbol)).toEqual(symbols)
  })

  test('are listed with their newest tickers, those without one left out', async () => {
    const { instruments } = await get('/api/market', marketResponses.market)
    const { ticker } = await get('/api/instrument?category=SPOT&symbol=BTCUSDT', marketResponses.instrument)
    const found = instruments.find(({ category, symbol }) => category === 'SPOT' && symbol === 'BTCUSDT')
    expect(found === undefined).toBe(ticker === null || ticker.ts < now - 3_600_000)
    if (found !== undefined) expect(found.lastPrice).toBe(ticker?.lastPrice)
  })

  test('the market says how much of a day of candles is proven', async () => {
    const { instruments } = await get('/api/market', marketResponses.market)
    const shares = new Map(instruments.map(({ category, completeShare }) => [category, completeShare]))
    // Yesterday is proven. In the first ten minutes of a day, as much of it as of the day before counts.
    const passedMs = Math.abs(now - 10 * minute - today)
    expect(shares.get('SPOT')).toBeCloseTo(1 - passedMs / dayMs, 2)
    expect(shares.get('USDT-FUTURES')).toBeNull()
  })

  test('a price curve has a place for each quarter, of candles or else of tickers', async () => {
    const path = '/api/curves?keys=SPOT:BTCUSDT,SPOT:NO:SUCH'
    const { curves } = await get(path, marketResponses.curves)
    const none = Array.from({ length: 96 }, () => null)
    expect(curves).toEqual([
      { category: 'SPOT', symbol: 'BTCUSDT', prices: [...none, '100.10'] },
      { category: 'SPOT', symbol: 'NO:SUCH', prices: [...none, null] },
    ])
    await whileMinutesAreNew(async () => {
      const prices = (await get(path, marketResponses.curves)).curves[0]?.prices ?? []
      // Four hours of candles, the newest of the minute before.
      expect(prices.filter((price) => price !== null)).toHaveLength(16)
      expect(prices.at(-1)).toBe('239.000000000000000001')
    })
    expect((await failure('/api/curves?keys=MOON:BTCUSDT')).error).toMatch(
      /^keys: must be at most 60 of CATEGORY:SYMBOL/,
    )
  })

  test('a percent sign is a letter like any other', async () => {
    expect((await get('/api/instruments?search=%25', marketResponses.instruments)).instruments).toEqual([])
  })

  test('one comes with its newest ticker and the book that tells the RPI part', async () => {
    const { ticker, book } = await get('/api/instrument?category=SPOT&symbol=BTCUSDT', marketResponses.instrument)
    expect(ticker).toMatchObject({ lastPrice: '100.10', fundingRate: null })
    expect(book?.bids).toEqual({ prices: ['240.00', '239.99'], sizes: ['1.0', '2'], rpiSizes: ['0', '0.5'] })
    const plain = await get('/api/instrument?category=SPOT&symbol=ETHUSDT&depth=1', marketResponses.instrument)
    expect(plain.book?.bids).toEqual({ prices: ['240.00'], sizes: ['1.0'], rpiSizes: null })
    expect(plain.ticker).toBeNull()
  })

  test('one of the past comes with what is stored of that moment', async () => {
    const of = async (at: number) =>
      get(`/api/instrument?category=SPOT&symbol=BTCUSDT&at=${at}`, marketResponses.instrument)
    const now = await get('/api/instrument?category=SPOT&symbol=BTCUSDT', marketResponses.instrument)
    const newest = now.ticker?.ts ?? 0
    expect((await of(newest - 60_000)).ticker?.ts).toBe(newest - 65_000)
    expect(await of(newest - 60_000)).toMatchObject({ book: null, fills: [] })
    expect((await of(newest + 1)).book?.bids.prices).toEqual(['240.00', '239.99'])
    expect(await of(newest + 3_600_000)).toMatchObject({ ticker: null, book: null, instrument: { symbol: 'BTCUSDT' } })
  })

  test('the busiest with candles is what a visitor sees first', async () => {
    const busiest = async () => (await get('/api/instruments/busiest', marketResponses.instruments)).instruments
    await whileMinutesAreNew(async () => {
      expect((await busiest()).map(({ category, symbol }) => `${category} ${symbol}`)).toEqual(['SPOT BTCUSDT'])
    })
    expect(await busiest(), 'candles of two days ago do not count').toEqual([])
  })
})

test('spread and funding come as points in time', async () => {
  const spot = await get('/api/history?category=SPOT&symbol=BTCUSDT&hours=1', marketResponses.history)
  expect(spot.stepMs).toBe(15_000)
  expect(spot.points.length).toBeGreaterThanOrEqual(20)
  expect(spot.points[0]).toMatchObject({ spreadBps: '9.9950', maxSpreadBps: '9.9950', fundingRate: null })
  const future = await get('/api/history?category=USDT-FUTURES&symbol=BTCUSDT', marketResponses.history)
  expect(future.points.map(({ fundingRate }) => fundingRate)).toEqual(['0.000149'])
})

describe('coverage', () => {
  test('by day', async () => {
    const { from, to, total, series: found } = await get('/api/calendar?days=3&search=btc', marketResponses.calendar)
    expect([from, to, total]).toEqual([today - 2 * dayMs, today + dayMs, 1])
    expect(found).toEqual([{ ...series, days: ['lost', 'empty', 'none'] }])
  })

  test('as exact ranges', async () => {
    const key = 'stream=candles&category=SPOT&symbol=BTCUSDT&type=market&interval=1m'
    const range = { from: today - 2 * dayMs, to: today - dayMs + 60 * minute }
    const answer = await get(`/api/coverage?${key}&from=${range.from}&to=${range.to}`, marketResponses.coverage)
    expect(answer.covered).toEqual([
      { from: noon, to: noon + 240 * minute },
      { from: today - dayMs, to: range.to },
    ])
    expect(answer.empty).toEqual([{ from: today - dayMs, to: range.to }])
    expect(answer.gaps).toMatchObject([{ from: noon - 10 * minute, to: noon, state: 'lost', reason: 'it was off' }])
  })

  test('nothing matches, nothing is answered', async () => {
    expect((await get('/api/calendar?search=nosuch', marketResponses.calendar)).total).toBe(0)
  })
})

describe('what cannot be answered is said in one line', () => {
  test.each([
    ['/api/candles?category=SPOT', 400, 'symbol: is missing'],
    ['/api/candles?category=SPOT&symbol=X&limit=9999', 400, 'limit: must be at most 1500'],
    ['/api/coverage?stream=fills&category=SPOT&symbol=X&from=5&to=5', 400, 'to: must be later than from'],
    [`/api/coverage?stream=fills&category=SPOT&symbol=X&from=0&to=${32 * dayMs}`, 400, 'to: must be at most 31 days'],
    ['/api/coverage?stream=candles&category=SPOT&symbol=X&from=0&to=5', 400, 'type, interval: candles need both'],
    ['/api/events?category=SPOT', 400, 'category, symbol: an instrument needs both'],
    ["/api/candles?category=SPOT&symbol=X&before=1'--", 400, 'before: must be a number'],
    ['/api/candles?category=SPOT&symbol=X%00', 400, 'symbol: must not hold control characters'],
    ['/api/instruments?search=%00', 400, 'search: must not hold control characters'],
    ['/api/candles?category=SPOT&symbol=X&before=8640000000000000', 400, 'before: must be at most 253402300799999'],
    ['/api/calendar?to=1e300', 400, 'to: must be'],
    ['/api/nothing', 404, 'no such endpoint'],
  ])('%s', async (path, status, message) => {
    const answer = await failure(path)
    expect(answer.status).toBe(status)
    expect(answer.error).toContain(message)
    expect(answer.error).not.toContain('\n')
  })

  test('nothing can be changed', async () => {
    for (const method of ['POST', 'PUT', 'DELETE', 'PATCH']) {
      expect(await failure('/api/status', { method })).toMatchObject({ status: 405 })
    }
  })
})

test('the answers of a series of 500 candles are small on the wire', async () => {
  const response = await fetch(`${server.url}/api/candles?category=SPOT&symbol=BTCUSDT&limit=500`)
  expect(response.headers.get('content-encoding')).toBe('gzip')
})

test('the connections of the page cannot change anything, and are few', async () => {
  const readOnly = openDatabase({ url: testDatabase.url, isReadOnly: true })
  try {
    const change = readOnly.pool.query("delete from market.candles where symbol = 'BTCUSDT'")
    await expect(change).rejects.toMatchObject({ code: '25006' })
  } finally {
    await readOnly.close()
  }
  const { rows } = await testDatabase.database.pool.query<{ count: string }>(
    `select count(*) from pg_stat_activity where application_name = 'market-recorder page' and datname = current_database()`,
  )
  expect(Number(rows[0]?.count)).toBeLessThanOrEqual(4)
})

describe('health', () => {
  test('ready, and not, with the reason', async () => {
    freshen(source, Date.now())
    expect(await get('/readyz', recorderResponses.health)).toEqual({ ok: true, reasons: [], notices: [] })
    source.state.stats.fills.lastStoredAt = Date.now() - 3_600_000
    const response = await fetch(`${server.url}/readyz`)
    expect(response.status).toBe(503)
    expect(recorderResponses.health.parse(await response.json()).reasons[0]).toContain(
      'fills: nothing stored for 60 min',
    )
    freshen(source, Date.now())
    expect(await get('/healthz', recorderResponses.health)).toEqual({ ok: true, reasons: [], notices: [] })
  })
})

test('a fault of the program is not told as one of the database', async () => {
  const { fleet } = source.state
  source.state.fleet = undefined as never
  await expect
    .poll(() => failure('/readyz').catch(() => null))
    .toEqual({ status: 500, error: '/readyz: a fault of the recorder; its log says more' })
  source.state.fleet = fleet
  await expect.poll(async () => (await fetch(`${server.url}/readyz`)).status).toBe(200)
})

test('who asks for no more than the head of the events counts as no page', async () => {
  const response = await fetch(`${server.url}/api/events`, { method: 'HEAD' })
  expect(response.status).toBe(200)
  expect(response.headers.get('content-type')).toBe('text/event-stream')
  expect(await (await fetch(`${server.url}/metrics`)).text()).toMatch(/^market_recorder_page_clients 0$/m)
})

test('events tell of the status at once and of the instrument that is watched', async () => {
  const received = new Map<string, unknown>()
  await whileMinutesAreNew(async () => {
    const response = await fetch(`${server.url}/api/events?category=SPOT&symbol=BTCUSDT`)
    expect(response.headers.get('content-type')).toContain('text/event-stream')
    let text = ''
    for await (const chunk of response.body ?? []) {
      text += Buffer.from(chunk as Uint8Array).toString()
      for (const [, event, data] of text.matchAll(/event: (\w+)\ndata: (.*)\n/g)) {
        received.set(event ?? '', JSON.parse(data ?? 'null'))
      }
      if (received.size === 2) break
    }
  })
  expect(recorderResponses.status.parse(received.get('status')).phase).toBe('collecting')
  const { candles } = marketResponses.event.parse(received.get('instrument'))
  expect(candles.map(({ openTime }) => (openTime - noon) / minute)).toEqual([237, 238, 239])
})

test('a second server on the same port says what to do', async () => {
  const config = loadConfig({ env: {} })
  config.serve.port = Number(new URL(server.url).port)
  const metrics = createMetrics({ version: '' })
  const options = { config, source, metrics, databaseUrl: testDatabase.url, clock: systemClock }
  await expect(startServer({ ...options, version: '', logger: pino({ level: 'silent' }) })).rejects.toThrow(
    /the port is taken; set serve.port to another/,
  )
})
