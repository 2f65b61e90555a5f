import { describe, expect, it } from 'vitest'
import { envelope } from '../../support/fakeService.js'
import { fixture, oneResponse } from '../../support/oneResponse.js'

const exchange = oneResponse()

// Behaviour of the live service that its specification does not name. Each test is named after one observation.

const spot = { category: 'SPOT', symbol: 'BTCUSDT' } as const
const book = { ...spot, limit: 50 }
const minutes = { ...spot, interval: '1m' } as const

describe('tickers', () => {
  it('delivery fields are "" on perpetual rows; decimals have 16 places and more; -1 is a change like any other', async () => {
    await exchange.answering(fixture('tickers.json'))
    const { rows } = await exchange.client.tickers({ category: 'USDT-FUTURES' })
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
    await exchange.answering(fixture('tickers.json'))
    const { rows, requestTime } = await exchange.client.tickers({ category: 'USDT-FUTURES' })
    expect(requestTime).toBe(1_760_000_001_500)
    expect(rows.map(({ ts, category }) => [ts, category])).toEqual([
      [1_760_000_000_700, 'USDT-FUTURES'],
      [requestTime, 'USDT-FUTURES'],
    ])
  })
})

describe('order books', () => {
  it('entries are JSON numbers with trailing zeros and more digits than a binary float holds', async () => {
    await exchange.answering(fixture('orderbook.json.txt'))
    const { rows, receivedAt } = await exchange.client.orderBook(book)
    expect(rows).toEqual([
      {
        ...spot,
        ts: 1_760_000_000_100,
        askPrices: ['240.00', '240.10'],
        askSizes: ['1.50', '12345678901234567.12345678'],
        bidPrices: ['239.90', '239.80'],
        bidSizes: ['0.000000000000000001', '3'],
        receivedAt,
        extra: {},
      },
    ])
  })

  it('with a negative size are put aside, and those that are crossed or have a price of 0 are facts', async () => {
    const bookOf = (a: unknown, b: unknown) => envelope(JSON.stringify({ a, b, ts: '1760000000000' }))
    await exchange.answering(bookOf([[1, -1]], [[1, 1]]))
    expect(await exchange.client.orderBook(book)).toMatchObject({ rows: [], rejected: [{}] })
    await exchange.answering(bookOf([[1, 1, -2]], []))
    expect(await exchange.client.rpiOrderBook(book)).toMatchObject({ rows: [], rejected: [{}] })
    await exchange.answering(bookOf([[0, 1]], [[5, 0]]))
    expect(await exchange.client.orderBook(book)).toMatchObject({ rows: [{ askPrices: ['0'], bidPrices: ['5'] }] })
  })

  it.each(['rpi-orderbook-numbers.json.txt', 'rpi-orderbook-strings.json'])(
    'RPI books have been met with strings and with numbers: %s',
    async (name) => {
      await exchange.answering(fixture(name))
      const { rows, receivedAt } = await exchange.client.rpiOrderBook(book)
      expect(rows).toEqual([
        {
          ...spot,
          ts: 1_760_000_000_000,
          askPrices: ['240.00'],
          askSizes: ['1.50'],
          askRpiSizes: ['0.25'],
          bidPrices: [],
          bidSizes: [],
          bidRpiSizes: [],
          receivedAt,
          extra: {},
        },
      ])
    },
  )

  it('an empty book is a normal success, and ts can be later than requestTime', async () => {
    await exchange.answering(envelope('{"a":[],"b":[],"ts":"1760000009999"}', 1_760_000_000_000))
    const { rows, requestTime } = await exchange.client.orderBook(book)
    expect(rows).toHaveLength(1)
    expect(rows[0]?.ts).toBeGreaterThan(requestTime)
  })

  it('a further number in a level is not taken for something else', async () => {
    await exchange.answering(envelope('{"a":[[1,2,3]],"b":[],"ts":"1760000000000","seq":5}'))
    const { rows } = await exchange.client.orderBook(book)
    expect(rows[0]).toMatchObject({ askPrices: ['1'], askSizes: ['2'], extra: { seq: '5' } })
  })

  it('a bad level rejects the book and keeps its text', async () => {
    await exchange.answering(envelope('{"a":[[1.0,2.00]],"b":[[1,"x"]],"ts":"1760000000000"}'))
    const { rows, rejected } = await exchange.client.orderBook(book)
    expect(rows).toEqual([])
    expect(rejected).toMatchObject([
      {
        operation: 'orderbook',
        parameters: { category: 'SPOT', symbol: 'BTCUSDT', limit: '50' },
        reason: 'b: expected a decimal number of at most 38 digits that is not negative in level 0[1], got [1,"x"]',
        raw: '{"a":[[1.0,2.00]],"b":[[1,"x"]],"ts":"1760000000000"}',
      },
    ])
  })
})

