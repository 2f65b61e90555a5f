import { spawn, spawnSync } from 'node:child_process'
import { text as readAll } from 'node:stream/consumers'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { dayMs } from '../../../src/market/values.js'
import { packageFile } from '../../../src/runtime/process.js'
import { refreshRollups } from '../../../src/server/timescale/rollups.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { type Login, login } from '../../support/login.js'
import {
  busyFrom,
  busyTo,
  type Dice,
  diceOf,
  loadReferenceMarket,
  referenceFrom,
  referenceInstruments,
  referenceTo,
} from '../../support/referenceMarket.js'

/** Ranges for each function, the same each time. More take longer: REFERENCE_RANGES=200. */
const ranges = Number(process.env['REFERENCE_RANGES'] ?? 10)
const program = packageFile('test/support/analystsReference.py')
const hasPython = spawnSync('python3', ['-c', 'import sys; assert sys.version_info >= (3, 11)']).status === 0
const skipped = hasPython ? '' : ' (SKIPPED: no Python 3.11 here)'
if (!hasPython) process.stderr.write(`the reference of the functions is${skipped}\n`)

let created: TestDatabase
let reader: Login
beforeAll(async () => {
  created = await createTestDatabase()
  reader = await login(created, 'market_reader')
  await loadReferenceMarket(created.database)
  // Half of it is left to be computed when it is asked for.
  await refreshRollups(created.database.db, [{ from: referenceFrom, to: referenceFrom + 2 * dayMs }])
})
afterAll(async () => {
  await reader?.remove()
  await created?.drop()
})

interface Call {
  readonly call: string
  /** Arguments of the reference; times and lengths in microseconds. */
  readonly args: Readonly<Record<string, string | number | null>>
  readonly sql: string
}

const minute = 60_000
const at = (ms: number) => `timestamptz '${new Date(ms).toISOString()}'`
const lengthOf = (ms: number) => `interval '${ms} milliseconds'`

/** A range of random length, whole minutes or not. */
function rangeIn(roll: Dice, from: number, to: number): [number, number] {
  const unit = roll(3) === 0 ? 1 : minute
  const random = () => from - 30 * minute + roll(Math.floor((to - from + 60 * minute) / unit)) * unit
  const [a, b] = [random(), random()].toSorted((x, y) => x - y) as [number, number]
  return [a, roll(10) === 0 ? a : b]
}

type Makes = (roll: Dice, of: { category: string; symbol: string; sql: string }) => Omit<Call, 'call'>

const days = (roll: Dice) => rangeIn(roll, referenceFrom, referenceTo)
const hours = (roll: Dice) => rangeIn(roll, busyFrom, busyTo)
const one = <Value>(roll: Dice, values: readonly Value[]): Value => values[roll(values.length)] as Value

/** Makes a call whose further arguments are numbers, or times in the range. */
function ranged(
  range: (roll: Dice) => [number, number],
  further: Readonly<Record<string, readonly (number | null)[]>>,
  sql: (args: { readonly of: string; readonly range: string } & Readonly<Record<string, string>>) => string,
): Makes {
  return (roll, { category, symbol, sql: of }) => {
    const [from, to] = range(roll)
    const chosen = Object.entries(further).map(([name, values]) => [name, one(roll, values)] as const)
    const isLength = (name: string) => ['width', 'step', 'max_age'].includes(name)
    const asText = chosen.map(([name, value]) => {
      if (value === null) return [name, 'null'] as const
      if (name === 'origin') return [name, at(value)] as const
      return [name, isLength(name) ? lengthOf(value) : String(value)] as const
    })
    const inUs = chosen.map(([name, value]) => {
      return [name, value !== null && (isLength(name) || name === 'origin') ? value * 1000 : value] as const
    })
    return {
      args: { category, symbol, from_time: from * 1000, to_time: to * 1000, ...Object.fromEntries(inUs) },
      sql: sql({ of, range: `${at(from)}, ${at(to)}`, ...Object.fromEntries(asText) }),
    }
  }
}

function moments(range: (roll: Dice) => [number, number], name: string, further: string[], sql: string): Makes {
  return (roll, { category, symbol, sql: of }) => {
    const moment = range(roll)[0]
    const values = { category, symbol, ...(further.length > 0 && { candle_interval: one(roll, further) }) }
    const text = sql.replace('$of', of).replace('$at', at(moment))
    return {
      args: { ...values, [name]: moment * 1000 },
      sql: text.replace('$interval', `'${values.candle_interval ?? ''}'`),
    }
  }
}

const hour = 60 * minute
const widths = [minute, 5 * minute, 7 * minute, 15 * minute, hour, 4 * hour, 24 * hour]
const origins = [0, 0, 16 * hour, 3 * minute]
const books = (roll: Dice) => rangeIn(roll, busyFrom - hour, busyTo)

