import { describe, expect, test } from 'vitest'
import { ask, noon, openTimes, start, stopAfterEach } from './requests.js'

stopAfterEach()
const minuteMs = 60_000
const hourMs = 3_600_000
const dayMs = 86_400_000
const minute = noon - 30_000

describe('envelope', () => {
  test('a success has code, msg, an integer requestTime and data', async () => {
    const { status, text } = await ask(await start(), 'rpi-symbols')
    expect(status).toBe(200)
    expect(text).toMatch(new RegExp(`^\\{"code":"00000","msg":"success","requestTime":${noon},"data":\\[`))
  })

  test('a path that is no operation is not found, neither is another method', async () => {
    const simulator = await start()
    expect((await ask(simulator, 'nothing')).status).toBe(404)
    expect((await fetch(`${simulator.url}//`)).status).toBe(404)
    expect((await fetch(`${simulator.url}/api/v3/market/tickers?category=SPOT`, { method: 'POST' })).status).toBe(404)
  })
})

describe('parameters', () => {
  test.each([
    ['tickers', '400172'],
    ['tickers?category=', '40019'],
    ['tickers?category=spot', '40034'],
    ['instruments?category=spot', '400172'],
    ['orderbook?category=SPOT', '400172'],
    ['orderbook?category=MARGIN&symbol=BTCUSDT', '400172'],
    ['orderbook?category=SPOT&symbol=NOPEUSDT', '25100'],
    ['orderbook?category=SPOT&symbol=BTCUSDT&limit=x', '40020'],
    ['orderbook?category=SPOT&symbol=BTCUSDT&limit=0', '40020'],
    ['fills?category=SPOT&symbol=NOPEUSDT', '40034'],
    ['fills?category=USDC-FUTURES&symbol=BTCUSDT', '40034'],
    ['instruments?category=SPOT&symbol=NOPEUSDT', '40034'],
    ['candles?category=SPOT&symbol=BTCUSDT', '400172'],
    ['candles?category=SPOT&symbol=BTCUSDT&interval=1h', '400172'],
    ['candles?category=SPOT&symbol=BTCUSDT&interval=1M', '400172'],
    ['candles?category=SPOT&symbol=BTCUSDT&interval=1m&type=last', '400172'],
    ['candles?category=SPOT&symbol=BTCUSDT&interval=1m&limit=1001', '40020'],
    ['history-candles?category=SPOT&symbol=BTCUSDT&interval=1m&limit=101', '40020'],
    ['candles?category=SPOT&symbol=RNVDAUSDT&interval=3m', '48001'],
    ['history-candles?category=SPOT&symbol=RNVDAUSDT&interval=12H', '48001'],
    ['candles?category=SPOT&symbol=BTCUSDT&interval=1m&startTime=yesterday', '40020'],
    ['candles?category=SPOT&symbol=BTCUSDT&interval=1m&startTime=2000&endTime=1000', '40017'],
    [
      `history-candles?category=SPOT&symbol=BTCUSDT&interval=1m&startTime=${noon - 90 * dayMs - 1}&endTime=${noon}`,
      '40705',
    ],
  ])('%s is refused with %s and no data', async (request, code) => {
    const received = await ask(await start(), request)
    expect(received).toMatchObject({ status: 400, code, data: null })
  })

  test('limits over the maximum are cut silently, except on candles of both kinds', async () => {
    const simulator = await start()
    const book = await ask(simulator, 'orderbook?category=SPOT&symbol=BTCUSDT&limit=5000')
    expect((book.data as { a: unknown[] }).a).toHaveLength(1_000)
    expect((await ask(simulator, 'fills?category=SPOT&symbol=BTCUSDT&limit=5000')).rows).toHaveLength(100)
    const history = 'history-candles?category=SPOT&symbol=BTCUSDT&interval=1m'
    expect((await ask(simulator, history)).rows).toHaveLength(100)
    expect((await ask(simulator, 'candles?category=SPOT&symbol=BTCUSDT&interval=1m')).rows).toHaveLength(1_000)
  })
})

