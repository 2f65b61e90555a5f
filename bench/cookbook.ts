import { readFileSync } from 'node:fs'
import { dayMs } from '../src/market/values.js'
import { refreshRollups } from '../src/server/timescale/rollups.js'
import { loadCookbookMarket } from '../test/support/cookbookMarket.js'
import { type Login, login } from '../test/support/login.js'
import { packageFile } from '../src/runtime/process.js'
import { plainQueries } from './cookbookPlain.js'
import { atMost, type Check, figure, printChecks, timeOf } from './tools/checks.js'
import { withDatabase, withDatabaseOn } from './tools/database.js'

interface CookbookOptions {
  readonly serverUrl: string | undefined
  /** Share of three years, and of 800 instruments, that lie beside a week of twenty instruments. */
  readonly scale: number
  readonly rounds: number
}

/** The week of the cookbook, whose two days are in it. */
const weekEnd = Date.UTC(2026, 2, 4)
const weekBegin = weekEnd - 7 * dayMs

/**
 * Runs each query of the cookbook as a reader, in turns on a week of twenty instruments, and on the same with years of
 * them and a week of many others beside it. Functions are also compared with the plainest SQL for the same rows.
 */
export async function benchCookbook({ serverUrl, scale, rounds }: CookbookOptions): Promise<number> {
  if (serverUrl === undefined) return withDatabase(({ url }) => benchCookbook({ serverUrl: url, scale, rounds }))
  const checks = await withFilled(serverUrl, 0, (small) =>
    withFilled(serverUrl, scale, (large) => compareAll(small, large, rounds)),
  )
  return printChecks(checks)
}

/** Calls `measure` with a reader of a database of its own. */
async function withFilled<Result>(
  serverUrl: string,
  scale: number,
  measure: (reader: Login) => Promise<Result>,
): Promise<Result> {
  return withDatabaseOn(serverUrl, 'cookbook', async ({ url, database }) => {
    const startedAt = performance.now()
    await loadCookbookMarket(database.db)
    for (const statement of statementsFor(scale)) await database.pool.query(statement)
    const from = weekBegin - scale * 3 * 365 * dayMs
    await refreshRollups(database.db, [{ from, to: weekEnd }])
    await database.pool.query('vacuum analyze')
    console.log(`filled with ${scale} of what lies beside in ${((performance.now() - startedAt) / 1000).toFixed(0)} s`)
    const reader = await login({ url, database }, 'market_reader')
    try {
      return await measure(reader)
    } finally {
      await reader.remove()
    }
  })
}

/** Those of the cookbook, and as many more as make twenty. */
const twenty = `(values ('SPOT', 'BTCUSDT'), ('USDT-FUTURES', 'BTCUSDT'), ('USDT-FUTURES', 'ETHUSDT'), ('COIN-FUTURES', 'BTCUSD_CM')) as k (category, symbol)
  union all select 'USDT-FUTURES', 'MORE' || lpad(i::text, 2, '0') || 'USDT' from generate_series(1, 16) as i`
const othersOf = (count: number) =>
  `select 'USDT-FUTURES' as category, 'OTHER' || lpad(i::text, 3, '0') || 'USDT' as symbol from generate_series(1, ${count}) as i`

function statementsFor(scale: number): string[] {
  const pastFrom = weekBegin - Math.round(scale * 3 * 365) * dayMs
  const others = Math.round(scale * 800)
  const week = rowsOf(`select category, symbol from ${twenty}`, weekBegin, weekEnd, [
    '1 minute',
    '10 minutes',
    '1 hour',
  ])
  if (scale === 0) return week
  return [
    ...week,
    ...rowsOf(`select category, symbol from ${twenty}`, pastFrom, weekBegin, ['1 minute', '1 hour', '6 hours']),
    ...rowsOf(othersOf(others), weekBegin, weekEnd, ['1 minute', '1 hour', '6 hours']),
  ]
}