/** Of a range the beginning is asked about. */
function newestAt(name: string): Makes {
  return ranged(
    hours,
    { max_age: [5 * minute, hour, 24 * hour, null] },
    (a) => `select * from market.${name}(${a.of}, (array[${a.range}])[1], ${a['max_age']})`,
  )
}

const makers: Readonly<Record<string, Makes>> = {
  ohlcv: ranged(
    days,
    { width: widths, origin: origins },
    (a) => `select * from market.ohlcv(${a.of}, ${a['width']}, ${a.range}, ${a['origin']})`,
  ),
  log_returns: ranged(
    days,
    { width: widths },
    (a) => `select * from market.log_returns(${a.of}, ${a['width']}, ${a.range})`,
  ),
  realized_volatility: ranged(
    days,
    { width: widths },
    (a) => `select market.realized_volatility(${a.of}, ${a['width']}, ${a.range}) as value`,
  ),
  candle_before: moments(days, 'before', ['1m', '1D'], 'select * from market.candle_before($of, $interval, $at)'),
  candles_without_gaps: (roll, { category, symbol, sql: of }) => {
    const interval = one(roll, ['1m', '1D'])
    const [from, to] = interval === '1m' ? days(roll) : rangeIn(roll, Date.UTC(2026, 2, 8), Date.UTC(2026, 3, 8))
    return {
      args: { category, symbol, candle_interval: interval, from_time: from * 1000, to_time: to * 1000 },
      sql: `select * from market.candles_without_gaps(${of}, '${interval}', ${at(from)}, ${at(to)})`,
    }
  },
  vwap: ranged(hours, {}, (a) => `select market.vwap(${a.of}, ${a.range}) as value`),
  vwap_series: ranged(
    hours,
    { step: widths, origin: origins },
    (a) => `select * from market.vwap_series(${a.of}, ${a.range}, ${a['step']}, ${a['origin']})`,
  ),
  volume_profile: ranged(
    hours,
    { price_step: [1, 5, 0.5] },
    (a) => `select * from market.volume_profile(${a.of}, ${a.range}, ${a['price_step']})`,
  ),
  fill_sizes: ranged(
    hours,
    {},
    (a) => `
    select ts, exec_id, market.fill_base_size(category, price, size) as base, market.fill_quote_value(category, price, size) as quote
    from market.fills where (category, symbol) = (${a.of}) and ts >= (array[${a.range}])[1] and ts < (array[${a.range}])[2] order by ts, length(exec_id), exec_id`,
  ),
  volume_bars: ranged(
    hours,
    { bar_size: [100, 50, 25, 7.5] },
    (a) => `select * from market.volume_bars(${a.of}, ${a.range}, ${a['bar_size']})`,
  ),
  dollar_bars: ranged(
    hours,
    { bar_size: [100, 1000, 2500] },
    (a) => `select * from market.dollar_bars(${a.of}, ${a.range}, ${a['bar_size']})`,
  ),
  depth_of_books: ranged(
    books,
    { within_bps: [1, 5, 20, 1000] },
    (a) => `
    select ts, d.* from market.order_books cross join lateral market.depth_within(bid_prices, bid_sizes, mid, ${a['within_bps']}) d
    where (category, symbol) = (${a.of}) and ts >= (array[${a.range}])[1] and ts < (array[${a.range}])[2] and mid is not null order by ts`,
  ),
  book_depth: ranged(
    books,
    { within_bps: [1, 5, 20, 1000] },
    (a) => `select * from market.book_depth(${a.of}, ${a.range}, ${a['within_bps']})`,
  ),
  execution_price: ranged(
    books,
    { quantity: [1, 10, 30] },
    (a) => `
    select ts, market.execution_price(ask_prices, ask_sizes, ${a['quantity']}) as price
    from market.order_books where (category, symbol) = (${a.of}) and ts >= (array[${a.range}])[1] and ts < (array[${a.range}])[2] order by ts`,
  ),
  book_figures: ranged(
    books,
    { within_bps: [null, 5, 20] },
    (a) => `
    select ts, market.book_imbalance(bid_prices, bid_sizes, ask_prices, ask_sizes, ${a['within_bps']}) as imbalance,
      market.microprice(bid_prices, bid_sizes, ask_prices, ask_sizes, ${a['within_bps']}) as microprice
    from market.order_books where (category, symbol) = (${a.of}) and ts >= (array[${a.range}])[1] and ts < (array[${a.range}])[2] order by ts`,
  ),
  rpi_improvement: ranged(books, {}, (a) => `select * from market.rpi_improvement(${a.of}, ${a.range})`),
  fills_with_quotes: ranged(
    hours,
    { max_age: [5_000, minute, 24 * hour, null] },
    (a) => `select * from market.fills_with_quotes(${a.of}, ${a.range}, ${a['max_age']})`,
  ),
  ticker_at: newestAt('ticker_at'),
  order_book_at: newestAt('order_book_at'),
  rpi_order_book_at: newestAt('rpi_order_book_at'),
  instrument_at: moments(days, 'moment', [], 'select * from market.instrument_at($of, $at)'),
  universe_at: (roll) => {
    const moment = days(roll)[0]
    return {
      args: { moment: moment * 1000 },
      sql: `select * from market.universe_at(${at(moment)}) order by category::text, symbol`,
    }
  },
  funding_history: ranged(days, {}, (a) => `select * from market.funding_history(${a.of}, ${a.range})`),
  on_grid: ranged(
    hours,
    { step: [90_000, hour, 24 * hour], max_age: [null, minute, 24 * hour] },
    (a) => `
    select g.moment, g.ts, g.value as last_price
    from (select array_agg(ts order by ts) as times, array_agg(last_price order by ts) as prices from market.tickers where (category, symbol) = (${a.of})) s
    cross join lateral market.on_grid(s.times, s.prices, ${a.range}, ${a['step']}, ${a['max_age']}) g`,
  ),
}

