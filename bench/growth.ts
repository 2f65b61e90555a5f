import { parseArgs } from 'node:util'
import { pino } from 'pino'
import { CandleWriter } from '../src/history/candleWriter.js'
import { dayMs, hourMs } from '../src/market/values.js'
import { systemClock as clock } from '../src/runtime/clock.js'
import { storeBatch } from '../src/ledger/storeBatches.js'
import { openDatabase, type RecorderDatabase } from '../src/db/database.js'
import { missingCandles } from '../src/ledger/missing.js'
import { readCandles } from '../src/ledger/read/candles.js'
import { coverageCalendar, emptyRanges } from '../src/ledger/read/coverage.js'
import { newestRows, storeOverview } from '../src/ledger/read/overview.js'
import { reconcile } from '../src/server/timescale/reconcile.js'
import { testStorage } from '../test/support/databaseServer.js'
import { benchCookbook } from './cookbook.js'
import { candlePage, fillPage } from './cost/rows.js'
import { growTo, type GrownMarket } from './growthData.js'
import { atLeast, atMost, type Check, figure, median, printChecks, timeOf } from './tools/checks.js'
import { communityUrl, requireCommunity, withDatabaseOn } from './tools/database.js'

/** How much larger the large database is than the small one. */
const factor = 100
const writtenPages = 20
const logger = pino({ level: 'silent' })

/**
 * Measures whether a database gets slower as it grows. Sends equal writes and queries in turns to a small database and
 * to one with a hundred times as many rows, whose older days are in the columnstore. Needs a TimescaleDB Community
 * server, on which it makes both.
 */
export async function benchGrowth(argv: readonly string[]): Promise<number> {
  const { values } = parseArgs({
    args: [...argv],
    options: {
      url: { type: 'string' },
      candles: { type: 'string', default: '100000000' },
      fills: { type: 'string', default: '50000000' },
      rounds: { type: 'string', default: '7' },
      cookbook: { type: 'string' },
    },
  })
  if (values.cookbook !== undefined) {
    const serverUrl = values.url ?? process.env['TEST_DATABASE_URL']
    return benchCookbook({ serverUrl, scale: Number(values.cookbook), rounds: Number(values.rounds) })
  }
  const serverUrl = communityUrl(values.url)
  const size = { candles: Number(values.candles), fills: Number(values.fills) }
  const checks = await withGrown(serverUrl, size, (large) =>
    withGrown(serverUrl, { candles: size.candles / factor, fills: size.fills / factor }, (small) =>
      compare(small, large, Number(values.rounds)),
    ),
  )
  return printChecks(checks)
}

interface Grown {
  readonly database: RecorderDatabase
  /** As the page and the commands have it that only read. */
  readonly reader: RecorderDatabase
  readonly market: GrownMarket
}

/** Calls `measure` with a database of its own that is filled to a size. */
async function withGrown<Result>(
  serverUrl: string,
  size: { readonly candles: number; readonly fills: number },
  measure: (grown: Grown) => Promise<Result>,
): Promise<Result> {
  return withDatabaseOn(serverUrl, 'growth', async ({ url, database }) => {
    await requireCommunity(database)
    const reader = openDatabase({ url, isReadOnly: true })
    try {
      return await measure({ database, reader, market: await growTo(database, size) })
    } finally {
      await reader.close()
    }
  })
}

/** Something done to a database; the round makes what is written new each time. */
type Work = (grown: Grown, round: number) => Promise<unknown>

async function compare(small: Grown, large: Grown, rounds: number): Promise<Check[]> {
  const checks: Check[] = []
  for (const [what, work] of Object.entries(writes)) {
    const { ratio, detail } = await compareTimes(small, large, rounds, work)
    checks.push(atLeast(`rows a second: ${what}`, 1 / ratio, 0.9, { detail }))
  }
  for (const [what, work] of Object.entries(questions)) {
    const { ratio, detail } = await compareTimes(small, large, rounds * 3, work)
    checks.push(atMost(`time of ${what}`, ratio, 1.2, { detail }))
  }
  for (const [what, work] of Object.entries(questionsOfAll)) {
    const { ratio, detail } = await compareTimes(small, large, rounds, work)
    checks.push(figure(`time of ${what}`, `${ratio.toFixed(2)} (${detail})`))
  }
  return checks
}

/** The time on the large database in times of that on the small one, and both as text. */
async function compareTimes(small: Grown, large: Grown, rounds: number, work: Work) {
  const times: { small: number; large: number }[] = []
  // The first round fills caches.
  for (let round = 0; round <= rounds; round++) {
    const smallMs = await timeOf(() => work(small, round))
    const largeMs = await timeOf(() => work(large, round))
    if (round > 0) times.push({ small: smallMs, large: largeMs })
  }
  const [smallMs, largeMs] = (['small', 'large'] as const).map((which) => median(times.map((time) => time[which])))
  return {
    ratio: median(times.map((time) => time.large / time.small)),
    detail: `${smallMs?.toFixed(1)} : ${largeMs?.toFixed(1)} ms`,
  }
}

