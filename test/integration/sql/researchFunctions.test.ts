import { afterAll, beforeAll, expect, it } from 'vitest'
import { loadCookbookMarket } from '../../support/cookbookMarket.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { type Login, login } from '../../support/login.js'

let created: TestDatabase
let reader: Login
beforeAll(async () => {
  created = await createTestDatabase()
  reader = await login(created, 'market_reader')
  await loadCookbookMarket(created.database.db)
})
afterAll(async () => {
  await reader?.remove()
  await created?.drop()
})

/** Rows as text, so that a digit more or less is a difference. */
async function rows(query: string): Promise<string[]> {
  const result = await reader.database.pool.query<{ row: string }>(`select q::text as row from (${query}) q`)
  return result.rows.map(({ row }) => row)
}

async function expectSame(actual: string, reference: string, least = 5): Promise<void> {
  const found = await rows(actual)
  expect(found.length).toBeGreaterThanOrEqual(least)
  expect(found).toEqual(await rows(reference))
}

const eth = `'USDT-FUTURES', 'ETHUSDT'`
const isEth = `category = 'USDT-FUTURES' and symbol = 'ETHUSDT'`
const day = `'2026-03-02 00:00:00Z', '2026-03-03 00:00:00Z'`
const busy = `'2026-03-02 12:00:00Z', '2026-03-02 14:00:00Z'`
const isBusy = `ts >= '2026-03-02 12:00:00Z' and ts < '2026-03-02 14:00:00Z'`

it('a universe holds what was listed at its moment, and nothing listed later or gone before', async () => {
  await expectSame(
    `select symbol, status from market.universe_at('2026-03-02 12:00:00Z') order by category, symbol`,
    `select symbol, status from (
       select category, symbol, status, valid_from, coalesce(valid_to, 'infinity') as valid_to from market.instrument_history
     ) h where '2026-03-02 12:00:00Z' between valid_from and valid_to order by category, symbol`,
  )
  expect(await rows(`select symbol from market.universe_at('2026-03-03 12:00:00Z') where symbol = 'OLDUSDT'`)).toEqual(
    [],
  )
  expect(await rows(`select symbol from market.universe_at('2020-01-01 00:00:00Z')`)).toEqual([])
})

it('log returns are those of neighbouring candles, the first against the close before the range', async () => {
  await expectSame(
    `select open_time, close, round(log_return::numeric, 14)
     from market.log_returns(${eth}, '1 hour', '2026-03-02 02:00:00Z', '2026-03-02 12:00:00Z')`,
    `select open_time, close, round(r::numeric, 14) from (
       select open_time, close, ln(close::float8 / lag(close::float8) over (order by open_time)) as r
       from market.ohlcv_1h where ${isEth}
     ) h where open_time >= '2026-03-02 02:00:00Z' and open_time < '2026-03-02 12:00:00Z' order by open_time`,
  )
})

it('no return spans a gap, and the first candle of all has none', async () => {
  const missing = `'2026-03-02 12:01:00Z', '2026-03-02 12:08:00Z'`
  expect(
    await rows(
      `select to_char(open_time at time zone 'UTC', 'MI'), log_return is null from market.log_returns(${eth}, '1 minute', ${missing})`,
    ),
  ).toEqual(['(01,f)', '(06,t)', '(07,f)'])
  expect(await rows(`select log_return from market.log_returns(${eth}, '1 hour', ${day}) limit 1`)).toEqual(['()'])
})

it('an hour of which minutes are missing has no return, nor has the next where its beginning is unknown', async () => {
  const { database, drop } = await createTestDatabase()
  const minute = (from: string, to: string, close: number) => `
    insert into market.candles select 'SPOT', 'HALF', 'market', '1m', t, ${close}, ${close}, ${close}, ${close}, 1, 1, true
    from generate_series(timestamptz '${from}', timestamptz '${to}', '1 minute') as t`
  await database.pool.query(minute('2026-01-01 11:00:00Z', '2026-01-01 12:04:00Z', 100))
  await database.pool.query(minute('2026-01-01 13:56:00Z', '2026-01-01 15:59:00Z', 200))
  const { rows: found } = await database.pool.query<{ row: string }>(
    `select (to_char(open_time at time zone 'UTC', 'HH24'), minutes, is_complete, log_return)::text as row
     from market.ohlcv('SPOT', 'HALF', '1 hour', '2026-01-01 11:00Z', '2026-01-01 16:00Z')
     join market.log_returns('SPOT', 'HALF', '1 hour', '2026-01-01 11:00Z', '2026-01-01 16:00Z') using (open_time)`,
  )
  expect(found.map(({ row }) => row)).toEqual(['(11,60,t,)', '(12,5,f,)', '(13,4,f,)', '(14,60,t,0)', '(15,60,t,0)'])
  await drop()
})

it.each(['ohlcv', 'log_returns'])('%s has no candles of a month, whose length is not one', async (name) => {
  await expect(rows(`select * from market.${name}(${eth}, '1 month', ${day})`)).rejects.toThrow(/not in months/)
})

