import { afterAll, beforeAll, expect, it } from 'vitest'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'

let created: TestDatabase
beforeAll(async () => {
  created = await createTestDatabase()
})
afterAll(() => created?.drop())

async function rows(query: string): Promise<string[]> {
  const result = await created.database.pool.query<{ row: string }>(`select q::text as row from (${query}) q`)
  return result.rows.map(({ row }) => row)
}

const noon = `timestamptz '2026-01-01 12:00Z'`
const hour = `${noon}, ${noon} + interval '1 hour'`

async function insertFills(symbol: string, fills: readonly (readonly [id: string, price: number])[]): Promise<void> {
  for (const [id, price] of fills) {
    await created.database.pool.query(
      `insert into market.fills (category, symbol, ts, exec_id, side, price, size, received_at)
       values ('SPOT', $1, ${noon}, $2, 'buy', $3, 1, ${noon})`,
      [symbol, id, price],
    )
  }
}

async function insertTicker(symbol: string, ts: string): Promise<void> {
  await created.database.pool.query(
    `insert into market.tickers (category, symbol, ts, bid1_price, ask1_price, funding_rate, received_at)
     values ('SPOT', $1, ${ts}, 1, 3, 0.1, ${ts})`,
    [symbol],
  )
}

/** Lists an instrument, which has the last of the intervals now. */
async function list(symbol: string, hours: number, from: string, to: string): Promise<void> {
  await created.database.pool.query(
    `insert into market.instruments (category, symbol, kind, fund_interval, first_seen_at, updated_at)
     values ('SPOT', '${symbol}', 'crypto', ${hours}, ${from}, ${from})
     on conflict (category, symbol) do update set fund_interval = excluded.fund_interval`,
  )
  await created.database.pool.query(
    `insert into market.instrument_history (category, symbol, kind, fund_interval, valid_from, valid_to)
     values ('SPOT', '${symbol}', 'crypto', ${hours}, ${from}, ${to})`,
  )
}

const twoTimes = `array[${noon}, ${noon} + interval '1 minute']`

it('a grid refuses arrays as values, which would come back as one of their elements', async () => {
  const call = `market.on_grid(${twoTimes}, array[array[99, 98], array[199, 198]], ${hour}, '1 minute')`
  await expect(rows(`select * from ${call}`)).rejects.toThrow(/takes no arrays as values: give whole rows/)
  const whole = `select g.value::text from (
      select array_agg(r) as "values" from (values ('{99,98}'::numeric[]), ('{199,198}')) as r
    ) s cross join lateral market.on_grid(${twoTimes}, s."values", ${noon}, ${noon} + interval '2 minutes', '1 minute') g`
  await expect(rows(whole)).resolves.toEqual([expect.stringContaining('99,98'), expect.stringContaining('199,198')])
})

it('a grid refuses a number of values that is not that of the times', async () => {
  const call = `market.on_grid(${twoTimes}, array[1, 2, 3], ${hour}, '1 minute')`
  await expect(rows(`select * from ${call}`)).rejects.toThrow(/a value for each time, not 3 for 2/)
})

it.each(['-infinity', 'infinity'])('a grid refuses %s as a bound', async (bound) => {
  for (const range of [`'${bound}', ${noon}`, `${noon}, '${bound}'`]) {
    const call = `market.on_grid(${twoTimes}, array[1, 2], ${range}, '1 minute')`
    await expect(rows(`select * from ${call} limit 1`)).rejects.toThrow(/begins and ends at finite times/)
  }
})

it('nothing is paid for a quantity that is not above 0', async () => {
  const price = (quantity: number) =>
    rows(`select market.execution_price(array[100, 101], array[1, 2], ${quantity}) * 1.0`)
  await expect(price(-5)).resolves.toEqual(['()'])
  await expect(price(0)).resolves.toEqual(['()'])
  expect(Number((await price(2))[0]?.slice(1, -1))).toBe(100.5)
})

it('a price below 0 belongs to the step below it', async () => {
  await insertFills('BELOW', [
    ['1', -0.5],
    ['2', -1],
    ['3', 0.5],
  ])
  await expect(
    rows(`select price_from::int, price_to::int, fills from market.volume_profile('SPOT', 'BELOW', ${hour}, 1)`),
  ).resolves.toEqual(['(-1,0,2)', '(0,1,1)'])
})

it.each(['volume_bars', 'dollar_bars'])(
  '%s take fills of one millisecond in the order of their numbers',
  async (name) => {
    const symbol = `ORDER-${name}`
    await insertFills(symbol, [
      ['1000', 20],
      ['999', 10],
    ])
    await expect(
      rows(`select open::int, close::int from market.${name}('SPOT', '${symbol}', ${hour}, 1000)`),
    ).resolves.toEqual(['(10,20)'])
    await expect(rows(`select exec_id from market.fills_with_quotes('SPOT', '${symbol}', ${hour})`)).resolves.toEqual([
      '(999)',
      '(1000)',
    ])
  },
)

it.each(['volume_bars($of, null)', 'volume_bars($of, -1)', 'dollar_bars($of, 0)', 'vwap_series($of, null)'])(
  'gives no rows for a width that is none: %s',
  async (call) => {
    await insertFills(call, [['1', 2]])
    await expect(rows(`select * from market.${call.replace('$of', `'SPOT', '${call}', ${hour}`)}`)).resolves.toEqual([])
  },
)

