import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { ExchangeClient, Page } from '../../../src/exchange/client.js'
import type { RequestEvent } from '../../../src/exchange/sender.js'
import { ExchangeError, type ExchangeErrorKind } from '../../../src/exchange/errors.js'
import { categories, type InstrumentKey, tradedCategories } from '../../../src/market/category.js'
import { instrumentFields } from '../../../src/market/instrument.js'
import { intervalMs, intervals } from '../../../src/market/candle.js'
import { tickerFields } from '../../../src/market/stream.js'
import type { Fault } from '../../../src/simulator/faults.js'
import { type Simulator, type SimulatorOptions, startSimulator } from '../../../src/simulator/server.js'
import { clientOf, limitsOf } from '../../support/fakeService.js'
import { brokenPromises } from '../../support/rejections.js'

let simulator: Simulator
let client: ExchangeClient
const events: RequestEvent[] = []

async function start(options: SimulatorOptions = {}, timeoutMs = 30_000): Promise<void> {
  simulator = await startSimulator({ scale: 'tiny', journal: true, limits: { enforce: false }, ...options })
  events.length = 0
  client = clientOf(simulator.url, {
    timeoutMs,
    onRequest: (event) => void events.push(event),
  })
}

afterEach(async () => {
  client.close()
  await simulator.close()
})

/** The data of the last response as it was sent, numbers as text. */
function lastServed(): unknown {
  const response = simulator.control.journal().at(-1)
  if (response?.delivered !== 'complete') throw new Error('the last response was not served whole')
  return response.data
}

function allUnderstood<Row>(page: Page<Row>): readonly Row[] {
  expect(page.rejected).toEqual([])
  return page.rows
}

type WireRow = Readonly<Record<string, string | null>>
const notSet: ReadonlySet<unknown> = new Set([undefined, null, '', '0', '-1'])