describe('an optional field that cannot be understood', () => {
  const fill = { execId: '1', price: '1.5', size: '2', side: 'buy', ts: '1760000000000' }
  const reasons = (page: { rejected: readonly { reason: string; isRowStored?: true }[] }) =>
    page.rejected.map(({ reason, isRowStored }) => [reason, isRowStored])

  it('costs a fill nothing else: it is null, and its text is kept', async () => {
    const rows = Array.from({ length: 50 }, (_, i) => ({ ...fill, execId: `${i}`, isRPI: '0' }))
    await exchange.answering(envelope(JSON.stringify(rows)))
    const page = await exchange.client.fills(spot)
    expect(page.rows).toHaveLength(50)
    expect(page.rows[49]).toMatchObject({ execId: '49', price: '1.5', isRpi: null, extra: { isRPI: '0' } })
    // One remark says it of all of them.
    expect(reasons(page)).toEqual([['isRPI: expected yes or no, got "0"; the row is stored without it', true]])
  })

  it('costs a ticker nothing else', async () => {
    const ticker = { symbol: 'BTCUSDT', ts: '1760000000000', lastPrice: '1.50', fundingRate: 'NaN', openInterest: '--' }
    await exchange.answering(envelope(JSON.stringify([ticker])))
    const page = await exchange.client.tickers({ category: 'SPOT' })
    expect(page.rows).toMatchObject([
      { lastPrice: '1.50', fundingRate: null, openInterest: null, extra: { fundingRate: 'NaN', openInterest: '--' } },
    ])
    expect(reasons(page)).toEqual([
      [
        'fundingRate: expected a decimal number of at most 38 digits, got "NaN" (and 1 more); the row is stored without it',
        true,
      ],
    ])
  })

  it('costs an instrument nothing else, and neither does text that no database holds', async () => {
    await exchange.answering(envelope(JSON.stringify([{ ...spot, fundInterval: '8.5', status: 'a\u0000b' }])))
    const page = await exchange.client.instruments({ category: 'SPOT' })
    expect(page.rows).toMatchObject([{ fundInterval: null, status: null, extra: { fundInterval: '8.5' } }])
  })
})

describe('fills', () => {
  it('isRPI comes as YES, NO, yes and no, and isRPI and execLinkId can be missing', async () => {
    await exchange.answering(fixture('fills.json'))
    const { rows, rejected } = await exchange.client.fills(spot)
    expect(rejected).toEqual([])
    expect(rows.map(({ isRpi, execLinkId }) => [isRpi, execLinkId])).toEqual([
      [true, '40'],
      [false, null],
      [null, null],
    ])
  })

  it('come newest first, and several can share one millisecond', async () => {
    await exchange.answering(fixture('fills.json'))
    const { rows } = await exchange.client.fills(spot)
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
    await exchange.answering(envelope(`[${good},${broken.join(',')},${good}]`))
    const { rows, rejected } = await exchange.client.fills(spot)
    expect(rows).toHaveLength(2)
    expect(rejected.map(({ raw }) => raw)).toEqual(broken)
    expect(rejected[0]).toMatchObject({ operation: 'fills', parameters: { category: 'SPOT', symbol: 'BTCUSDT' } })
    expect(rejected[0]?.reason).toBe(
      'size: expected a decimal number of at most 38 digits that is not negative, got "many" (and 2 more)',
    )
    for (const { reason } of rejected) expect(reason).toMatch(/^[^\n]{5,300}$/)
  })
})