it('three fills of 100/3 coins are a bar of 100', async () => {
  const { database, drop } = await createTestDatabase()
  await database.pool.query(`
    insert into market.fills (category, symbol, ts, exec_id, price, size, side, source, received_at, extra)
    select 'COIN-FUTURES', 'X', timestamptz '2026-01-01Z' + i * interval '1 second', i::text, 3, 100, 'buy', 'live', now(), '{}'
    from generate_series(1, 12) as i`)
  const { rows: bars } = await database.pool.query<{ row: string }>(
    `select (fills, base_volume = 100)::text as row
     from market.volume_bars('COIN-FUTURES', 'X', '2026-01-01Z', '2026-01-02Z', 100)`,
  )
  expect(bars.map(({ row }) => row)).toEqual(Array.from({ length: 4 }, () => '(3,t)'))
  await drop()
})

it('realized volatility is the yearly root of the mean square of the returns', async () => {
  await expectSame(
    `select round(market.realized_volatility(${eth}, '15 minutes', ${day})::numeric, 12)`,
    // Minutes are missing from noon on.
    `select round(sqrt(sum(r * r) / count(r) * (365 * 24 * 4))::numeric, 12) from (
       select open_time, ln(close::float8 / lag(close::float8) over (order by open_time)) as r
       from market.ohlcv_15m where ${isEth} and open_time >= '2026-03-02 00:00:00Z' and open_time < '2026-03-03 00:00:00Z'
     ) h where open_time <> '2026-03-02 12:00:00Z'`,
    1,
  )
  expect(await rows(`select market.realized_volatility('SPOT', 'NOSUCH', '1 hour', ${day}) is null`)).toEqual(['(t)'])
})

it.each([
  ['the best level', '', 'l.level = 1'],
  ['2 basis points', ', 2', 'abs(l.price - m.mid) * 10000 <= m.mid * 2'],
  ['a distance that holds every level', ', 10000', 'true'],
])('imbalance and microprice weigh the levels of %s, exact to the last digit', async (_what, within, isCounted) => {
  const book = 'bid_prices, bid_sizes, ask_prices, ask_sizes'
  await expectSame(
    `select ts, market.book_imbalance(${book}${within}), market.microprice(${book}${within})
     from market.order_books where ${isEth} and ${isBusy} order by ts`,
    `select ts, (bids - asks) / (bids + asks), (ask * bids + bid * asks) / (bids + asks) from (
       select l.ts, m.best_bid as bid, m.best_ask as ask, sum(l.size) filter (where l.side = 'bid') as bids,
         sum(l.size) filter (where l.side = 'ask') as asks
       from market.order_book_levels l join market.order_books m using (category, symbol, ts)
       where ${isEth} and ${isBusy} and ${isCounted}
       group by 1, 2, 3
     ) s order by ts`,
  )
})

it('a book with an empty side has no imbalance and no microprice', async () => {
  for (const within of ['', ', 10']) {
    const book = `array[1.5], array[2], '{}'::numeric[], '{}'::numeric[]${within}`
    expect(await rows(`select market.book_imbalance(${book}), market.microprice(${book})`)).toEqual(['(,)'])
  }
})

interface TradedFill {
  readonly ts: string
  readonly price: string
  readonly side: string
  readonly base: string
  readonly quote: string
}

/** Decimals as whole numbers of 10^-24, so that sums are exact. */
const scale = 24
function units(text: string): bigint {
  const [whole = '', fraction = ''] = text.split('.')
  return BigInt(whole + fraction.padEnd(scale, '0').slice(0, scale))
}

it.each([
  ['volume_bars', 'USDT-FUTURES', 'ETHUSDT', 'base', '100'],
  ['dollar_bars', 'USDT-FUTURES', 'ETHUSDT', 'quote', '250000'],
  ['dollar_bars', 'COIN-FUTURES', 'BTCUSD_CM', 'quote', '300000'],
] as const)('%s of %s %s are those of a loop over the fills', async (name, category, symbol, measure, size) => {
  const { rows: fills } = await reader.database.pool.query<TradedFill>(
    `select ts::text, price::text, side::text, market.fill_base_size(category, price, size)::text as base,
       market.fill_quote_value(category, price, size)::text as quote
     from market.fills where category = $1 and symbol = $2 and ${isBusy} order by ts, exec_id`,
    [category, symbol],
  )
  const expected: {
    open: string
    close: string
    fills: number
    base: bigint
    buys: bigint
    from: string
    to: string
  }[] = []
  let [before, place] = [0n, -1n]
  for (const { ts, price, side, base, quote } of fills) {
    const at = before / units(size)
    if (at !== place) expected.push({ open: price, close: price, fills: 0, base: 0n, buys: 0n, from: ts, to: ts })
    place = at
    before += units(measure === 'base' ? base : quote)
    const bar = expected.at(-1)
    if (bar === undefined) throw new Error('a bar was begun')
    bar.close = price
    bar.to = ts
    bar.fills += 1
    bar.base += units(base)
    if (side === 'buy') bar.buys += units(base)
  }
  const { rows: bars } = await reader.database.pool.query<Record<string, string>>(
    `select bar::text, open_time::text, close_time::text, open::text, close::text, base_volume::text, buy_volume::text, fills::text
     from market.${name}('${category}', '${symbol}', ${busy}, ${size})`,
  )
  expect(bars.length).toBeGreaterThan(10)
  expect(
    bars.map((bar) => [
      bar['bar'],
      bar['open_time'],
      bar['close_time'],
      bar['open'],
      bar['close'],
      Number(bar['fills']),
    ]),
  ).toEqual(expected.map((bar, i) => [String(i + 1), bar.from, bar.to, bar.open, bar.close, bar.fills]))
  expect(bars.map((bar) => [units(bar['base_volume'] ?? ''), units(bar['buy_volume'] ?? '')])).toEqual(
    expected.map(({ base, buys }) => [base, buys]),
  )
})