describe('every row that the service sends arrives as it was sent', () => {
  beforeEach(() => start())

  it.each(categories)('instruments of %s', async (category) => {
    const page = await client.instruments({ category })
    const served = lastServed() as WireRow[]
    const rows = allUnderstood(page)
    expect(rows.map(({ symbol }) => symbol)).toEqual(served.map(({ symbol }) => symbol))
    for (const [index, row] of rows.entries()) {
      const wire = served[index] as WireRow
      for (const [name, kind] of Object.entries(instrumentFields)) {
        const value = row[name as keyof typeof instrumentFields]
        if (value === null) expect(notSet).toContain(wire[name])
        else if (kind === 'boolean') expect(wire[name]?.toLowerCase()).toBe(value ? 'yes' : 'no')
        else expect(wire[name]).toBe(String(value))
      }
      for (const name of Object.keys(wire))
        expect(name in row || wire[name] === row.extra[name], `${name} of ${row.symbol}`).toBe(true)
    }
  })

  it.each(tradedCategories)('tickers of %s', async (category) => {
    const page = await client.tickers({ category })
    const rows = allUnderstood(page)
    const served = lastServed() as WireRow[]
    expect(rows).toHaveLength(served.length)
    for (const [index, row] of rows.entries()) {
      const wire = served[index] as WireRow
      expect([row.symbol, row.category]).toEqual([wire['symbol'], wire['category']])
      // Some are sent without a time of their own.
      expect(String(row.ts)).toBe(wire['ts'] === '0' ? String(page.requestTime) : wire['ts'])
      for (const name of Object.keys(tickerFields) as (keyof typeof tickerFields)[])
        expect(String(row[name] ?? '')).toBe(wire[name] === '0' && row[name] === null ? '' : (wire[name] ?? ''))
    }
  })

  it.each(tradedCategories)('order books and RPI books of %s', async (category) => {
    const { rows: tickers } = await client.tickers({ category })
    for (const { symbol } of tickers) {
      const [book] = allUnderstood(await client.orderBook({ category, symbol, limit: 1000 }))
      const served = lastServed() as { a: string[][]; b: string[][]; ts: string }
      expect(String(book?.ts)).toBe(served.ts)
      expect(book).toMatchObject({
        askPrices: served.a.map((level) => level[0]),
        askSizes: served.a.map((level) => level[1]),
        bidPrices: served.b.map((level) => level[0]),
        bidSizes: served.b.map((level) => level[1]),
      })
      for (const rpiBookAsStrings of [true, false]) {
        simulator.control.setQuirks({ rpiBookAsStrings })
        const [rpi] = allUnderstood(await client.rpiOrderBook({ category, symbol, limit: 50 }))
        const { a } = lastServed() as { a: string[][] }
        expect(rpi?.askPrices.map((price, i) => [price, rpi.askSizes[i], rpi.askRpiSizes[i]])).toEqual(a)
      }
    }
  })

  it.each(categories)('fills of %s', async (category) => {
    const { rows: instruments } = await client.instruments({ category })
    for (const { symbol } of instruments) {
      const rows = allUnderstood(await client.fills({ category, symbol }))
      const served = lastServed() as WireRow[]
      expect(rows.map((row) => [row.execId, row.price, row.size, row.side, String(row.ts)])).toEqual(
        served.map((wire) => [wire['execId'], wire['price'], wire['size'], wire['side'], wire['ts']]),
      )
      expect(rows.map(({ isRpi }) => isRpi)).toEqual(
        served.map((wire) => (wire['isRPI'] === undefined ? null : wire['isRPI']?.toLowerCase() === 'yes')),
      )
    }
  })

  it.each(intervals)('candles and history candles of %s', async (interval) => {
    // Twenty weeks are twenty weeks of fills for the simulator to make.
    const limit = intervalMs[interval] > intervalMs['12H'] ? 3 : 20
    const query = { category: 'SPOT', symbol: 'BTCUSDT', interval, limit } as const
    for (const request of [() => client.candles(query), () => client.historyCandles(query)]) {
      const rows = allUnderstood(await request())
      expect(rows.length).toBeGreaterThan(0)
      expect(
        rows.map((row) => [
          String(row.openTime),
          row.open,
          row.high,
          row.low,
          row.close,
          row.baseVolume,
          row.quoteTurnover,
        ]),
      ).toEqual(lastServed() as string[][])
    }
  })

  it('the whole live list of SPOT in one response', async () => {
    await simulator.close()
    await start({ scale: 'live' })
    const rows = allUnderstood(await client.instruments({ category: 'SPOT' }))
    expect(rows.length).toBeGreaterThan(3_370)
    expect(new Set(rows.map(({ symbol }) => symbol)).size).toBe(rows.length)
    expect(events.at(-1)?.bytes).toBeGreaterThan(1_000_000)
    expect(allUnderstood(await client.tickers({ category: 'SPOT' })).length).toBeGreaterThan(3_300)
  })

  it('candles with an eighth value, whose meaning is not known', async () => {
    simulator.control.setQuirks({ eighthCandleValue: true })
    const page = await client.candles({ category: 'SPOT', symbol: 'BTCUSDT', interval: '1m', limit: 5 })
    expect(allUnderstood(page)).toHaveLength(5)
    expect((lastServed() as string[][])[0]).toHaveLength(8)
  })

  it('symbols that are not ASCII, in every operation', async () => {
    await simulator.close()
    await start({ scale: 'small' })
    const key = { category: 'USDT-FUTURES', symbol: '龙虾USDT' } as const
    const { category, symbol } = key
    for (const page of [await client.instruments({ category }), await client.tickers({ category })])
      expect(allUnderstood<InstrumentKey>(page).map((row) => row.symbol)).toContain(symbol)
    expect(allUnderstood(await client.orderBook({ ...key, limit: 5 }))).toHaveLength(1)
    expect(allUnderstood(await client.fills(key)).length).toBeGreaterThan(0)
    expect(allUnderstood(await client.candles({ ...key, interval: '1m', limit: 5 }))).toHaveLength(5)
  })

  it('RPI symbols', async () => {
    const rows = allUnderstood(await client.rpiSymbols())
    expect(rows.map(({ category, symbol }) => ({ category: category.toLowerCase(), symbol }))).toEqual(lastServed())
  })

  it('but for broken rows, which are put aside with their text', async () => {
    for (const kind of ['type', 'missing', 'nonsense'] as const) {
      simulator.control.setQuirks({ brokenRows: { operations: ['fills', 'tickers', 'candles', 'instruments'], kind } })
      const pages: Page<unknown>[] = [
        await client.fills({ category: 'SPOT', symbol: 'BTCUSDT' }),
        await client.candles({ category: 'SPOT', symbol: 'BTCUSDT', interval: '1m' }),
        await client.tickers({ category: 'SPOT' }),
        await client.instruments({ category: 'SPOT' }),
      ]
      for (const page of pages) {
        expect(page.rows.length, `${page.operation} ${kind}`).toBeGreaterThan(0)
        for (const { raw, reason } of page.rejected) {
          expect(() => JSON.parse(raw) as unknown).not.toThrow()
          expect(reason).toMatch(/^[^\n]+$/)
        }
      }
      // A ticker or an instrument may lack any field but its symbol; a fill and a candle may not.
      for (const page of pages.slice(0, 2)) expect(page.rejected, `${page.operation} ${kind}`).toHaveLength(1)
    }
  })
})