it('a quote of any age is taken where max_age is NULL', async () => {
  await insertFills('AGE', [['1', 2]])
  await insertTicker('AGE', `${noon} - interval '400 days'`)
  const mid = (age: string) => rows(`select mid::int from market.fills_with_quotes('SPOT', 'AGE', ${hour}${age})`)
  await expect(mid('')).resolves.toEqual(['()'])
  await expect(mid(`, max_age => '400 days'`)).resolves.toEqual(['(2)'])
  await expect(mid(`, max_age => interval '400 days' - interval '1 second'`)).resolves.toEqual(['()'])
  await expect(mid(', max_age => null')).resolves.toEqual(['(2)'])
})

it.each([1, 20, 90, 4_000])('a ticker of %i days before is the newest as far as its age is allowed', async (days) => {
  const symbol = `TICKER-${days}`
  await insertTicker(symbol, `${noon} - ${days} * interval '24 hours'`)
  const found = async (age: string) =>
    (await rows(`select ts from market.ticker_at('SPOT', '${symbol}', ${noon}${age})`)).length
  await expect(found('')).resolves.toBe(days <= 7 ? 1 : 0)
  await expect(found(`, ${days} * interval '24 hours'`)).resolves.toBe(1)
  await expect(found(`, ${days} * interval '24 hours' - interval '1 second'`)).resolves.toBe(0)
  await expect(found(', null')).resolves.toBe(1)
})

it('funding of a range without an end is that of all settlements there were', async () => {
  const settled = `date_bin('1 hour', now(), 'epoch') - interval '20 hours'`
  await insertTicker('OPEN', `${settled} - interval '1 minute'`)
  await list('OPEN', 1, `${settled} - interval '1 hour'`, 'null')
  await expect(
    rows(`select settled_at = ${settled} from market.funding_history('SPOT', 'OPEN', '0001-01-01Z', 'infinity')`),
  ).resolves.toEqual(['(t)'])
  await expect(rows(`select from market.funding_history('SPOT', 'OPEN', null, null)`)).resolves.toEqual([])
})

it('an instrument has funding only where it was listed, by the interval of that time', async () => {
  const time = (clock: string) => `timestamptz '2026-01-01 ${clock}Z'`
  for (const clock of ['07:59', '09:59', '15:59']) await insertTicker('GONE', time(clock))
  await list('GONE', 8, time('00:00'), time('08:30'))
  await list('GONE', 1, time('15:30'), 'null')
  const sql = `select extract(hour from settled_at at time zone 'UTC')::int, fund_interval
    from market.funding_history('SPOT', 'GONE', ${time('00:00')}, ${time('23:00')})`
  await expect(rows(sql)).resolves.toEqual(['(8,8)', '(16,1)'])
})

it('a side of 0 is no quote', async () => {
  await insertFills('ZERO', [['1', 2]])
  await insertTicker('ZERO', `${noon} - interval '10 seconds'`)
  await created.database.pool.query(
    `insert into market.tickers (category, symbol, ts, bid1_price, ask1_price, received_at)
     values ('SPOT', 'ZERO', ${noon}, 0, 101, ${noon})`,
  )
  for (const ts of [noon, `${noon} - interval '1 second'`])
    await created.database.pool.query(
      `insert into market.order_books (category, symbol, ts, bid_prices, bid_sizes, ask_prices, ask_sizes, received_at)
       values ('SPOT', 'ZERO', ${ts}, '{0}', '{1}', '{101}', '{1}', ${ts})`,
    )
  await expect(rows(`select mid::int from market.fills_with_quotes('SPOT', 'ZERO', ${hour})`)).resolves.toEqual(['(2)'])
  await expect(rows('select market.spread_bps(0, 101), market.spread_bps(1, 3)::int')).resolves.toEqual(['(,10000)'])
})

it('a price of 0 leaves the average of COIN-FUTURES unknown', async () => {
  await created.database.pool.query(
    `insert into market.fills (category, symbol, ts, exec_id, side, price, size, received_at)
     select 'COIN-FUTURES', 'ZERO', ${noon}, price::text, 'buy', price, 100, ${noon} from unnest(array[0, 100]) as price`,
  )
  await expect(rows(`select market.vwap('COIN-FUTURES', 'ZERO', ${hour}) is null`)).resolves.toEqual(['(t)'])
})

it('of a crossed book only the levels within the distance count, on either side', async () => {
  const book = 'array[101, 100.52], array[5, 1], array[100, 100.48], array[9, 3], 5'
  await expect(
    rows(`select round(market.book_imbalance(${book}), 3), round(market.microprice(${book}), 3)`),
  ).resolves.toEqual(['(-0.500,100.750)'])
  const wide = book.replace(/ 5$/, ' 60')
  await expect(rows(`select round(market.book_imbalance(${wide}), 3)`)).resolves.toEqual(['(-0.333)'])
})

it.each(['ohlcv', 'log_returns'])('%s refuses a width below a minute', async (name) => {
  for (const width of ['10 seconds', '30 seconds'])
    await expect(rows(`select * from market.${name}('SPOT', 'X', '${width}', ${hour})`)).rejects.toThrow(
      /a minute at least/,
    )
})