describe('instruments', () => {
  test('every category has rows, in no alphabetical order, and the same symbol stands in several', async () => {
    const simulator = await start()
    const symbols = new Map<string, string[]>()
    for (const category of ['SPOT', 'MARGIN', 'USDT-FUTURES', 'COIN-FUTURES', 'USDC-FUTURES']) {
      const { rows } = await ask(simulator, `instruments?category=${category}`)
      expect(rows.every((row) => row['category'] === category)).toBe(true)
      symbols.set(
        category,
        rows.map((row) => String(row['symbol'])),
      )
    }
    for (const category of ['SPOT', 'MARGIN', 'USDT-FUTURES']) expect(symbols.get(category)).toContain('BTCUSDT')
    expect(symbols.get('COIN-FUTURES')).toContain('BTCUSD_CM')
    expect(symbols.get('USDC-FUTURES')).toContain('BTCPERP')
    expect(symbols.get('SPOT')).not.toEqual(symbols.get('SPOT')?.toSorted())
  })

  test('one symbol gives one row, with the case of its base coin', async () => {
    const { rows } = await ask(await start(), 'instruments?category=SPOT&symbol=RNVDAUSDT')
    expect(rows).toHaveLength(1)
    expect(rows[0]).toMatchObject({ baseCoin: 'rNVDA', symbolType: 'stock', isReality: 'yes' })
  })

  test('delivery futures have their times and period, perpetual ones do not', async () => {
    const { rows } = await ask(await start(), 'instruments?category=USDT-FUTURES')
    const delivery = rows.filter((row) => row['type'] === 'delivery')
    expect(new Set(delivery.map((row) => row['deliveryPeriod']))).toEqual(new Set(['next_quarter', 'this_quarter']))
    expect(rows.find((row) => row['symbol'] === 'BTCUSDT')).not.toHaveProperty('deliveryTime')
  })

  test('the status follows the life of an instrument; once removed it responds with 40309', async () => {
    let now = noon
    const simulator = await start({ now: () => now })
    const launchTime = noon + 10_000
    const life = { announceTime: noon, launchTime, limitOpenTime: noon + 20_000 }
    const times = { offTime: noon + 30_000, removeTime: noon + 40_000 }
    simulator.control.list({ category: 'SPOT', symbol: 'LIFEUSDT', ...life, ...times })
    const statuses: (string | null | undefined)[] = []
    for (let step = 0; step < 4; step++, now += 10_000) {
      const { rows } = await ask(simulator, 'instruments?category=SPOT')
      statuses.push(rows.find((row) => row['symbol'] === 'LIFEUSDT')?.['status'])
    }
    expect(statuses).toEqual(['listed', 'online', 'limit_open', 'offline'])
    for (const operation of ['instruments', 'tickers', 'fills', 'orderbook']) {
      const received = await ask(simulator, `${operation}?category=SPOT&symbol=LIFEUSDT`)
      expect(received).toMatchObject({ code: '40309', data: null })
    }
  })
})

describe('fills', () => {
  test('the newest come first, of margin instruments those of the spot book, with an id each', async () => {
    const simulator = await start()
    const { rows } = await ask(simulator, 'fills?category=SPOT&symbol=BTCUSDT')
    const times = rows.map((row) => Number(row['ts']))
    expect(times).toEqual(times.toSorted((a, b) => b - a))
    expect(times[0]).toBeLessThanOrEqual(noon)
    expect(new Set(rows.map((row) => row['execId'])).size).toBe(100)
    expect((await ask(simulator, 'fills?category=MARGIN&symbol=BTCUSDT')).rows).toEqual(rows)
    const oldest = Number(times.at(-1))
    const truth = simulator.world.fills('SPOT', 'BTCUSDT', oldest + 1, noon + 1).toReversed()
    expect(rows.slice(0, truth.length)).toEqual(truth)
  })
})

describe('rpi-symbols and books', () => {
  test('the category of RPI symbols is in lower case', async () => {
    const { rows } = await ask(await start(), 'rpi-symbols')
    expect(new Set(rows.map((row) => row['category']))).toContain('usdc-futures')
    expect(rows.every((row) => row['category'] === row['category']?.toLowerCase())).toBe(true)
  })

  test('books have five levels by default, written as JSON numbers with their trailing zeros', async () => {
    const simulator = await start()
    const { text } = await ask(simulator, 'orderbook?category=SPOT&symbol=BTCUSDT')
    const { a, b, ts } = simulator.world.orderBook('SPOT', 'BTCUSDT', noon, 5)
    const levels = (list: typeof a) => `[${list.map((level) => `[${level.join(',')}]`).join(',')}]`
    expect(text).toContain(`"data":{"a":${levels(a)},"b":${levels(b)},"ts":"${ts}"}`)
    const rpi = await ask(simulator, 'rpi-orderbook?category=SPOT&symbol=BTCUSDT&limit=2')
    expect((rpi.data as { a: unknown[][] }).a.map((level) => level.length)).toEqual([3, 3])
  })
})

describe('candles', () => {
  const candles = 'candles?category=SPOT&symbol=BTCUSDT&interval=1m'

  test('without times the most recent ones, ascending, the forming one last', async () => {
    const received = await ask(await start(), `${candles}&limit=3`)
    expect(openTimes(received)).toEqual([minute - 2 * minuteMs, minute - minuteMs, minute])
    expect(received.rows.every((row) => Object.values(row).every((value) => typeof value === 'string'))).toBe(true)
  })

  test('start is exclusive and end is inclusive', async () => {
    const received = await ask(await start(), `${candles}&startTime=${minute - 3 * minuteMs}&endTime=${minute}`)
    expect(openTimes(received)).toEqual([minute - 2 * minuteMs, minute - minuteMs, minute])
  })

  test('a range with more than the limit gives its most recent candles', async () => {
    const range = `startTime=${minute - 50 * minuteMs}&endTime=${minute - 10 * minuteMs}`
    const received = await ask(await start(), `${candles}&${range}&limit=2`)
    expect(openTimes(received)).toEqual([minute - 11 * minuteMs, minute - 10 * minuteMs])
  })

  test('further back than its depth it responds with an empty success', async () => {
    const simulator = await start()
    const at = (days: number) => `${candles}&startTime=${noon - (days + 1) * dayMs}&endTime=${noon - days * dayMs}`
    expect((await ask(simulator, at(29))).rows.length).toBeGreaterThan(900)
    expect(await ask(simulator, at(31))).toMatchObject({ status: 200, code: '00000', data: [] })
    const custom = await start({ quirks: { candleDepthDays: { '1m': 2 } } })
    expect((await ask(custom, at(3))).rows).toEqual([])
  })
})

