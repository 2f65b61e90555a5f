import { describe, expect, it } from 'vitest'
import { envelope } from '../../support/fakeService.js'
import { failure, fixture, oneResponse } from '../../support/oneResponse.js'

const exchange = oneResponse()

// Behaviour of the live service that its specification does not name. Each test is named after one observation.

const spot = { category: 'SPOT', symbol: 'BTCUSDT' } as const
const minutes = { ...spot, interval: '1m' } as const

describe('envelope and errors', () => {
  it('requestTime is a JSON integer, and the order of keys varies', async () => {
    await exchange.answering('{"data":[],"requestTime":1760000000123,"msg":"success","code":"00000"}')
    expect((await exchange.client.fills(spot)).requestTime).toBe(1_760_000_000_123)
  })

  it.each([
    ['40034', 'unknown-symbol', false],
    ['25100', 'unknown-symbol', false],
    ['48001', 'unsupported-interval', false],
    ['30032', 'retired-version', false],
    ['40309', 'removed-symbol', false],
    ['400172', 'bad-request', false],
    ['40019', 'bad-request', false],
    ['40020', 'bad-request', false],
    ['40017', 'bad-request', false],
    ['40705', 'bad-request', false],
    ['45001', 'unavailable', true],
    ['40725', 'unavailable', true],
    ['40808', 'rejected', true],
    ['25000', 'unavailable', true],
    ['25001', 'unavailable', true],
    ['25003', 'unavailable', true],
    ['25004', 'rate-limited', true],
    ['25200', 'bad-request', false],
    ['40404', 'no-such-path', true],
    ['40000', 'blocked', false],
    ['25013', 'blocked', false],
    ['22004', 'blocked', false],
    ['25101', 'unsupported-symbol', false],
    ['22056', 'unsupported-symbol', false],
    ['40845', 'unsupported-symbol', false],
    ['40015', 'unavailable', true],
  ] as const)('a failure with code %s is %s with HTTP 200, 400 and 500', async (code, kind, retryable) => {
    for (const status of [200, 400, 500]) {
      await exchange.answering(JSON.stringify({ code, msg: 'no\nluck', requestTime: 1, data: null }), status)
      const error = await failure(exchange.client.fills(spot))
      expect(error).toMatchObject({ kind, code, retryable, operation: 'fills' })
      expect(error.message).toContain(`fills SPOT BTCUSDT: ${kind}: code ${code} "no luck" (HTTP ${status})`)
    }
  })

  it.each([
    ['99999', 200, 'rejected'],
    ['toString', 400, 'rejected'],
    ['99999', 404, 'no-such-path'],
    ['99999', 500, 'unavailable'],
    ['1', 503, 'unavailable'],
  ] as const)('an unknown code %s with HTTP %i is %s', async (code, status, kind) => {
    await exchange.answering(JSON.stringify({ code, msg: 'no luck', requestTime: 1, data: null }), status)
    expect(await failure(exchange.client.fills(spot))).toMatchObject({ kind, code, retryable: kind !== 'rejected' })
  })

  it.each(['40034', '40019'])(
    'code %s in response to a whole category says that the category is unknown',
    async (code) => {
      await exchange.answering(JSON.stringify({ code, msg: 'no', requestTime: 1, data: null }), 400)
      for (const operation of ['tickers', 'instruments'] as const) {
        const error = await failure(exchange.client[operation]({ category: 'SPOT' }))
        expect(error).toMatchObject({ kind: 'unknown-category', retryable: false, code })
        expect(error.message).toContain('SPOT')
      }
      const ofOneSymbol = await failure(exchange.client.fills(spot))
      expect(ofOneSymbol.kind).toBe(code === '40034' ? 'unknown-symbol' : 'bad-request')
    },
  )

  it('a page of the proxy in front of the service is told with what it says, and is no rate limit', async () => {
    await exchange.answering(
      '<html><style>p{}</style><title>Just a moment</title><p>Checking your browser</p></html>',
      403,
    )
    const error = await failure(exchange.client.fills(spot))
    expect(error.message).toContain('HTTP 403 with HTML instead of JSON (Just a moment Checking your browser)')
    expect(error.message).toContain('no rate limit')
    expect(exchange.client.stats().rate).toBe(1)
  })

  it('a success is one at any HTTP status', async () => {
    await exchange.answering(envelope('[]'), 400)
    expect((await exchange.client.fills(spot)).rows).toEqual([])
  })

  it.each([
    ['HTML', '<!doctype html>\n<html><body>Please log in</body></html>', 200, 'malformed'],
    ['HTML of a failing proxy', '<html><h1>502 Bad Gateway</h1></html>', 502, 'unavailable'],
    ['HTML of a firewall', '<html>denied</html>', 403, 'proxy-page'],
    ['HTML that wants a browser', '<html><body>Checking your browser before …</body></html>', 403, 'proxy-page'],
    ['a refusal without a page', 'denied', 403, 'blocked'],
    ['a page that is not found', '<html>Not Found</html>', 404, 'no-such-path'],
    ['nothing that is not found', '', 404, 'no-such-path'],
    ['another JSON that is not found', '{"status":404,"error":"Not Found"}', 404, 'no-such-path'],
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
    await exchange.answering(body, status)
    const error = await failure(exchange.client.fills(spot))
    expect(error).toMatchObject({ kind, retryable: kind !== 'blocked' })
    expect(error.message).toMatch(/^fills SPOT BTCUSDT: [^\n]+$/)
  })

  it('a zero-byte body for candles means no candles yet', async () => {
    await exchange.answering('')
    expect(await exchange.client.candles(minutes)).toMatchObject({ rows: [], rejected: [] })
    expect((await exchange.client.historyCandles(minutes)).rows).toEqual([])
  })

  it('a zero-byte body for candles with another status is a failure', async () => {
    await exchange.answering('', 502)
    expect((await failure(exchange.client.candles(minutes))).kind).toBe('unavailable')
  })
})

