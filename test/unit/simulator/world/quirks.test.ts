import { describe, expect, test } from 'vitest'
import { observedQuirks } from '../../../support/quirks.js'
import { ask, noon, openTimes, start, stopAfterEach } from '../requests.js'

stopAfterEach()
const minuteMs = 60_000
const hourMs = 3_600_000
const minute = noon - 30_000
const hour = Math.floor(noon / hourMs) * hourMs

describe('observed quirks', () => {
  test('errorHttpStatus: a failure arrives with HTTP 200 or 400', async () => {
    const status = async (errorHttpStatus: 200 | 400) =>
      (await ask(await start({ quirks: { errorHttpStatus } }), 'tickers?category=MOON')).status
    expect([await status(200), await status(400)]).toEqual([200, 400])
  })

  test('envelopeOrderVaries: the order of the keys changes', async () => {
    let now = noon
    const simulator = await start({ now: () => now++, quirks: { envelopeOrderVaries: true } })
    const beginnings = new Set<string>()
    for (let i = 0; i < 20; i++) beginnings.add((await ask(simulator, 'tickers?category=MOON')).text.slice(0, 8))
    expect(beginnings.size).toBe(3)
  })

  test('rpiBookAsStrings: strings instead of numbers', async () => {
    const simulator = await start({ quirks: { rpiBookAsStrings: true } })
    const { data } = await ask(simulator, 'rpi-orderbook?category=SPOT&symbol=BTCUSDT')
    expect(data).toEqual(simulator.world.rpiOrderBook('SPOT', 'BTCUSDT', noon, 5))
    expect((await ask(simulator, 'orderbook?category=SPOT&symbol=BTCUSDT')).text).toMatch(/"a":\[\[\d/)
  })

  test('isRpiUpperCase, missingExecLinkId, missingIsRpi: fills spell and omit', async () => {
    const fills = async (quirks: Parameters<typeof start>[0]) =>
      (await ask(await start(quirks), 'fills?category=SPOT&symbol=BTCUSDT')).rows
    const spellings = new Set((await fills({ quirks: { isRpiUpperCase: 'mixed' } })).map((row) => row['isRPI']))
    expect(spellings).toEqual(new Set(['yes', 'no', 'YES', 'NO']))
    const some = await fills({ quirks: { missingExecLinkId: 0.5, missingIsRpi: 0.5 } })
    for (const field of ['execLinkId', 'isRPI']) {
      const present = some.filter((row) => field in row).length
      expect(present).toBeGreaterThan(0)
      expect(present).toBeLessThan(100)
    }
    expect(some.every((row) => 'execId' in row)).toBe(true)
  })

  test('tickerTsZero: ts is "0"', async () => {
    const { rows } = await ask(await start({ quirks: { tickerTsZero: 1 } }), 'tickers?category=SPOT')
    expect(new Set(rows.map((row) => row['ts']))).toEqual(new Set(['0']))
  })

  test('emptyBooks: an empty book is a success', async () => {
    const simulator = await start({ quirks: { emptyBooks: 1 } })
    const { code, data } = await ask(simulator, 'orderbook?category=SPOT&symbol=BTCUSDT')
    expect({ code, data }).toMatchObject({ code: '00000', data: { a: [], b: [] } })
  })

  test('bookTsAheadMs: ts may be later than the request', async () => {
    const simulator = await start({ quirks: { bookTsAheadMs: 5_000 } })
    const ahead = await Promise.all(
      ['BTCUSDT', 'ETHUSDT', 'WEIUSDT', 'RNVDAUSDT'].map(async (symbol) => {
        const { data, requestTime } = await ask(simulator, `orderbook?category=SPOT&symbol=${symbol}`)
        return Number((data as { ts: string }).ts) - requestTime
      }),
    )
    expect(Math.max(...ahead)).toBeGreaterThan(0)
    expect(Math.max(...ahead)).toBeLessThanOrEqual(5_000)
  })

  test('futuresFieldsOnSpot: futures fields on spot rows, isRwa on futures rows only', async () => {
    const row = async (category: string, futuresFieldsOnSpot: boolean) =>
      (await ask(await start({ quirks: { futuresFieldsOnSpot } }), `instruments?category=${category}&symbol=BTCUSDT`))
        .rows[0]
    expect(await row('SPOT', true)).toHaveProperty('makerFeeRate')
    expect(await row('SPOT', true)).not.toHaveProperty('isRwa')
    expect(await row('USDT-FUTURES', true)).toHaveProperty('isRwa')
    expect(await row('SPOT', false)).not.toHaveProperty('makerFeeRate')
    expect(await row('SPOT', false)).toHaveProperty('isRwa')
  })

  test('notSetSpellings: "", "0", "-1", null and absent', async () => {
    const simulator = await start({ scale: 'small', quirks: { notSetSpellings: 'mixed' } })
    const { rows } = await ask(simulator, 'instruments?category=USDT-FUTURES')
    const spellings = new Set(
      rows.map((row) => row['limitOpenTime']).filter((value) => !/^\d{13}$/.test(String(value))),
    )
    expect(spellings).toEqual(new Set(['', '0', '-1', null, undefined]))
    const plain = await ask(await start({ scale: 'small' }), 'instruments?category=USDT-FUTURES')
    expect(plain.rows.every((row) => row['maxSymbolOrderNum'] === '')).toBe(true)
  })

  test('lowerCaseAreaSymbol: yes and no, instead of YES alone', async () => {
    const values = async (lowerCaseAreaSymbol: boolean) => {
      const simulator = await start({ scale: 'small', quirks: { lowerCaseAreaSymbol } })
      return new Set((await ask(simulator, 'instruments?category=SPOT')).rows.map((row) => row['areaSymbol']))
    }
    expect(await values(true)).toEqual(new Set(['yes', 'no', undefined]))
    expect(await values(false)).toEqual(new Set(['YES', undefined]))
  })

  test('unknownNewFields: some rows have fields that are not specified', async () => {
    const simulator = await start({ scale: 'small', quirks: { unknownNewFields: true } })
    const share = async (operation: string, field: string) => {
      const { rows } = await ask(simulator, `${operation}?category=SPOT`)
      return rows.filter((row) => field in row).length / rows.length
    }
    for (const part of [await share('instruments', 'tradingSchedule'), await share('tickers', 'usdTurnover24h')]) {
      expect(part).toBeGreaterThan(0)
      expect(part).toBeLessThan(1)
    }
  })

  test('dailyOpenAt16Utc: days open at 16:00 UTC', async () => {
    const hourOfDay = async (dailyOpenAt16Utc: boolean) => {
      const simulator = await start({ quirks: { dailyOpenAt16Utc } })
      const received = await ask(simulator, 'candles?category=SPOT&symbol=BTCUSDT&interval=1D&limit=2')
      return openTimes(received).map((openTime) => (openTime % 86_400_000) / hourMs)
    }
    expect(await hourOfDay(true)).toEqual([16, 16])
    expect(await hourOfDay(false)).toEqual([0, 0])
  })

  test('historyIgnoresStart: the page reaches back as far as the limit allows', async () => {
    const simulator = await start({ quirks: { historyIgnoresStart: true } })
    const range = `startTime=${hour - 2 * hourMs}&endTime=${hour}`
    const history = `history-candles?category=SPOT&symbol=BTCUSDT&interval=1H&${range}`
    expect(openTimes(await ask(simulator, history))).toHaveLength(100)
  })

  test('candlesStartInclusive, candlesEndExclusive, historyEndInclusive turn the bounds round', async () => {
    const quirks = { candlesStartInclusive: true, candlesEndExclusive: true, historyEndInclusive: true }
    const simulator = await start({ quirks })
    const range = `category=SPOT&symbol=BTCUSDT&interval=1H&startTime=${hour - 2 * hourMs}&endTime=${hour - hourMs}`
    expect(openTimes(await ask(simulator, `candles?${range}`))).toEqual([hour - 2 * hourMs])
    expect(openTimes(await ask(simulator, `history-candles?${range}`))).toEqual([hour - 2 * hourMs, hour - hourMs])
  })

  test('zeroByteCandlesAfterListingMs: right after a listing the body has no bytes', async () => {
    const simulator = await start({ quirks: { zeroByteCandlesAfterListingMs: 30_000 } })
    simulator.control.list({ category: 'SPOT', symbol: 'FRESHUSDT', launchTime: noon - 10_000 })
    simulator.control.list({ category: 'SPOT', symbol: 'OLDERUSDT', launchTime: noon - 30_000 })
    const body = async (symbol: string) =>
      (await ask(simulator, `candles?category=SPOT&symbol=${symbol}&interval=1m`)).text
    expect(await body('FRESHUSDT')).toBe('')
    expect(await body('OLDERUSDT')).not.toBe('')
  })
})

describe('switches for tests', () => {
  const candles = 'candles?category=SPOT&symbol=BTCUSDT&interval=1m&limit=5'

  test('hiddenCandles are left out without a word', async () => {
    const hidden = { symbol: 'BTCUSDT', from: minute - 3 * minuteMs, to: minute - minuteMs }
    const simulator = await start({ quirks: { hiddenCandles: [{ ...hidden, operation: 'candles' }] } })
    const back = [4, 1, 0].map((steps) => minute - steps * minuteMs)
    expect(openTimes(await ask(simulator, candles))).toEqual(back)
    expect(openTimes(await ask(simulator, `history-${candles}`))).toHaveLength(5)
  })

  test('revisedCandles answer other values from a moment on, once they are closed', async () => {
    let now = noon
    const revised = { from: minute - minuteMs, to: minute + minuteMs, after: noon + 1_000 }
    const simulator = await start({ now: () => now, quirks: { revisedCandles: [revised] } })
    const before = (await ask(simulator, candles)).rows
    now = noon + 1_000
    const after = (await ask(simulator, candles)).rows
    const changed = after.map((row, i) => row['5'] !== before[i]?.['5'])
    expect(changed.slice(0, 4)).toEqual([false, false, false, true])
    expect(Number(after[3]?.['2'])).toBeGreaterThan(Number(before[3]?.['2']))
    const series = { category: 'SPOT', symbol: 'BTCUSDT', type: 'market', interval: '1m' } as const
    expect([after[4]]).toEqual(simulator.world.candles(series, minute, minute + 1, now))
  })

  test('emptyAtFirst: the first responses to a page are empty', async () => {
    const simulator = await start({ quirks: { emptyAtFirst: { operations: ['candles', 'orderbook'], responses: 2 } } })
    const counts = async (request: string) => (await ask(simulator, request)).rows.length
    expect([await counts(candles), await counts(candles), await counts(candles)]).toEqual([0, 0, 5])
    expect(await counts(candles.replace('limit=5', 'limit=6'))).toBe(0)
    expect((await ask(simulator, 'orderbook?category=SPOT&symbol=BTCUSDT')).data).toMatchObject({ a: [], b: [] })
  })

  test.each(['type', 'missing', 'nonsense'] as const)(
    'brokenRows: one row of each page is broken (%s)',
    async (kind) => {
      const whole = await start()
      const pages = {
        instruments: 'instruments?category=SPOT',
        'rpi-symbols': 'rpi-symbols',
        tickers: 'tickers?category=SPOT',
        fills: 'fills?category=SPOT&symbol=BTCUSDT',
        candles,
        'history-candles': `history-${candles}`,
      } as const
      const operations = Object.keys(pages) as (keyof typeof pages)[]
      const broken = await start({ quirks: { brokenRows: { operations, kind } } })
      for (const page of Object.values(pages)) {
        const [good, bad] = [(await ask(whole, page)).rows, (await ask(broken, page)).rows]
        expect(bad).toHaveLength(good.length)
        expect(bad.filter((row, i) => JSON.stringify(row) !== JSON.stringify(good[i]))).toHaveLength(1)
      }
      const book = 'orderbook?category=SPOT&symbol=BTCUSDT'
      broken.control.setQuirks({ brokenRows: { operations: ['orderbook'], kind } })
      expect((await ask(broken, book)).text).not.toBe((await ask(whole, book)).text)
      expect(await ask(broken, book)).toMatchObject({ code: '00000' })
    },
  )

  test('a change of quirks is seen at once, also where pages are kept', async () => {
    const simulator = await start()
    const zeros = async () => (await ask(simulator, 'tickers?category=SPOT')).rows.every((row) => row['ts'] === '0')
    expect(await zeros()).toBe(false)
    simulator.control.setQuirks({ tickerTsZero: 1 })
    expect(await zeros()).toBe(true)
    simulator.control.setQuirks(observedQuirks)
    expect(() => simulator.control.setQuirks({ tickerTsZero: 2 })).toThrow()
  })
})

describe('quirks of the market as it is', () => {
  const book = 'orderbook?category=SPOT&symbol=BTCUSDT&limit=1000'

  test('brotli: bodies are compressed for those who accept it, and hold the same', async () => {
    const encoding = async (brotli: boolean, accept: string) => {
      const simulator = await start({ quirks: { brotli } })
      const response = await fetch(`${simulator.url}/api/v3/market/${book}`, { headers: { 'accept-encoding': accept } })
      return [response.headers.get('content-encoding'), (await response.text()).length]
    }
    const [plain, length] = await encoding(true, 'gzip')
    expect(plain).toBeNull()
    expect(await encoding(true, 'gzip, br')).toEqual(['br', length])
    expect(await encoding(false, 'br')).toEqual([null, length])
  })

  test('furtherIntervals: candles of days, weeks and months, with and without utc', async () => {
    const simulator = await start({ quirks: { furtherIntervals: true, dailyOpenAt16Utc: true } })
    for (const interval of ['3D', '1W', '1M', '6Hutc', '12Hutc', '1Dutc', '3Dutc', '1Wutc', '1Mutc']) {
      const request = `candles?category=SPOT&symbol=BTCUSDT&interval=${interval}&limit=3`
      const times = openTimes(await ask(simulator, request))
      expect(times).toHaveLength(3)
      const midnight = interval.endsWith('utc') ? 0 : 16 * hourMs
      if (!interval.includes('H'))
        expect(times.map((time) => time % 86_400_000)).toEqual([midnight, midnight, midnight])
    }
    const plain = await ask(await start(), 'candles?category=SPOT&symbol=BTCUSDT&interval=1W')
    expect(plain.code).toBe('400172')
  })

  test('eighthCandleValue: a candle has eight values', async () => {
    const simulator = await start({ quirks: { eighthCandleValue: true } })
    const { rows } = await ask(simulator, 'candles?category=SPOT&symbol=BTCUSDT&interval=1m&limit=2')
    expect(rows.map((row) => Object.keys(row).length)).toEqual([8, 8])
  })

  test('silentInstruments: thinly traded crypto may leave out intervals without a trade, busy ones do not', async () => {
    const simulator = await start({ quirks: { silentInstruments: 1 } })
    simulator.control.list({ category: 'SPOT', symbol: 'QUIETUSDT', launchTime: 0, fillsPerHour: 10 })
    const times = async (symbol: string) =>
      openTimes(await ask(simulator, `candles?category=SPOT&symbol=${symbol}&interval=1m&limit=60`))
    const gaps = (list: number[]) => list.slice(1).filter((time, i) => time - (list[i] ?? 0) > minuteMs).length
    expect(gaps(await times('QUIETUSDT'))).toBeGreaterThan(10)
    expect(gaps(await times('BTCUSDT'))).toBe(0)
    simulator.control.setQuirks({ silentInstruments: 0 })
    expect(gaps(await times('QUIETUSDT'))).toBe(0)
  })

  test('hiddenCandles and hiddenFills with until, lateCandles: rows are hidden for a while and there later', async () => {
    let now = noon
    const simulator = await start({ now: () => now })
    const candles = 'candles?category=SPOT&symbol=BTCUSDT&interval=1m&limit=50'
    const fills = 'fills?category=SPOT&symbol=BTCUSDT'
    const before = [(await ask(simulator, candles)).rows, (await ask(simulator, fills)).rows]
    const newest = Number(before[1]?.[0]?.['ts'])
    const range = { symbol: 'BTCUSDT', from: newest - 10_000, to: newest + 1, until: noon + 1 }
    simulator.control.setQuirks({
      hiddenCandles: [{ from: minute - 5 * minuteMs, to: minute, until: noon + 1 }],
      hiddenFills: [range],
    })
    expect(openTimes(await ask(simulator, candles))).toHaveLength(45)
    const seen = (await ask(simulator, fills)).rows
    expect(seen).toHaveLength(100)
    expect(Number(seen[0]?.['ts'])).toBeLessThan(range.from)
    now = noon + 1
    expect((await ask(simulator, candles)).rows.slice(0, 49)).toEqual(before[0]?.slice(0, 49))
    expect((await ask(simulator, fills)).rows.map((row) => row['execId'])).toContain(before[1]?.[0]?.['execId'])
    simulator.control.setQuirks({ lateCandles: { share: 0.5, forMs: 3_600_000 } })
    const some = openTimes(await ask(simulator, candles))
    expect(some.length).toBeGreaterThan(10)
    expect(some.length).toBeLessThan(40)
    now = noon + 2 * 3_600_000
    const later = await ask(simulator, `${candles}&endTime=${minute}`)
    expect(openTimes(later)).toHaveLength(50)
  })

  test('missingCategories: a category is unknown to the operations that are named', async () => {
    const missing = { category: 'SPOT', operations: ['tickers'], code: '40019' } as const
    const simulator = await start({ quirks: { missingCategories: [{ ...missing, operations: ['tickers'] }] } })
    expect(await ask(simulator, 'tickers?category=SPOT')).toMatchObject({ code: '40019', data: null })
    expect(await ask(simulator, 'tickers?category=USDT-FUTURES')).toMatchObject({ code: '00000' })
    expect(await ask(simulator, 'instruments?category=SPOT')).toMatchObject({ code: '00000' })
  })

  test('failsWith: an instrument that the lists name and that answers nothing', async () => {
    const simulator = await start()
    simulator.control.list({ category: 'SPOT', symbol: 'MUTEUSDT', launchTime: 0, failsWith: '40808' })
    for (const operation of ['fills', 'orderbook', 'tickers']) {
      expect(await ask(simulator, `${operation}?category=SPOT&symbol=MUTEUSDT`)).toMatchObject({ code: '40808' })
    }
    for (const list of ['instruments', 'tickers']) {
      const { rows } = await ask(simulator, `${list}?category=SPOT`)
      expect(rows.filter((row) => row['symbol'] === 'MUTEUSDT')).toHaveLength(1)
    }
  })

  test('tickers of MARGIN are the list of SPOT', async () => {
    const simulator = await start()
    const [margin, spot] = [
      await ask(simulator, 'tickers?category=MARGIN'),
      await ask(simulator, 'tickers?category=SPOT'),
    ]
    expect(margin.rows).toEqual(spot.rows)
    expect(margin.rows[0]).toMatchObject({ category: 'SPOT' })
  })

  test('an earlier version of the interface responds with 30032', async () => {
    const { url } = await start()
    for (const path of ['api/v2/spot/market/tickers', 'api/spot/v1/market/tickers', 'api/v1/market/tickers']) {
      const response = await fetch(`${url}/${path}?symbol=BTCUSDT`)
      expect(response.status).toBe(400)
      expect(await response.json()).toMatchObject({ code: '30032', data: null })
    }
  })
})