describe('history-candles', () => {
  const history = 'history-candles?category=SPOT&symbol=BTCUSDT&interval=1H'
  const hour = Math.floor(noon / hourMs) * hourMs

  test('end is exclusive', async () => {
    const received = await ask(await start(), `${history}&startTime=${hour - 3 * hourMs}&endTime=${hour}`)
    expect(openTimes(received)).toEqual([3, 2, 1].map((back) => hour - back * hourMs))
  })

  test('it reaches back to the launch, and may hold recent candles or none of the last 90 days', async () => {
    const old = `${history}&endTime=${noon - 400 * dayMs}`
    expect((await ask(await start(), old)).rows).toHaveLength(100)
    const distant = await start({ quirks: { historyHoldsRecent: false } })
    expect((await ask(distant, old)).rows).toHaveLength(100)
    expect((await ask(distant, `${history}&startTime=${noon - 80 * dayMs}&endTime=${noon}`)).rows).toEqual([])
  })

  test('minutes from far beyond 90 days are served', async () => {
    const end = noon - 800 * dayMs
    const request = `history-candles?category=SPOT&symbol=BTCUSDT&interval=1m&endTime=${end}`
    const times = openTimes(await ask(await start(), request))
    expect(times).toHaveLength(100)
    expect(times.at(-1)).toBe(Math.ceil(end / minuteMs) * minuteMs - minuteMs)
  })

  test('an end past a boundary may begin one interval earlier', async () => {
    const range = `startTime=${hour - 3 * hourMs}&endTime=${hour + 1}`
    const first = async (historyRoundsUp: boolean) =>
      openTimes(await ask(await start({ quirks: { historyRoundsUp } }), `${history}&${range}`))[0]
    expect(await first(false)).toBe(hour - 3 * hourMs)
    expect(await first(true)).toBe(hour - 4 * hourMs)
  })
})

describe('Reality tokens', () => {
  const reality = 'candles?category=SPOT&symbol=RNVDAUSDT&limit=5'

  test('every type falls back to market', async () => {
    const simulator = await start()
    const market = (await ask(simulator, `${reality}&interval=5m`)).rows
    for (const type of ['mark', 'index', 'premium']) {
      expect((await ask(simulator, `${reality}&interval=5m&type=${type}`)).rows).toEqual(market)
    }
  })

  test('six intervals are supported, the others are an error of their own', async () => {
    const simulator = await start({ quirks: { furtherIntervals: true } })
    for (const interval of ['1m', '5m', '15m', '1H', '4H', '1D']) {
      expect((await ask(simulator, `${reality}&interval=${interval}`)).rows).toHaveLength(5)
    }
    for (const interval of ['3m', '30m', '6H', '12H', '1W', '1Dutc']) {
      expect((await ask(simulator, `${reality}&interval=${interval}`)).code).toBe('48001')
    }
  })
})

describe('limits', () => {
  test('the request over the limit is answered 429 without Retry-After', async () => {
    const simulator = await start({ limits: { perSecond: { 'rpi-symbols': 2 } } })
    const answers = [1, 2, 3].map(() => ask(simulator, 'rpi-symbols'))
    const statuses = (await Promise.all(answers)).map(({ status }) => status)
    expect(statuses.toSorted((a, b) => a - b)).toEqual([200, 200, 429])
    const refused = await ask(simulator, 'rpi-symbols')
    expect(refused.text).toBe('{"code":"429","msg":"Too Many Requests","data":null}')
    expect(refused.headers.get('retry-after')).toBeNull()
    expect((await ask(simulator, 'tickers?category=SPOT')).headers.get('x-mbx-used-remain-limit')).toBe('19')
  })

  test('over the limit per minute everything is refused, but only from that address', async () => {
    const simulator = await start({ limits: { perMinute: 2 } })
    for (let i = 0; i < 3; i++) await ask(simulator, 'rpi-symbols')
    expect((await ask(simulator, 'tickers?category=SPOT')).status).toBe(429)
    expect(simulator.control.report()['127.0.0.1']?.overall).toMatchObject({ requests: 4, rejected: 2, blocks: 1 })
  })

  test('a factor multiplies the limits', async () => {
    const simulator = await start({ limits: { factor: 0.1 } })
    const answers = await Promise.all([1, 2, 3].map(() => ask(simulator, 'tickers?category=SPOT')))
    expect(answers.filter(({ status }) => status === 429)).toHaveLength(1)
  })
})