describe('rate limits', () => {
  it('HTTP 429 with code 429 and no Retry-After is rate-limited, and pauses every operation', async () => {
    await exchange.answering('{"code":"429","msg":"Too Many Requests","data":null}', 429)
    const error = await failure(exchange.client.fills(spot))
    expect(error).toMatchObject({ kind: 'rate-limited', code: '429', retryable: true })
    expect(exchange.client.stats().pausedMs).toBeGreaterThan(1_000)
  })

  it('code 429 with HTTP 200, as a string or a number, is rate-limited, too', async () => {
    for (const code of ['"429"', '429']) {
      await exchange.answering(`{"code":${code},"msg":"Too Many Requests","data":null}`)
      expect((await failure(exchange.client.fills(spot))).kind).toBe('rate-limited')
    }
  })

  it('Retry-After is obeyed where it is sent', async () => {
    await exchange.answering('', 429, { 'retry-after': '7' })
    expect(await failure(exchange.client.fills(spot))).toMatchObject({ kind: 'rate-limited', retryAfterMs: 7_000 })
    expect(exchange.client.stats().pausedMs).toBeGreaterThan(6_000)
  })

  it('no Retry-After pauses for longer than a block', async () => {
    await exchange.answering('', 429, { 'retry-after': '999999999' })
    await failure(exchange.client.fills(spot))
    expect(exchange.client.stats().pausedMs).toBeGreaterThan(200_000)
    expect(exchange.client.stats().pausedMs).toBeLessThanOrEqual(300_000)
  })

  it('x-mbx-used-remain-limit says what is left of an operation in this second', async () => {
    await exchange.answering(envelope('[]'), 200, { 'x-mbx-used-remain-limit': '600' })
    await exchange.client.fills(spot)
    // The service has counted 400 of 1,000. One is ours, and one more is allowed for, because services differ by one.
    expect(exchange.client.stats().operations.fills).toEqual({ used: 399, limit: 1_000 })
    expect(exchange.client.stats().operations.tickers.used).toBe(0)
  })
})

describe('instruments', () => {
  it('not set is "", "0", "-1", null or an absent field', async () => {
    await exchange.answering(fixture('instruments.json.txt'))
    const { rows, rejected } = await exchange.client.instruments({ category: 'SPOT' })
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
    await exchange.answering(fixture('instruments.json.txt'))
    const { rows } = await exchange.client.instruments({ category: 'SPOT' })
    expect(rows.map(({ symbol, baseCoin }) => [symbol, baseCoin])).toEqual([
      ['RNVDAUSDT', 'rNVDA'],
      ['BTCUSDT', 'BTC'],
    ])
    expect(rows[0]).toMatchObject({ takerFeeRate: '0.00100', minOrderQty: '0.00' })
    expect(rows[1]).toMatchObject({ fundInterval: 8 })
  })

  it('areaSymbol and isReality come in lower and upper case', async () => {
    await exchange.answering(fixture('instruments.json.txt'))
    const { rows } = await exchange.client.instruments({ category: 'SPOT' })
    expect(rows.map(({ areaSymbol, isReality }) => [areaSymbol, isReality])).toEqual([
      [false, true],
      [true, null],
    ])
  })

  it('unknown new fields are kept as they were sent', async () => {
    await exchange.answering(fixture('instruments.json.txt'))
    const { rows } = await exchange.client.instruments({ category: 'SPOT' })
    expect(rows[0]?.extra).toEqual({})
    expect(rows[1]?.extra).toEqual({ tradingSchedule: '24/7', fees: { tiers: ['0.10', '0.20'] } })
  })

  it('fundInterval can be 1, 2, 4 or 8', async () => {
    const rows = ['1', '2', '4', '8'].map((fundInterval) => ({
      category: 'SPOT',
      symbol: `S${fundInterval}`,
      fundInterval,
    }))
    await exchange.answering(envelope(JSON.stringify(rows)))
    const page = await exchange.client.instruments({ category: 'SPOT' })
    expect(page.rows.map(({ fundInterval }) => fundInterval)).toEqual([1, 2, 4, 8])
  })

  it('the same symbol exists in several categories: a row of another one than asked for is not taken', async () => {
    await exchange.answering(fixture('instruments.json.txt'))
    const { rows, rejected } = await exchange.client.instruments({ category: 'MARGIN' })
    expect(rows).toEqual([])
    expect(rejected.map(({ reason }) => reason)).toEqual([
      'category: SPOT, but MARGIN was asked for',
      'category: SPOT, but MARGIN was asked for',
    ])
  })
})

describe('RPI symbols', () => {
  it('spell the category in lower case', async () => {
    await exchange.answering(
      envelope('[{"category":"usdt-futures","symbol":"BTCUSDT"},{"category":"spot","symbol":"BTCUSDT"}]'),
    )
    expect((await exchange.client.rpiSymbols()).rows).toEqual([
      { category: 'USDT-FUTURES', symbol: 'BTCUSDT' },
      { category: 'SPOT', symbol: 'BTCUSDT' },
    ])
  })
})