describe('what goes wrong', () => {
  beforeEach(() => start({}, 400))

  const faults: readonly (readonly [Fault, ExchangeErrorKind])[] = [
    [{ kind: 'reset' }, 'network'],
    [{ kind: 'noResponse' }, 'timeout'],
    [{ kind: 'latency', minMs: 2_000, maxMs: 2_000 }, 'timeout'],
    [{ kind: 'slowBody', overMs: 5_000 }, 'timeout'],
    [{ kind: 'http', status: 500 }, 'unavailable'],
    [{ kind: 'http', status: 502, body: '<html></html>' }, 'unavailable'],
    [{ kind: 'http', status: 503 }, 'unavailable'],
    [{ kind: 'http', status: 403 }, 'blocked'],
    [{ kind: 'http', status: 429 }, 'rate-limited'],
    [{ kind: 'browserCheck' }, 'proxy-page'],
    [{ kind: 'html' }, 'malformed'],
    [{ kind: 'emptyBody' }, 'malformed'],
    [{ kind: 'tornBody', cut: 'length' }, 'network'],
    [{ kind: 'tornBody', cut: 'chunked' }, 'network'],
    [{ kind: 'oldEnvelope' }, 'malformed'],
    [{ kind: 'numericCode' }, 'malformed'],
    [{ kind: 'errorCode', code: '45001' }, 'unavailable'],
    [{ kind: 'errorCode', code: '40309' }, 'removed-symbol'],
    [{ kind: 'errorCode', code: '30032' }, 'retired-version'],
    [{ kind: 'hugeBody', bytes: 16_000_000 }, 'too-large'],
    [{ kind: 'down' }, 'network'],
  ]

  it.each(faults)('%j has its kind, and the next request works', async (fault, kind) => {
    simulator.control.addFault(fault)
    await expect.poll(() => kindOf(client.tickers({ category: 'SPOT' }))).toBe(kind)
    simulator.control.clearFaults()
    await expect.poll(() => kindOf(client.tickers({ category: 'SPOT' }))).toBe('ok')
    expect(events.map(({ outcome }) => outcome)).toContain(kind)
  })

  it.each([
    ['unknown-symbol', () => client.fills({ category: 'SPOT', symbol: 'NOSUCHUSDT' })],
    ['unknown-symbol', () => client.orderBook({ category: 'SPOT', symbol: 'NOSUCHUSDT', limit: 5 })],
    ['unsupported-interval', () => client.candles({ category: 'SPOT', symbol: 'RNVDAUSDT', interval: '3m' })],
    ['bad-request', () => client.candles({ category: 'SPOT', symbol: 'BTCUSDT', interval: '1m', limit: 1001 })],
    ['bad-request', () => client.historyCandles({ category: 'SPOT', symbol: 'BTCUSDT', interval: '1m', limit: 101 })],
    [
      'bad-request',
      () => client.historyCandles({ category: 'SPOT', symbol: 'BTCUSDT', interval: '1D', startTime: 1, endTime: 9e9 }),
    ],
  ] as const)('the service responds with a code for %s, at HTTP 400 and 200', async (kind, request) => {
    for (const errorHttpStatus of [400, 200] as const) {
      simulator.control.setQuirks({ errorHttpStatus })
      expect(await kindOf(request())).toBe(kind)
    }
  })

  it('a category that goes missing is known as that, by either code, and comes back', async () => {
    for (const code of ['40034', '40019'] as const) {
      simulator.control.setQuirks({ missingCategories: [{ category: 'COIN-FUTURES', operations: ['tickers'], code }] })
      expect(await kindOf(client.tickers({ category: 'COIN-FUTURES' }))).toBe('unknown-category')
      expect(await kindOf(client.instruments({ category: 'COIN-FUTURES' }))).toBe('ok')
    }
    simulator.control.setQuirks({ missingCategories: [] })
    expect(await kindOf(client.tickers({ category: 'COIN-FUTURES' }))).toBe('ok')
  })

  it('a small body that would unfold to many bytes is cut off at the limit', async () => {
    client.close()
    client = clientOf(simulator.url, {
      timeoutMs: 60_000,
      onRequest: (event) => void events.push(event),
    })
    simulator.control.addFault({ kind: 'hugeBody', bytes: 64_000_000, count: 1 })
    const packed = await fetch(`${simulator.url}/api/v3/market/rpi-symbols`, { headers: { 'accept-encoding': 'br' } })
    expect(packed.headers.get('content-encoding')).toBe('br')
    expect(Number(packed.headers.get('content-length'))).toBeLessThan(100_000)
    await packed.body?.cancel()
    simulator.control.addFault({ kind: 'hugeBody', bytes: 64_000_000, count: 1 })
    expect(await kindOf(client.tickers({ category: 'SPOT' }))).toBe('too-large')
    expect(events.at(-1)).toMatchObject({ outcome: 'too-large', bytes: 0 })
    expect(await kindOf(client.tickers({ category: 'SPOT' }))).toBe('ok')
  })

  it('requests that fail on and off succeed by repetition', async () => {
    client.close()
    client = clientOf(simulator.url, {
      // More than half of the attempts fail.
      retry: { attempts: 40, minDelayMs: 1, maxDelayMs: 10, totalMs: 120_000 },
      onRequest: (event) => void events.push(event),
    })
    simulator.control.setFaults([
      { kind: 'reset', probability: 0.2 },
      { kind: 'tornBody', probability: 0.2 },
      { kind: 'html', probability: 0.2 },
      { kind: 'http', status: 503, probability: 0.1 },
    ])
    const pages = await Promise.all(Array.from({ length: 40 }, () => client.tickers({ category: 'SPOT' })))
    for (const page of pages) expect(page.rows.length).toBeGreaterThan(0)
    expect(events.filter(({ outcome }) => outcome !== 'ok').length).toBeGreaterThan(10)
  })
})

