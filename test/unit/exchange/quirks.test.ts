import { readFileSync } from 'node:fs'
import { afterEach, describe, expect, it } from 'vitest'
import type { ExchangeClient } from '../../../src/exchange/client.js'
import { ExchangeError } from '../../../src/exchange/errors.js'
import { clientOf, envelope, type FakeService, startFakeService } from '../../support/fakeService.js'

// What the live service was observed to do beside its specification. Each test is named after one observation.

let service: FakeService
let client: ExchangeClient

afterEach(async () => {
  client.close()
  await service.close()
})

async function answering(body: string, status = 200, headers: Record<string, string> = {}): Promise<ExchangeClient> {
  service = await startFakeService((_request, response) => void response.writeHead(status, headers).end(body))
  client = clientOf(service.url)
  return client
}

const fixture = (name: string) =>
  readFileSync(new URL(`../../fixtures/exchange/${name}`, import.meta.url), 'utf8').trimEnd()

const spot = { category: 'SPOT', symbol: 'BTCUSDT' } as const
const book = { ...spot, limit: 50 }
const minutes = { ...spot, interval: '1m' } as const

async function failure(request: Promise<unknown>): Promise<ExchangeError> {
  const error: unknown = await request.then(
    () => undefined,
    (reason: unknown) => reason,
  )
  if (!(error instanceof ExchangeError)) throw new Error(`expected an ExchangeError, got ${String(error)}`)
  return error
}

describe('envelope and errors', () => {
  it('requestTime is a JSON integer, and the order of keys varies', async () => {
    await answering('{"data":[],"requestTime":1760000000123,"msg":"success","code":"00000"}')
    expect((await client.fills(spot)).requestTime).toBe(1_760_000_000_123)
  })

  it.each([
    ['40034', 'unknown-symbol', false],
    ['40309', 'removed-symbol', false],
    ['400172', 'bad-request', false],
    ['40019', 'bad-request', false],
    ['40020', 'bad-request', false],
    ['40017', 'bad-request', false],
    ['40705', 'bad-request', false],
    ['45001', 'unavailable', true],
    ['40725', 'unavailable', true],
    ['40808', 'unavailable', true],
    ['40015', 'unavailable', true],
    ['99999', 'rejected', false],
    ['toString', 'rejected', false],
  ] as const)('a failure with code %s is %s with HTTP 200, 400 and 500', async (code, kind, retryable) => {
    for (const status of [200, 400, 500]) {
      await answering(JSON.stringify({ code, msg: 'no\nluck', requestTime: 1, data: null }), status)
      const error = await failure(client.fills(spot))
      expect(error).toMatchObject({ kind, code, status, retryable, operation: 'fills', parameters: spot })
      expect(error.message).toContain(`fills SPOT BTCUSDT: ${kind}: code ${code} "no luck" (HTTP ${status})`)
      client.close()
      await service.close()
    }
    await answering('')
  })

  it('a success is one at any HTTP status', async () => {
    await answering(envelope('[]'), 400)
    expect((await client.fills(spot)).rows).toEqual([])
  })

  it.each([
    ['HTML', '<!doctype html>\n<html><body>Please log in</body></html>', 200, 'malformed'],
    ['HTML of a failing proxy', '<html><h1>502 Bad Gateway</h1></html>', 502, 'unavailable'],
    ['HTML of a firewall', '<html>denied</html>', 403, 'blocked'],
    ['an empty body', '', 200, 'malformed'],
    ['an empty body of a failing proxy', '', 503, 'unavailable'],
    ['an older envelope', '{"status":"error","err_code":"1001","err_msg":"system busy"}', 200, 'malformed'],
    ['an older envelope that claims success', '{"status":"ok","err_code":"","data":[]}', 200, 'malformed'],
    ['a numeric code', '{"code":0,"msg":"success","requestTime":1760000000000,"data":[]}', 200, 'malformed'],
    ['a numeric failure code', '{"code":40034,"msg":"none","requestTime":1760000000000,"data":null}', 200, 'malformed'],
    ['half a body', envelope('[]').slice(0, 40), 200, 'malformed'],
    ['JSON that is no envelope', '[]', 200, 'malformed'],
    ['a success without data', '{"code":"00000","msg":"success","requestTime":1760000000000}', 200, 'malformed'],
    ['a success with null', envelope('null'), 200, 'malformed'],
    ['a success with an object for a list', envelope('{}'), 200, 'malformed'],
    ['a success without requestTime', '{"code":"00000","msg":"success","data":[]}', 200, 'malformed'],
  ] as const)('%s is not data', async (_name, body, status, kind) => {
    await answering(body, status)
    const error = await failure(client.fills(spot))
    expect(error).toMatchObject({ kind, retryable: kind !== 'blocked' })
    expect(error.message).toMatch(/^fills SPOT BTCUSDT: [^\n]+$/)
  })

  it('a zero-byte body for candles means no candles yet', async () => {
    await answering('')
    expect(await client.candles(minutes)).toMatchObject({ rows: [], rejected: [] })
    expect((await client.historyCandles(minutes)).rows).toEqual([])
  })

  it('a zero-byte body for candles with another status is a failure', async () => {
    await answering('', 502)
    expect((await failure(client.candles(minutes))).kind).toBe('unavailable')
  })
})