it('every fill gets the newest quote of its moment, of a book or a ticker', async () => {
  await created.database.pool.query(
    // A ticker of the very moment of a fill, and one a microsecond after another.
    `insert into market.tickers (category, symbol, ts, bid1_price, ask1_price, received_at)
     select category, symbol, ts + late * interval '1 microsecond', price - 0.01, price + 0.02, received_at
     from (select *, row_number() over (order by ts, exec_id) as place from market.fills where ${isEth} and ${isBusy}) f
     cross join generate_series(0, 1) as late where place % 7 = late * 3 on conflict do nothing`,
  )
  const quote = (age: string) => `
    select f.ts, f.exec_id, q.ts as quote_ts, q.bid, q.ask, (q.bid + q.ask) * 0.5 as mid,
      case f.side when 'buy' then 20000 else -20000 end * (f.price - (q.bid + q.ask) * 0.5) / ((q.bid + q.ask) * 0.5) as spread
    from market.fills f
    left join lateral (
      select * from (
        (select ts, bid1_price as bid, ask1_price as ask, 1 as place from market.tickers t
         where t.category = f.category and t.symbol = f.symbol and t.ts <= f.ts order by t.ts desc limit 1)
        union all
        (select ts, best_bid, best_ask, 2 from market.order_books b
         where b.category = f.category and b.symbol = f.symbol and b.ts <= f.ts order by b.ts desc limit 1)
      ) either where ts >= f.ts - interval '${age}' order by ts desc, place desc limit 1
    ) q on true
    where ${isEth} and ${isBusy.replaceAll('ts ', 'f.ts ')} order by f.ts, f.exec_id`
  for (const age of ['1 minute', '10 minutes']) {
    await expectSame(
      `select ts, exec_id, quote_ts, bid_price, ask_price, mid, effective_spread_bps
       from market.fills_with_quotes(${eth}, ${busy}, max_age => '${age}')`,
      quote(age),
      400,
    )
  }
  const [without] = await rows(
    `select count(*) filter (where quote_ts is null) > 0 from market.fills_with_quotes(${eth}, ${busy}, '1 second')`,
  )
  expect(without).toBe('(t)')
})

it('anything is put on a grid: the newest value at each step, none before the first or beyond its age', async () => {
  const source = `(select array_agg(ts order by ts) as times, array_agg(t order by ts) as "values" from market.tickers t
    where ${isEth} and ts >= '2026-03-02 11:59:00Z' and ts < '2026-03-02 13:00:00Z')`
  const grid = `generate_series(timestamptz '2026-03-02 11:50:00Z', '2026-03-02 12:59:59Z', interval '90 seconds')`
  for (const [age, since] of [
    ['', `'-infinity'`],
    [`, max_age => '2 minutes'`, `g - interval '2 minutes'`],
  ] as const) {
    await expectSame(
      `select g.moment, g.ts, (g.value).last_price from ${source} s
       cross join lateral market.on_grid(s.times, s.values, '2026-03-02 11:50:00Z', '2026-03-02 13:00:00Z', '90 seconds'${age}) g`,
      `select g, t.ts, t.last_price from ${grid} as g left join lateral (
         select ts, last_price from market.tickers
         where ${isEth} and ts >= '2026-03-02 11:59:00Z' and ts <= g and ts >= ${since} order by ts desc limit 1
       ) t on true order by g`,
      40,
    )
  }
})

it('steps of average prices open at multiples of the step, wherever the range begins', async () => {
  const opens = (call: string) => rows(`select to_char(open_time at time zone 'UTC', 'HH24:MI:SS') from ${call}`)
  const range = `'2026-03-02 12:07:13Z', '2026-03-02 12:21:00Z', '5 minutes'`
  expect(await opens(`market.vwap_series(${eth}, ${range})`)).toEqual([
    '(12:05:00)',
    '(12:10:00)',
    '(12:15:00)',
    '(12:20:00)',
  ])
  expect((await opens(`market.vwap_series(${eth}, ${range}, origin => '2026-03-02 12:07:13Z')`))[0]).toBe('(12:07:13)')
})