describe('the limits', () => {
  it('are kept without a rejection while several operations are saturated', async () => {
    const { perSecond } = limitsOf(10)
    await start({ limits: { perSecond }, latencyMs: [0, 30] })
    client.close()
    const latencyJitterMs = 300
    client = clientOf(simulator.url, { limits: limitsOf(10, 6_000), latencyJitterMs, localAddress: '127.0.0.2' })
    const ending = new AbortController()
    const stop = ending.signal
    const repeat = async (request: () => Promise<unknown>) => {
      while (!stop.aborted) await request().catch(() => undefined)
    }
    const signal = { signal: stop }
    const saturating = Promise.all(
      Array.from({ length: 8 }, () => [
        repeat(() => client.fills({ category: 'SPOT', symbol: 'BTCUSDT' }, signal)),
        repeat(() => client.rpiSymbols(signal)),
        repeat(() => client.tickers({ category: 'SPOT' }, signal)),
      ]).flat(),
    )
    const fewest = () => {
      const { operations } = simulator.control.report()['127.0.0.2'] ?? { operations: null }
      return Math.min(...(['fills', 'rpi-symbols', 'tickers'] as const).map((name) => operations?.[name].requests ?? 0))
    }
    await expect.poll(fewest, { timeout: 60_000 }).toBeGreaterThan(40)
    ending.abort()
    await saturating
    expect(brokenPromises(simulator.control.journal(), simulator.control.stalls(), latencyJitterMs)).toEqual([])
  })

  it('are found again after a block, with few requests meanwhile and by itself', async () => {
    await start({ limits: { blockMs: 3_000 } })
    simulator.control.addFault({ kind: 'block', count: 1 })
    const first = await kindOf(client.fills({ category: 'SPOT', symbol: 'BTCUSDT' }))
    expect(first).toBe('rate-limited')
    const outcomes = await Promise.all(Array.from({ length: 10 }, () => kindOf(client.tickers({ category: 'SPOT' }))))
    // One request alone tries after each pause: 1.5 s and 3 s later.
    expect(outcomes.filter((outcome) => outcome === 'rate-limited').length).toBeLessThanOrEqual(2)
    expect(outcomes.filter((outcome) => outcome === 'ok').length).toBeGreaterThanOrEqual(8)
    expect(client.stats().rate).toBeLessThan(1)
  })
})

function kindOf(request: Promise<unknown>): Promise<string> {
  return request.then(
    () => 'ok',
    (error: unknown) => (error instanceof ExchangeError ? error.kind : String(error)),
  )
}