describe('rate limits', () => {
  it('HTTP 429 with code 429 and no Retry-After is rate-limited, and pauses every operation', async () => {
    await answering('{"code":"429","msg":"Too Many Requests","data":null}', 429)
    const error = await failure(client.fills(spot))
    expect(error).toMatchObject({ kind: 'rate-limited', status: 429, code: '429', retryable: true })
    expect(client.stats().pausedMs).toBeGreaterThan(1_000)
  })

  it('code 429 with HTTP 200, as a string or a number, is rate-limited, too', async () => {
    for (const code of ['"429"', '429']) {
      await answering(`{"code":${code},"msg":"Too Many Requests","data":null}`)
      expect((await failure(client.fills(spot))).kind).toBe('rate-limited')
      client.close()
      await service.close()
    }
    await answering('')
  })

  it('Retry-After is obeyed where it is sent', async () => {
    await answering('', 429, { 'retry-after': '7' })
    expect(await failure(client.fills(spot))).toMatchObject({ kind: 'rate-limited', retryAfterMs: 7_000 })
    expect(client.stats().pausedMs).toBeGreaterThan(6_000)
  })

  it('x-mbx-used-remain-limit says what is left of an operation in this second', async () => {
    await answering(envelope('[]'), 200, { 'x-mbx-used-remain-limit': '600' })
    await client.fills(spot)
    // Of 1,000 a second 400 are gone: one is ours, and one is within what services differ in.
    expect(client.stats().operations.fills).toEqual({ used: 399, limit: 1_000 })
    expect(client.stats().operations.tickers.used).toBe(0)
  })
})

describe('instruments', () => {
  it('not set is "", "0", "-1", null or an absent field', async () => {
    await answering(fixture('instruments.json.txt'))
    const { rows, rejected } = await client.instruments({ category: 'SPOT' })
    expect(rejected).toEqual([])
    for (const row of rows)
      expect([row.offTime, row.limitOpenTime, row.quotePrecision, row.maxOrderQty, row.maxSymbolOrderNum]).toEqual([
        null,
        null,
        null,
        null,
        null,
      ])
    expect(rows[0]).toMatchObject({ launchTime: 1_700_000_000_000, quantityPrecision: 0, makerFeeRate: '-0.0001' })
    expect(rows[1]?.launchTime).toBeNull()
  })

  it('baseCoin is case-sensitive, the order of rows is kept, futures fields appear on spot rows', async () => {
    await answering(fixture('instruments.json.txt'))
    const { rows } = await client.instruments({ category: 'SPOT' })
    expect(rows.map(({ symbol, baseCoin }) => [symbol, baseCoin])).toEqual([
      ['RNVDAUSDT', 'rNVDA'],
      ['BTCUSDT', 'BTC'],
    ])
    expect(rows[0]).toMatchObject({ takerFeeRate: '0.00100', minOrderQty: '0.00' })
    expect(rows[1]).toMatchObject({ fundInterval: 8 })
  })

  it('areaSymbol and isReality come in lower and upper case', async () => {
    await answering(fixture('instruments.json.txt'))
    const { rows } = await client.instruments({ category: 'SPOT' })
    expect(rows.map(({ areaSymbol, isReality }) => [areaSymbol, isReality])).toEqual([
      [false, true],
      [true, null],
    ])
  })

  it('unknown new fields are kept as they were sent, and named once', async () => {
    await answering(fixture('instruments.json.txt'))
    const { rows, unknownFields } = await client.instruments({ category: 'SPOT' })
    expect(unknownFields).toEqual(['tradingSchedule', 'fees'])
    expect(rows[0]?.extra).toEqual({})
    expect(rows[1]?.extra).toEqual({ tradingSchedule: '24/7', fees: { tiers: ['0.10', '0.20'] } })
  })

  it('fundInterval can be 1, 2, 4 or 8', async () => {
    const rows = ['1', '2', '4', '8'].map((fundInterval) => ({
      category: 'SPOT',
      symbol: `S${fundInterval}`,
      fundInterval,
    }))
    await answering(envelope(JSON.stringify(rows)))
    const page = await client.instruments({ category: 'SPOT' })
    expect(page.rows.map(({ fundInterval }) => fundInterval)).toEqual([1, 2, 4, 8])
  })

  it('the same symbol exists in several categories: a row of another one than asked for is not taken', async () => {
    await answering(fixture('instruments.json.txt'))
    const { rows, rejected } = await client.instruments({ category: 'MARGIN' })
    expect(rows).toEqual([])
    expect(rejected.map(({ reason }) => reason)).toEqual([
      'category: SPOT, but MARGIN was asked for',
      'category: SPOT, but MARGIN was asked for',
    ])
  })
})

