import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { timeTables } from '../../../src/market/stream.js'
import { dayMs } from '../../../src/market/values.js'
import { refreshRollups } from '../../../src/server/timescale/rollups.js'
import { detectServer } from '../../../src/server/timescale/server.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { type Login, login } from '../../support/login.js'

/** The newest days of two instruments. Only one of them has a past of a year. A third has no rows. */
const end = Date.UTC(2026, 5, 1)
const short = 4
const long = 365

let created: TestDatabase
let reader: Login
beforeAll(async () => {
  created = await createTestDatabase()
  reader = await login(created, 'market_reader')
  // The planner has no statistics of a table on its first day.
  for (const { name } of timeTables)
    await created.database.pool.query(`alter table market.${name} set (autovacuum_enabled = false)`)
  await fill('SHORT', short)
  await fill('LONG', long)
  await list('NONE')
  await refreshRollups(created.database.db, [{ from: end - long * dayMs, to: end }])
})
afterAll(async () => {
  await reader?.remove()
  await created?.drop()
})

async function list(symbol: string): Promise<void> {
  await created.database.pool.query(
    `with listed as (
       insert into market.instruments (category, symbol, kind, first_seen_at, updated_at)
       values ('SPOT', $1, 'crypto', '2024-01-01Z', now()) returning category, symbol, kind, first_seen_at
     )
     insert into market.instrument_history (category, symbol, kind, valid_from) select * from listed`,
    [symbol],
  )
}

async function fill(symbol: string, days: number): Promise<void> {
  const { pool } = created.database
  const times = (step: string) =>
    `generate_series(timestamptz '${new Date(end - days * dayMs).toISOString()}', '${new Date(end - 1).toISOString()}', '${step}') as t`
  const prices = (sign: string) => `array[100 ${sign} 1, 100 ${sign} 2, 100 ${sign} 3]`
  const book = (sizes: string) => `'SPOT', '${symbol}', t, ${prices('-')}, ${sizes}, ${prices('+')}, ${sizes}, t`
  const books = (name: string, sizes: string, more: string) => `
    insert into market.${name} (category, symbol, ts, bid_prices, bid_sizes, ${more} ask_prices, ask_sizes, ${more.replace('bid', 'ask')} received_at)
    select ${sizes} from ${times('30 minutes')}`
  const statements = [
    `insert into market.candles select 'SPOT', '${symbol}', 'market', '1m', t, 1, 2, 1, 2, 5, 5, true from ${times('1 minute')}`,
    `insert into market.fills (category, symbol, ts, exec_id, side, price, size, received_at)
     select 'SPOT', '${symbol}', t, t::text, 'buy', 100, 1, t from ${times('10 minutes')}`,
    `insert into market.tickers (category, symbol, ts, last_price, bid1_price, ask1_price, funding_rate, received_at)
     select 'SPOT', '${symbol}', t, 100, 99, 101, 0.1, t from ${times('10 minutes')}`,
    books('order_books', book('array[1, 1, 1]'), ''),
    books('rpi_order_books', book('array[1, 1, 1], array[1, 1, 1]'), 'bid_rpi_sizes,'),
  ]
  await list(symbol)
  for (const statement of statements) await pool.query(statement)
  await pool.query(
    `insert into recorder.ledger (stream, category, symbol, type, interval, verdict, ranges)
     values ('candles', 'SPOT', $1, 'market', '1m', 'recorded', tstzmultirange(tstzrange($2, $3)))`,
    [symbol, new Date(end - days * dayMs), new Date(end)],
  )
}

const at = (daysBefore: number) => `timestamptz '${new Date(end - daysBefore * dayMs).toISOString()}'`
const day = `${at(2)}, ${at(1)}`

const calls = [
  `market.ohlcv($of, '1 hour', ${day})`,
  `market.ohlcv($of, '7 minutes', ${day})`,
  `market.ohlcv($of, '24 hours', ${day}, origin => '1970-01-01 16:00Z')`,
  `market.log_returns($of, '1 hour', ${day})`,
  `market.realized_volatility($of, '15 minutes', ${day})`,
  `market.candle_before($of, '1m', ${at(2)})`,
  `market.candles_without_gaps($of, '1m', ${day})`,
  `market.vwap($of, ${day})`,
  `market.vwap_series($of, ${day}, '1 hour')`,
  `market.volume_profile($of, ${day}, 5)`,
  `market.volume_bars($of, ${day}, 10)`,
  `market.dollar_bars($of, ${day}, 1000)`,
  `market.fills_with_quotes($of, ${day})`,
  `market.fills_with_quotes($of, ${day}, max_age => null)`,
  `market.book_depth($of, ${day}, 100)`,
  `market.rpi_improvement($of, ${day})`,
  `market.funding_history($of, ${day})`,
  `market.ticker_at($of, ${at(2)})`,
  `market.order_book_at($of, ${at(2)})`,
  `market.rpi_order_book_at($of, ${at(2)})`,
]

interface Root {
  readonly 'Shared Hit Blocks': number
  readonly 'Shared Read Blocks': number
  readonly 'Actual Rows': number
}