describe('candles', () => {
  it('the timestamp is the opening time, which need not be a multiple of a day for 1D', async () => {
    await exchange.answering(fixture('candles.json'))
    const { rows } = await exchange.client.candles({ ...spot, interval: '1D' })
    expect(rows[0]).toEqual({
      ...spot,
      type: 'market',
      interval: '1D',
      isClosed: expect.any(Boolean) as boolean,
      openTime: 1_759_939_200_000,
      open: '1.10',
      high: '1.20',
      low: '1.000000000000000001',
      close: '1.15',
      baseVolume: '100.0',
      quoteTurnover: '110.00',
    })
    expect(rows.map(({ openTime }) => openTime)).toEqual([1_759_939_200_000, 1_760_025_600_000])
  })

  it('an empty success and a short page are normal', async () => {
    await exchange.answering(envelope('[]'))
    expect((await exchange.client.candles(minutes)).rows).toEqual([])
    expect((await exchange.client.historyCandles(minutes)).rows).toEqual([])
  })

  it('a candle that contradicts itself is put aside, with the reason', async () => {
    const bad = [
      ['1760000040000', '5', '1', '9', '5', '0', '0'],
      ['1760000070000', '5', '9', '1', '5', '0', '0'],
    ]
    await exchange.answering(envelope(JSON.stringify([...bad, ['1760000100000', '5', '9', '1', '5', '0', '0']])))
    const { rows, rejected } = await exchange.client.candles(minutes)
    expect(rows).toMatchObject([{ openTime: 1_760_000_100_000, high: '9', low: '1' }])
    expect(rejected.map(({ reason }) => reason)).toEqual([
      '2: the highest price 1 is below the lowest 9',
      '0: expected an opening time of an interval of 1m, got 2025-10-09T08:54:30.000Z',
    ])
    expect(rejected.map(({ raw }) => JSON.parse(raw) as unknown)).toEqual(bad)
  })

  it.each(['market', 'mark', 'index', 'premium'] as const)('a %s candle may have negative prices', async (type) => {
    await exchange.answering(envelope('[["1760000040000","-5","-1","-37.63","-5","0","0"]]'))
    const { rows, rejected } = await exchange.client.candles({ ...minutes, type })
    expect(rejected).toEqual([])
    expect(rows).toMatchObject([{ type, open: '-5', high: '-1', low: '-37.63', close: '-5' }])
  })

  it('a candle with a volume or a value that no market has is put aside', async () => {
    const bad = [
      ['1760000040000', '5', '9', '1', '5', '-1', '0'],
      ['1760000100000', '5', '9', '1', '5', '0', '1e400'],
      ['1760000160000', '5', `9.${'0'.repeat(200)}`, '1', '5', '0', '0'],
      ['1760000220000', '5', '9', '1', '5', 'many', '0'],
    ]
    await exchange.answering(envelope(JSON.stringify(bad)))
    const { rows, rejected } = await exchange.client.candles(minutes)
    expect(rows).toEqual([])
    expect(rejected.map(({ reason, isRowStored }) => [reason.slice(0, 2), isRowStored])).toEqual([
      ['5:', undefined],
      ['6:', undefined],
      ['2:', undefined],
      ['5:', undefined],
    ])
  })

  it('a candle without volume and turnover is kept: old ones of tokenised stocks have none', async () => {
    const [empty, missing] = [
      ['1760000040000', '1', '1', '1', '1', '', ''],
      ['1760000100000', '1', '1', '1', '1'],
    ]
    await exchange.answering(
      envelope(JSON.stringify([empty, missing, ['1760000160000', '1', '1', '1', '1', null, null]])),
    )
    const { rows, rejected } = await exchange.client.candles(minutes)
    expect(rows.map(({ baseVolume, quoteTurnover }) => [baseVolume, quoteTurnover])).toEqual([
      [null, null],
      [null, null],
      [null, null],
    ])
    expect(rejected).toEqual([])
  })

  it('a row with too few values is put aside, a further value costs nothing', async () => {
    await exchange.answering(envelope('[["1760000040000","1","1","1"],["1760000100000","1","1","1","1",0,"0","new"]]'))
    const { rows, rejected } = await exchange.client.candles(minutes)
    expect(rows.map(({ openTime }) => openTime)).toEqual([1_760_000_100_000])
    expect(rejected.map(({ raw }) => raw)).toEqual(['["1760000040000","1","1","1"]'])
  })
})