describe('RPI symbols', () => {
  it('spell the category in lower case', async () => {
    await answering(envelope('[{"category":"usdt-futures","symbol":"BTCUSDT"},{"category":"spot","symbol":"BTCUSDT"}]'))
    expect((await client.rpiSymbols()).rows).toEqual([
      { category: 'USDT-FUTURES', symbol: 'BTCUSDT' },
      { category: 'SPOT', symbol: 'BTCUSDT' },
    ])
  })
})

describe('tickers', () => {
  it('delivery fields are "" on perpetual rows; decimals have 16 places and more; -1 is a change like any other', async () => {
    await answering(fixture('tickers.json'))
    const { rows } = await client.tickers({ category: 'USDT-FUTURES' })
    expect(rows[0]).toMatchObject({
      deliveryTime: null,
      deliveryStartTime: null,
      deliveryStatus: null,
      openInterest: '1234.0000000000000001',
      indexPrice: '60001.1234567890123456',
      turnover24h: '123456789.123456789123456789',
      volume24h: '0',
      price24hPcnt: '-1',
      bid1Size: '1.500',
    })
  })

  it('ts lags requestTime, and has been met as 0', async () => {
    await answering(fixture('tickers.json'))
    const { rows, requestTime } = await client.tickers({ category: 'USDT-FUTURES' })
    expect(requestTime).toBe(1_760_000_001_500)
    expect(rows.map(({ ts, category }) => [ts, category])).toEqual([
      [1_760_000_000_700, 'USDT-FUTURES'],
      [null, null],
    ])
  })
})

describe('order books', () => {
  it('entries are JSON numbers with trailing zeros and more digits than a binary float holds', async () => {
    await answering(fixture('orderbook.json.txt'))
    expect((await client.orderBook(book)).rows).toEqual([
      {
        ts: 1_760_000_000_100,
        asks: { prices: ['240.00', '240.10'], sizes: ['1.50', '12345678901234567.12345678'] },
        bids: { prices: ['239.90', '239.80'], sizes: ['0.000000000000000001', '3'] },
        extra: {},
      },
    ])
  })

  it.each(['rpi-orderbook-numbers.json.txt', 'rpi-orderbook-strings.json'])(
    'RPI books have been met with strings and with numbers: %s',
    async (name) => {
      await answering(fixture(name))
      expect((await client.rpiOrderBook(book)).rows).toEqual([
        {
          ts: 1_760_000_000_000,
          asks: { prices: ['240.00'], sizes: ['1.50'], rpiSizes: ['0.25'] },
          bids: { prices: [], sizes: [], rpiSizes: [] },
          extra: {},
        },
      ])
    },
  )

  it('an empty book is a normal success, and ts can be later than requestTime', async () => {
    await answering(envelope('{"a":[],"b":[],"ts":"1760000009999"}'))
    const { rows, requestTime } = await client.orderBook(book)
    expect(rows).toHaveLength(1)
    expect(rows[0]?.ts).toBeGreaterThan(requestTime)
  })

  it('a further number in a level is named, not taken for something else', async () => {
    await answering(envelope('{"a":[[1,2,3]],"b":[],"ts":"1760000000000","seq":5}'))
    const { rows, unknownFields } = await client.orderBook(book)
    expect(unknownFields).toEqual(['a[][2]', 'seq'])
    expect(rows[0]).toMatchObject({ asks: { prices: ['1'], sizes: ['2'] }, extra: { seq: '5' } })
  })

  it('a bad level rejects the book and keeps its text', async () => {
    await answering(envelope('{"a":[[1.0,2.00]],"b":[[1,"x"]],"ts":"1760000000000"}'))
    const { rows, rejected } = await client.orderBook(book)
    expect(rows).toEqual([])
    expect(rejected).toEqual([
      {
        operation: 'orderbook',
        parameters: { category: 'SPOT', symbol: 'BTCUSDT', limit: '50' },
        reason: 'b: expected a decimal number in level 0[1], got [1,"x"]',
        raw: '{"a":[[1.0,2.00]],"b":[[1,"x"]],"ts":"1760000000000"}',
      },
    ])
  })
})