const seriesOf = (symbol: string, interval: '1m' | '1H' = '1m') =>
  ({ category: 'USDT-FUTURES', symbol, type: 'market', interval }) as const

const writes: Readonly<Record<string, Work>> = {
  'candles of the past, by pages of 1,000': async ({ database, market }, round) => {
    const series = seriesOf(`NEW${round}USDT`)
    const writer = new CandleWriter(database.db, {
      series,
      clock,
      logger,
      signal: new AbortController().signal,
    })
    // The newest days, so that they are of the same chunks in both.
    const from = market.end - writtenPages * 1000 * 60_000
    for (let page = writtenPages - 1; page >= 0; page--) {
      const candles = candlePage(series.symbol, page, from)
      await writer.add({ candles, silence: [], rejected: [], requestTime: market.end, receivedAt: market.end })
    }
    await writer.finish()
  },
  'fills, by pages of 100': async ({ database, market }, round) => {
    // Those of instruments that have many, after the newest.
    for (const symbol of market.symbols) await storeBatch(database.db, fillPage(symbol, round, market.end))
  },
}

/** About one instrument and a bounded time. */
const questions: Readonly<Record<string, Work>> = {
  'the chart: 500 candles of a minute': ({ reader: { db }, market }, round) =>
    readCandles(db, seriesOf(symbolOf(market, round)), { before: market.end, limit: 500 }),
  'the chart: 500 candles of an hour, made of minutes': ({ reader: { db }, market }, round) =>
    readCandles(db, seriesOf(symbolOf(market, round), '1H'), { before: market.end, limit: 160 }),
  'the newest 100 fills of an instrument': ({ reader: { pool }, market }, round) =>
    pool.query(
      `select * from market.fills where category = 'SPOT' and symbol = $1 and ts > $2::timestamptz - interval '1 hour'
        order by ts desc limit 100`,
      [symbolOf(market, round), new Date(market.end)],
    ),
  'an hour of fills of an instrument': ({ reader: { pool }, market }, round) =>
    pool.query(
      `select count(*), sum(price * size) from market.fills
        where category = 'SPOT' and symbol = $1 and ts >= $2 and ts < $3`,
      [symbolOf(market, round), new Date(market.end - 2 * hourMs), new Date(market.end - hourMs)],
    ),
  'a day of candles of an instrument': ({ reader: { pool }, market }, round) =>
    pool.query(
      `select count(*), sum(base_volume) from market.candles where category = 'USDT-FUTURES' and symbol = $1
        and type = 'market' and interval = '1m' and open_time >= $2 and open_time < $3`,
      [symbolOf(market, round), new Date(market.end - 2 * dayMs), new Date(market.end - dayMs)],
    ),
  'candles of five minutes of a day, made of minutes': ({ reader: { pool }, market }, round) =>
    pool.query(`select * from market.ohlcv('USDT-FUTURES', $1, '5 minutes', $2, $3)`, aDay(market, round)),
  'a day of candles, told where there are none': ({ reader: { pool }, market }, round) =>
    pool.query(`select * from market.candles_without_gaps('USDT-FUTURES', $1, '1m', $2, $3)`, aDay(market, round)),
  'the average price of six hours of fills, hour by hour': ({ reader: { pool }, market }, round) =>
    pool.query(`select * from market.vwap_series('SPOT', $1, $2, $3, '1 hour')`, [
      symbolOf(market, round),
      new Date(market.end - 6 * hourMs),
      new Date(market.end),
    ]),
  'what is missing of a series in a month': ({ reader: { db }, market }, round) =>
    missingCandles(db, [
      { series: seriesOf(symbolOf(market, round)), range: { from: market.end - 30 * dayMs, to: market.end } },
    ]),
  'candles proven and not there, in a day': ({ reader: { db }, market }, round) =>
    emptyRanges(
      db,
      { stream: 'candles', ...seriesOf(symbolOf(market, round)) },
      { from: market.end - 2 * dayMs, to: market.end - dayMs },
    ),
}

/** About all instruments or all tables. No targets: a plan takes longer for the chunks of years. */
const questionsOfAll: Readonly<Record<string, Work>> = {
  'the newest ticker of every instrument': ({ reader: { pool } }) => pool.query('select * from market.latest_tickers'),
  'the calendar of a week': ({ reader: { db }, market }) =>
    coverageCalendar(db, { text: '', limit: 50, offset: 0 }, { from: market.end - 7 * dayMs, to: market.end }),
  'the overview of the page': async ({ reader: { db } }) => [await storeOverview(db), await newestRows(db)],
  'what a start looks at: tables, policies and compression': ({ database: { db } }) => reconcile(db, testStorage),
}

/** A symbol, and the day before the newest. */
function aDay(market: GrownMarket, round: number): [string, Date, Date] {
  return [symbolOf(market, round), new Date(market.end - 2 * dayMs), new Date(market.end - dayMs)]
}

function symbolOf({ symbols }: GrownMarket, round: number): string {
  return symbols[(round * 7) % symbols.length] ?? ''
}