/** Used by those above, or answered by a constant. */
const covered = [
  'interval_length',
  'fill_base_size',
  'fill_quote_value',
  'spread_bps',
  'depth_within',
  'book_imbalance',
  'microprice',
]

const views = { ohlcv_5m: 5 * minute, ohlcv_15m: 15 * minute, ohlcv_1h: hour, ohlcv_4h: 4 * hour, ohlcv_1d: 24 * hour }

function callsOf(roll: Dice): Call[] {
  const instruments = referenceInstruments.map((of) => ({ ...of, sql: `'${of.category}', '${of.symbol}'` }))
  const random = Object.entries(makers).flatMap(([call, make]) =>
    Array.from({ length: ranges }, () => ({ call, ...make(roll, one(roll, instruments)) })),
  )
  const rollups = Object.entries(views).flatMap(([view, width]) =>
    instruments.map(({ category, symbol, sql: of }) => ({
      call: 'rollup',
      args: { category, symbol, width: width * 1000 },
      sql: `select * from market.${view} where (category, symbol) = (${of}) order by open_time`,
    })),
  )
  return [...random, ...rollups]
}

const timeOf: Readonly<Record<string, string>> = {
  candles: 'open_time',
  fills: 'ts, length(exec_id), exec_id',
  tickers: 'ts',
  order_books: 'ts',
  rpi_order_books: 'ts',
  coverage: 'from_time',
  instrument_history: 'valid_from',
}

/** Asks the database and the reference, and resolves to what the reference prints. */
async function compare(calls: readonly Call[]) {
  const reference = spawn('python3', [program], { stdio: ['pipe', 'pipe', 'inherit'] })
  const printed = readAll(reference.stdout)
  const client = await reader.database.pool.connect()
  try {
    const rowsOf = async (sql: string) => {
      const { rows } = await client.query<{ rows: string }>(
        `select coalesce(json_agg(q), '[]')::text as rows from (${sql}) q`,
      )
      return rows[0]?.rows ?? ''
    }
    const send = (fields: string, rows: string) =>
      reference.stdin.write(`{${fields}, "rows": ${rows.replaceAll('\n', ' ')}}\n`)
    for (const [table, time] of Object.entries(timeOf))
      send(`"table": "${table}"`, await rowsOf(`select * from market.${table} order by ${time}`))
    // A day has 23 hours there in the night of 29 March.
    await client.query(`set timezone = 'Europe/Berlin'`)
    for (const { call, args, sql } of calls)
      send(`"call": "${call}", "args": ${JSON.stringify(args)}`, await rowsOf(sql))
  } finally {
    client.release(true)
    reference.stdin.end()
  }
  return JSON.parse(await printed) as {
    readonly calls: Readonly<Record<string, number>>
    readonly rows: Readonly<Record<string, number>>
    /** Of each function that differs, how often and the first of them. */
    readonly different: Readonly<Record<string, readonly string[]>>
  }
}

const title = `the functions answer as a reference in Python does, in exact fractions${skipped}`
it.skipIf(!hasPython)(title, { timeout: Math.max(300_000, ranges * 30_000) }, async () => {
  const { calls, rows, different } = await compare(callsOf(diceOf(59)))
  expect(different).toEqual({})
  for (const name of Object.keys(makers)) {
    expect(calls[name], name).toBe(ranges)
    expect(rows[name], name).toBeGreaterThan(ranges / 4)
  }
})

it('no function is without a reference', async () => {
  const { rows } = await created.database.pool.query<{ name: string }>(
    `select distinct proname as name from pg_proc where pronamespace = 'market'::regnamespace and prorettype <> 'trigger'::regtype`,
  )
  expect(rows.map(({ name }) => name).filter((name) => !(name in makers) && !covered.includes(name))).toEqual([])
})