async function pagesOf(call: string): Promise<{ pages: number; rows: number }> {
  const text = `explain (analyze, buffers, timing off, format json) select * from ${call}`
  // The first call of a session also reads the catalog, as does each call after a vacuum of the server's own.
  const client = await reader.database.pool.connect()
  try {
    const calls: { pages: number; rows: number }[] = []
    while (calls.length < 4) {
      const { rows } = await client.query<{ 'QUERY PLAN': [{ Plan: Root }] }>(text)
      const root = rows[0]?.['QUERY PLAN'][0].Plan
      const pages = (root?.['Shared Hit Blocks'] ?? 0) + (root?.['Shared Read Blocks'] ?? 0)
      calls.push({ pages, rows: root?.['Actual Rows'] ?? 0 })
    }
    const [fewest] = calls.sort((one, other) => one.pages - other.pages)
    if (fewest === undefined) throw new Error('no call was made')
    return fewest
  } finally {
    client.release()
  }
}

async function expectBounded(call: string): Promise<void> {
  const few = await pagesOf(call.replace('$of', `'SPOT', 'SHORT'`))
  const many = await pagesOf(call.replace('$of', `'SPOT', 'LONG'`))
  expect(few.rows).toBeGreaterThan(0)
  expect(many.rows).toBe(few.rows)
  // An index of many rows is a page or two deeper for each look-up.
  expect(many.pages).toBeLessThanOrEqual(few.pages * 1.1 + 20)
  // A year of candles has more.
  expect(many.pages).toBeLessThan(4_000)
}

/** Where nothing is found, nothing ends the search but its bounds. */
async function expectQuickWithoutRows(call: string): Promise<void> {
  const { pages } = await pagesOf(call.replace('$of', `'SPOT', 'NONE'`))
  expect(pages).toBeLessThan(4_000)
}

it.each(calls)('without statistics, reads of a year as many pages as of four days: %s', expectBounded)
it.each(calls)('without statistics, reads little of an instrument without rows: %s', expectQuickWithoutRows)

describe('with statistics', () => {
  beforeAll(async () => {
    await created.database.pool.query('vacuum analyze')
  })
  it.each(calls)('reads of a year as many pages as of four days: %s', expectBounded)
  it.each(calls)('reads little of an instrument without rows: %s', expectQuickWithoutRows)
})

const endless = [
  ...calls,
  ...['1 day', '7 days'].map((width) => `market.realized_volatility($of, '${width}', ${day})`),
  `market.on_grid(array[${at(2)}], array[1], ${day}, '1 hour')`,
].flatMap((call) =>
  call.includes(day)
    ? [call.replace(day, `'-infinity', ${at(1)}`), call.replace(day, `${at(2)}, 'infinity'`)]
    : ['-infinity', 'infinity'].map((bound) => call.replace(at(2), `'${bound}'`)),
)

it.each(endless)('ends, or says that a bound must be finite: %s', async (call) => {
  const client = await reader.database.pool.connect()
  try {
    await client.query(`set statement_timeout = '300s'`)
    const error = await client
      .query(`select count(*) from ${call.replace('$of', `'SPOT', 'SHORT'`)}`)
      .then(() => null, String)
    if (error !== null) expect(error).toMatch(/finite times/)
  } finally {
    client.release(true)
  }
})

it.each(calls)('gives nothing for a bound that is NULL: %s', async (call) => {
  const bounds = call.includes(day) ? [`null, ${at(1)}`, `${at(2)}, null`] : ['null']
  for (const bound of bounds) {
    const of = call.replace('$of', `'SPOT', 'LONG'`).replace(call.includes(day) ? day : at(2), bound)
    const { rows } = await reader.database.pool.query<{ row: string }>(`select t::text as row from ${of} t`)
    expect(rows.filter(({ row }) => row !== null && row !== '()')).toEqual([])
  }
})

it('no function of a range or a moment is left out', async () => {
  const { rows } = await created.database.pool.query<{ name: string }>(
    `select proname as name from pg_proc where pronamespace = 'market'::regnamespace
       and proargnames && array['from_time', 'moment', 'before'] and proargtypes::oid[] @> array['timestamptz'::regtype::oid]`,
  )
  expect(rows.length).toBeGreaterThan(15)
  // These read what changes a few times a year.
  const slow = ['instrument_at', 'universe_at']
  const called = (name: string) =>
    [...endless, ...slow].some((call) => call.startsWith(`market.${name}(`) || call === name)
  expect(rows.map(({ name }) => name).filter((name) => !called(name))).toEqual([])
})

it('it would find a view that groups all of the past', async () => {
  if ((await detectServer(created.database.db)).kind === 'timescale-community') return
  const view = await pagesOf(`market.ohlcv_1h where symbol = 'LONG' and open_time = ${at(1)}`)
  const range = await pagesOf(`market.ohlcv('SPOT', 'LONG', '1 hour', ${day})`)
  expect(view.pages).toBeGreaterThan(range.pages * 10)
})

it('a view that cannot pass a bound on says so, and names the function that reads the range alone', async () => {
  const { rows } = await created.database.pool.query<{ name: string; comment: string }>(
    `select relname as name, obj_description(oid, 'pg_class') as comment from pg_class
     where relnamespace = 'market'::regnamespace and relname like 'ohlcv%'`,
  )
  expect(rows).toHaveLength(5)
  for (const { name, comment } of rows) expect(comment, name).toMatch(/For a range, use market\.ohlcv\(/)
})