describe('fills', () => {
  it('isRPI comes as YES, NO, yes and no, and isRPI and execLinkId can be missing', async () => {
    await answering(fixture('fills.json'))
    const { rows, rejected } = await client.fills(spot)
    expect(rejected).toEqual([])
    expect(rows.map(({ isRpi, execLinkId }) => [isRpi, execLinkId])).toEqual([
      [true, '40'],
      [false, null],
      [null, null],
    ])
  })

  it('come newest first, and several can share one millisecond', async () => {
    await answering(fixture('fills.json'))
    const { rows } = await client.fills(spot)
    expect(rows.map(({ execId, ts, side, price, size }) => [execId, ts, side, price, size])).toEqual([
      ['4', 1_760_000_000_000, 'buy', '1.10', '2.0'],
      ['3', 1_760_000_000_000, 'sell', '1.1', '2'],
      ['2', 1_759_999_999_999, 'sell', '1.0', '1'],
    ])
  })

  it('a row that cannot be understood is put aside with its text; the others are kept', async () => {
    const good = '{"execId":"1","price":"1","size":"1","side":"buy","ts":"1760000000000"}'
    const broken = [
      '{"execId":"2","price":1.50,"size":"many","side":"hold","ts":0.0}',
      'null',
      '"text"',
      '[]',
      '{}',
      '7.0',
    ]
    await answering(envelope(`[${good},${broken.join(',')},${good}]`))
    const { rows, rejected } = await client.fills(spot)
    expect(rows).toHaveLength(2)
    expect(rejected.map(({ raw }) => raw)).toEqual(broken)
    expect(rejected[0]).toMatchObject({ operation: 'fills', parameters: { category: 'SPOT', symbol: 'BTCUSDT' } })
    expect(rejected[0]?.reason).toBe('size: expected a decimal number, got "many" (and 2 more)')
    for (const { reason } of rejected) expect(reason).toMatch(/^[^\n]{5,300}$/)
  })
})

describe('candles', () => {
  it('the timestamp is the opening time, which need not be a multiple of a day for 1D', async () => {
    await answering(fixture('candles.json'))
    const { rows } = await client.candles({ ...spot, interval: '1D' })
    expect(rows[0]).toEqual({
      openTime: 1_759_960_000_000,
      open: '1.10',
      high: '1.20',
      low: '1.000000000000000001',
      close: '1.15',
      baseVolume: '100.0',
      quoteTurnover: '110.00',
    })
    expect(rows.map(({ openTime }) => openTime)).toEqual([1_759_960_000_000, 1_760_046_400_000])
  })

  it('an empty success and a short page are normal', async () => {
    await answering(envelope('[]'))
    expect((await client.candles(minutes)).rows).toEqual([])
    expect((await client.historyCandles(minutes)).rows).toEqual([])
  })

  it('a candle that contradicts itself is kept: it is understood', async () => {
    await answering(envelope('[["1760000000000","5","1","9","5","0","0"]]'))
    const { rows, rejected } = await client.candles(minutes)
    expect(rows).toMatchObject([{ high: '1', low: '9' }])
    expect(rejected).toEqual([])
  })

  it('a row with too few values is put aside, a further value is named', async () => {
    await answering(envelope('[["1760000000000","1","1","1","1","0"],["1760000060000","1","1","1","1",0,"0","new"]]'))
    const { rows, rejected, unknownFields } = await client.candles(minutes)
    expect(rows.map(({ openTime }) => openTime)).toEqual([1_760_000_060_000])
    expect(rejected.map(({ raw }) => raw)).toEqual(['["1760000000000","1","1","1","1","0"]'])
    expect(unknownFields).toEqual(['[7]'])
  })
})