/** Builds statements that insert rows of instruments at steps: of candles; of tickers and fills; of order books. */
function rowsOf(instruments: string, from: number, to: number, steps: readonly [string, string, string]): string[] {
  const [begin, end] = [from, to].map((at) => `timestamptz '${new Date(at).toISOString()}'`)
  const all = (step: string) => `
    (${instruments}) as i cross join generate_series(${begin}, ${end} - interval '1 second', interval '${step}') as t
    cross join lateral (select round((1000 + random() * 5)::numeric, 2) as p, round((random() ^ 3 * 40)::numeric, 3) + 0.001 as v
      where t is not null) as n`
  const key = `i.category::market.category, i.symbol`
  const book = (rpi: boolean) => {
    const side = (sign: string) =>
      `array[p ${sign} 1, p ${sign} 2, p ${sign} 3], array[v, v, v]${rpi ? ', array[v, v, v]' : ''}`
    return `${key}, t + interval '7 seconds', ${side('-')}, ${side('+')}, t`
  }
  const [candles, moments, books] = steps
  return [
    `insert into market.instruments (category, symbol, kind, first_seen_at, updated_at)
      select ${key}, 'crypto', now(), now() from (${instruments}) as i`,
    `insert into market.instrument_history (category, symbol, kind, valid_from) select ${key}, 'crypto', ${begin} from (${instruments}) as i
      where not exists (select from market.instrument_history h where h.category = i.category::market.category and h.symbol = i.symbol)`,
    `insert into market.candles select ${key}, 'market', '1m', t, p, p + 0.31, p - 0.27, p + 0.02, v, round(v * p, 6), true from ${all(candles)}`,
    `insert into market.fills (category, symbol, ts, exec_id, side, price, size, received_at)
      select ${key}, t + interval '3 seconds', (extract(epoch from t))::bigint::text, 'buy', p, v, t from ${all(moments)}`,
    `insert into market.tickers (category, symbol, ts, last_price, bid1_price, ask1_price, funding_rate, mark_price, index_price, open_interest, received_at)
      select ${key}, t + interval '3 seconds', p, p - 0.01, p + 0.01, 0.0001, p, p, v, t from ${all(moments)}`,
    `insert into market.order_books (category, symbol, ts, bid_prices, bid_sizes, ask_prices, ask_sizes, received_at)
      select ${book(false)} from ${all(books)}`,
    `insert into market.rpi_order_books (category, symbol, ts, bid_prices, bid_sizes, bid_rpi_sizes, ask_prices, ask_sizes, ask_rpi_sizes, received_at)
      select ${book(true)} from ${all(books)}`,
  ].map((statement) => `${statement} on conflict do nothing`)
}

/** A call of a function in PL/pgSQL plans its statements anew, so that each reads its range alone. */
const callMs = 1

/** A question of the page, and the query below it. */
const recipe = /### ([^\n]*)\n\n```sql\n([\s\S]*?)```/g

async function compareAll(small: Login, large: Login, rounds: number): Promise<Check[]> {
  const checks: Check[] = []
  for (const [, question = '', query = ''] of readFileSync(packageFile('docs/sql.md'), 'utf8').matchAll(recipe)) {
    const plain = plainQueries[question]
    const best = { small: Infinity, large: Infinity, plain: Infinity }
    // The first round fills caches. What else the machine does can only add to a time.
    for (let round = 0; round <= rounds; round++) {
      const ms = {
        small: await timeOf(() => small.database.pool.query(query)),
        large: await timeOf(() => large.database.pool.query(query)),
        plain: plain === undefined ? Infinity : await timeOf(() => large.database.pool.query(plain)),
      }
      if (round === 0) continue
      for (const name of ['small', 'large', 'plain'] as const) best[name] = Math.min(best[name], ms[name])
    }
    const detail = `${best.large.toFixed(1)} / ${best.small.toFixed(1)} ms`
    const ratio = best.large / best.small
    // A query of all instruments has more rows where there are more.
    const isOfOne = /symbol = '|\('(?:SPOT|\w+-FUTURES)', '/.test(query)
    if (isOfOne) checks.push(atMost(question, ratio, 1.3, { unit: 'times without', detail }))
    else checks.push(figure(question, `${ratio.toFixed(2)} times without (${detail})`))
    if (plain !== undefined) {
      const compared = `${best.large.toFixed(1)} / ${best.plain.toFixed(1)} ms`
      const what = '… beside the plainest SQL, less 1 ms of the call'
      checks.push(atMost(what, Math.max(0, best.large - callMs) / best.plain, 1.3, { unit: 'times', detail: compared }))
    }
  }
  return checks
}
