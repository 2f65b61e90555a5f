import { parseArgs } from 'node:util'
import type pg from 'pg'
import { firstDay, instruments, loadCandles } from './archive/data.js'
import { median, printTable } from './tools/checks.js'
import { withDatabase } from './tools/database.js'

const range = (days: number) => `timestamptz '${firstDay}', timestamptz '${firstDay}' + interval '${days} days'`
const all = `from generate_series(0, ${instruments - 1}) as i
  cross join lateral (select 'BENCH' || lpad(i::text, 2, '0') || 'USDT' as symbol) s cross join lateral`

/** Each question is asked of all instruments over all days. Every row is computed, and only their number comes back. */
function questions(days: number): Readonly<Record<string, string>> {
  const span = range(days)
  const count = (call: string) => `select count(r.*) ${all} ${call} r`
  const returns = `ln(close / lag(close) over (partition by symbol order by open_time))`
  const books = `bid_prices, bid_sizes, ask_prices, ask_sizes`
  return {
    '`log_returns`, 1 hour': count(`market.log_returns('USDT-FUTURES', symbol, '1 hour', ${span})`),
    '`realized_volatility`, 5 minutes': count(
      `market.realized_volatility('USDT-FUTURES', symbol, '5 minutes', ${span})`,
    ),
    'log returns of 1m candles by hand, `numeric`': `select sum(r) from (select ${returns} as r from market.candles) c`,
    'log returns of 1m candles by hand, `::float8`': `select sum(r) from (select ${returns.replaceAll('close', 'close::float8')} as r from market.candles) c`,
    '`vwap`': count(`market.vwap('USDT-FUTURES', symbol, ${span})`),
    'the same by hand, `::float8`': `select symbol, sum(price::float8 * size::float8) / sum(size::float8) from market.fills group by symbol`,
    '`volume_bars`': count(`market.volume_bars('USDT-FUTURES', symbol, ${span}, 1000)`),
    '`dollar_bars`': count(`market.dollar_bars('USDT-FUTURES', symbol, ${span}, 1000000)`),
    '`fills_with_quotes`': count(`market.fills_with_quotes('USDT-FUTURES', symbol, ${span})`),
    '`on_grid`, tickers each 15 minutes': `select count(g.*) ${all} (
      select array_agg(ts order by ts) as times, array_agg(last_price order by ts) as prices from market.tickers t
      where t.category = 'USDT-FUTURES' and t.symbol = s.symbol) a
      cross join lateral market.on_grid(a.times, a.prices, ${span}, '15 minutes') g`,
    '`book_imbalance` and `microprice`, best level': `select sum(market.book_imbalance(${books})), sum(market.microprice(${books})) from market.order_books`,
    '`book_imbalance`, 10 basis points': `select sum(market.book_imbalance(${books}, 10)) from market.order_books`,
    '`universe_at`': `select count(*) from market.universe_at(now())`,
  }
}

/** Time that the functions for studies take over a year of 20 instruments, on the embedded PostgreSQL. */
export async function benchSql(argv: readonly string[]): Promise<number> {
  const { values } = parseArgs({
    args: [...argv],
    options: { days: { type: 'string', default: '365' }, rounds: { type: 'string', default: '3' } },
  })
  const days = Number(values.days)
  await withDatabase(async ({ database: { pool } }) => {
    await loadCandles(pool, days * 1440 * instruments)
    await loadRest(pool)
    const rows: [string, string][] = []
    for (const [what, query] of Object.entries(questions(days))) {
      const seconds: number[] = []
      for (let round = 0; round < Number(values.rounds); round++) {
        const startedMs = performance.now()
        await pool.query(query)
        seconds.push((performance.now() - startedMs) / 1000)
      }
      rows.push([what, median(seconds).toFixed(2)])
    }
    printTable(['', 'seconds'], rows)
  })
  return 0
}

/** For each instrument five fills and a ticker each five minutes, and an order book of 50 levels a side each hour. */
async function loadRest(pool: pg.Pool): Promise<void> {
  const candles = `from market.candles where extract(minute from open_time)::int`
  await pool.query(`
    insert into market.instruments (category, symbol, kind, first_seen_at, updated_at)
    select distinct 'USDT-FUTURES'::market.category, symbol, 'crypto', now(), now() from market.candles`)
  await pool.query(`
    insert into market.fills (category, symbol, ts, exec_id, side, price, size, received_at)
    select category, symbol, open_time + n * interval '7 seconds', n::text, (array['buy', 'sell'])[1 + n % 2]::market.side, close,
      base_volume + 0.0001, open_time
    ${candles.replace('where', 'cross join generate_series(1, 5) as n where')} % 5 = 0`)
  await pool.query(`
    insert into market.tickers (category, symbol, ts, last_price, bid1_price, ask1_price, received_at)
    select category, symbol, open_time, close, close - 0.01, close + 0.01, open_time ${candles} % 5 = 0`)
  await pool.query(`
    insert into market.order_books (category, symbol, ts, bid_prices, bid_sizes, ask_prices, ask_sizes, received_at)
    select category, symbol, open_time, array(select close - n * 0.01 from generate_series(1, 50) n),
      array_fill(base_volume + 0.5, array[50]), array(select close + n * 0.01 from generate_series(1, 50) n),
      array_fill(base_volume + 0.7, array[50]), open_time ${candles} = 0`)
  await pool.query('analyze')
}
