import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { type Recorder, startRecorder } from '../../../src/app.js'
import { loadConfig } from '../../../src/config/resolve.js'
import { runArchive } from '../../../src/files/archive/run.js'
import { removeArchived } from '../../../src/files/archive/removal.js'
import { forget } from '../../../src/ledger/forget.js'
import { newestRows, storeOverview } from '../../../src/ledger/read/overview.js'
import { insertWants } from '../../../src/ledger/wants.js'
import { streamNames, timeTables } from '../../../src/market/stream.js'
import { createLogger } from '../../../src/runtime/logger.js'
import type { endpoints } from '../../../src/serve/api/endpoints.js'
import { reconcile } from '../../../src/server/timescale/reconcile.js'
import { applyRetention } from '../../../src/server/timescale/retention.js'
import { hasHypertables, readLockRoom } from '../../../src/server/timescale/server.js'
import { type Simulator, startSimulator } from '../../../src/simulator/server.js'
import { temporaryArchive } from '../../support/archives.js'
import type { TestDatabase } from '../../support/database.js'
import { testStorage } from '../../support/databaseServer.js'
import { collectPlans, createExplainedDatabase } from '../../support/plans.js'
import { readRepositoryFile } from '../../support/repositoryFiles.js'
import { temporaryFolder } from '../../support/temporaryFolder.js'

const dayMs = 86_400_000
const today = Math.floor(Date.now() / dayMs) * dayMs
/** Days of rows before today. The tables that grow with time have 1,500 chunks of them together. */
const days = Math.ceil(1500 / timeTables.length)
const ofADay = Object.fromEntries(
  Object.entries(testStorage).map(([name, table]) => [name, { ...table, chunkHours: 24 }]),
) as typeof testStorage

/** Most chunks of all tables, and rows of tables of the market, that a statement may look at. */
const limits = { chunks: 20, rows: 8_000 }

/** Statements that may look at more, by a part of their text, and why. */
const exceptions: readonly (readonly [part: string, reason: string])[] = [
  ['as last from (', 'once a run of the archive: the end of the table, wherever it is'],
  ['as first from (', 'once a run of the archive: the beginning of the table, wherever it is'],
  ['as "index_components"', 'the status command without a recorder: three days of ten tables in one statement'],
  ['with fills as materialized', 'a page of the history of fills: what is proven around it, however old'],
  ['select "ts" from "market"."fills"', 'a page of the history of fills: the stored fill next to it, however old'],
  ['from unnest($1) as r join market.', 'a gap that is noted: the stored rows in it'],
  ['select "ts", "interval_hours"', 'a page of settlements: 35 days, which two chunks of the usual size hold'],
  [
    'select min(ts) from market.funding_rates',
    'a page that proves nothing: 90 days, which four chunks of the usual size hold',
  ],
  ['"occurrence" from "market"."liquidations"', 'a page of the history of liquidations: the stored rows of its span'],
  ['recorder.fill_minutes(of_category', 'minutes whose fills are compared with candles: more on a busy machine'],
  ['t.ts >= asked_since', 'a page of fills that joins nothing, and that no claim goes before: the first fill of all'],
  ["'fills', t.category, t.symbol, 'final'", 'a day of fills that leaves for the archive: once a day'],
]

let created: TestDatabase
let simulator: Simulator
let recorder: Recorder
const dataDir = temporaryFolder('bounded')
const explainedDir = temporaryFolder('explained')
const plans = collectPlans()

beforeAll(async () => {
  created = await createExplainedDatabase(explainedDir)
  simulator = await startSimulator({ scale: 'tiny' })
  const { db } = created.database
  await reconcile(db, ofADay)
  await storePast()
  // Without statistics the planner guesses, and its plans are others than those of a table that is used for a while.
  await sql`analyze`.execute(db)
  // What the preparation did does not count.
  plans.statements.clear()
})

afterAll(async () => {
  plans.stop()
  await recorder?.stop()
  await simulator?.close()
  await created?.drop()
})

/** Stores a row each ten minutes of one instrument in each table: twice as many as a statement may look at. */
async function storePast(): Promise<void> {
  const { db } = created.database
  const key = sql`'USDT-FUTURES', 'BTCUSDT'`
  const times = sql`generate_series(${new Date(today - days * dayMs)}::timestamptz,
    ${new Date(today)}::timestamptz - interval '1 second', interval '10 minutes') as g (t)`
  const positions = ['long_short_ratios', 'long_short_accounts', 'long_short_positions']
  const values: Record<string, ReturnType<typeof sql>> = {
    tickers: sql`(category, symbol, ts, received_at, last_price) select ${key}, t, t, 1 from ${times}`,
    order_books: sql`(category, symbol, ts, received_at, bid_prices, bid_sizes, ask_prices, ask_sizes)
      select ${key}, t, t, '{1}', '{1}', '{2}', '{1}' from ${times}`,
    rpi_order_books: sql`(category, symbol, ts, received_at, bid_prices, bid_sizes, bid_rpi_sizes, ask_prices, ask_sizes, ask_rpi_sizes)
      select ${key}, t, t, '{1}', '{1}', '{0}', '{2}', '{1}', '{0}' from ${times}`,
    fills: sql`(category, symbol, ts, exec_id, side, price, size, received_at)
      select ${key}, t, t::text, 'buy', 1, 1, t from ${times}`,
    candles: sql`(category, symbol, type, interval, open_time, open, high, low, close, base_volume, quote_turnover, is_closed)
      select ${key}, 'market', '1m', date_trunc('minute', t), 1, 2, 1, 2, 5, 5, true from ${times}`,
    funding_rates: sql`(category, symbol, ts, funding_rate, interval_hours, received_at) select ${key}, t, 0.1, 8, t from ${times}`,
    funding_forecasts: sql`(category, symbol, ts, funding_rate, next_update, received_at) select ${key}, t, 0.1, t, t from ${times}`,
    liquidations: sql`(category, symbol, ts, side, price, amount, occurrence, received_at)
      select ${key}, t, 'sell', 1, 1, 1, t from ${times}`,
    taker_flow: sql`(category, symbol, ts, buy_volume, sell_volume, received_at) select ${key}, t, 1, 1, t from ${times}`,
    ...Object.fromEntries(
      positions.map((name) => [
        name,
        sql`(category, symbol, ts, long_share, short_share, received_at) select ${key}, t, 0.5, 0.5, t from ${times}`,
      ]),
    ),
  }
  for (const { name } of timeTables) {
    const rows = values[name]
    if (rows === undefined) throw new Error(`say here which rows ${name} has`)
    await sql`insert into ${sql.table(`market.${name}`)} ${rows}`.execute(db)
  }
  await sql`analyze`.execute(db)
}

/** Starts a recorder of all streams with its page, and waits until each stream has stored something. */
async function record(): Promise<void> {
  // A further attempt at a test begins with a recorder of its own.
  await recorder?.stop()
  const config = loadConfig({ env: { DATABASE_URL: created.url, EXCHANGE_BASE_URL: simulator.url } })
  config.database.dataDir = dataDir
  config.serve.port = 0
  config.storage = Object.fromEntries(
    Object.entries(config.storage).map(([name, kept]) => [name, { ...kept, chunkHours: 24 }]),
  ) as typeof config.storage
  config.streams.positioning.enabled = true
  config.streams.futuresTerms.enabled = true
  recorder = await startRecorder(config, createLogger('silent'))
  const { stats } = recorder.collector
  await vi.waitFor(() => expect(streamNames.filter((name) => stats[name].lastStoredAt === null)).toEqual([]), {
    timeout: 300_000,
    interval: 200,
  })
}

const instrument = 'category=USDT-FUTURES&symbol=BTCUSDT'
const queries: Readonly<Record<keyof typeof endpoints, readonly string[]>> = {
  '/api/status': [''],
  '/api/instruments': ['search=btc'],
  '/api/instruments/busiest': [''],
  '/api/instrument': [instrument, 'category=SPOT&symbol=GONEUSDT'],
  '/api/market': [''],
  '/api/curves': ['keys=USDT-FUTURES:BTCUSDT,SPOT:BTCUSDT'],
  '/api/candles': [instrument, `${instrument}&interval=1H&limit=50`, `${instrument}&interval=1D&limit=3`],
  '/api/history': [`${instrument}&hours=168`],
  '/api/calendar': ['days=7', `days=7&to=${today - 60 * dayMs}`],
  '/api/coverage': [`stream=candles&type=market&interval=1m&${instrument}&from=${today - 10 * dayMs}&to=${today}`],
}

async function openPage(url: string): Promise<void> {
  for (const path of ['/metrics', '/readyz']) await (await fetch(url + path)).text()
  for (const [path, each] of Object.entries(queries)) {
    for (const query of each) {
      const response = await fetch(`${url}${path}?${query}`)
      expect(response.status, `${path}?${query}: ${await response.text()}`).toBe(200)
    }
  }
  const page = new AbortController()
  const events = await fetch(`${url}/api/events?${instrument}`, { signal: page.signal })
  const reader = events.body?.getReader()
  const decoder = new TextDecoder()
  let text = ''
  while (!text.includes('event: instrument')) text += decoder.decode((await reader?.read())?.value as Uint8Array)
  page.abort()
}

async function backfill(): Promise<void> {
  const { db } = created.database
  const range = { from: today - 2 * dayMs, to: today - 1.9 * dayMs } as never
  const key = { category: 'USDT-FUTURES', symbol: 'BTCUSDT' } as const
  const common = {
    kind: 'backfill',
    again: false,
    ranges: [range],
    floor: today - 2 * dayMs,
    isUrgent: true,
    hasOpenBeginning: false,
  } as const
  const wanted = [
    { ...key, stream: 'candles', type: 'market', interval: '1m' },
    { ...key, stream: 'fills', type: '', interval: '' },
    { ...key, stream: 'funding_rates', type: '', interval: '' },
    { ...key, stream: 'liquidations', type: '', interval: '' },
  ] as const
  await insertWants(
    db,
    wanted.map((series) => ({ ...common, series })),
  )
  const open = async () =>
    (await db.selectFrom('recorder.want').select('id').where('ended_at', 'is', null).execute()).length
  // Two of the operations wait behind what else the recorder asks of them, for as long as a busy machine needs.
  await expect.poll(open, { timeout: 500_000, interval: 500 }).toBe(0)
}

async function archive(): Promise<void> {
  const { database } = created
  const target = await temporaryArchive()
  const old = [{ name: 'fills', retentionDays: days - 3 }]
  try {
    await runArchive(database, target.target, { tables: ['fills'], afterHours: 30, snapshotDays: 1 }, { now: Date.now })
    await removeArchived(database, target.target, old, { now: () => today })
  } finally {
    await target.drop()
  }
}

/** Queries of the cookbook that may look at more, by a part of their text, and why. */
const cookbookExceptions: readonly (readonly [part: string, reason: string])[] = [
  [
    'from market.latest_tickers',
    'the newest ticker of each instrument, however old: a view has no parameter to bound it',
  ],
]

test(`no query of the cookbook looks at more than ${limits.chunks} chunks of 1,500`, async () => {
  const queries = [...readRepositoryFile('docs/sql.md').matchAll(/```sql\n([\s\S]*?)```\n\n```text/g)].map(
    ([, query = '']) => query,
  )
  expect(queries.length).toBeGreaterThan(20)
  const isHypertable = await hasHypertables(created.database.db)
  const beyond: string[] = []
  for (const query of queries) {
    // The days and instruments of the page become days in the middle of what is stored here, and the one that is.
    const stored = query.replaceAll("'ETHUSDT'", "'BTCUSDT'").replaceAll(/'SPOT'|'COIN-FUTURES'/g, "'USDT-FUTURES'")
    const moved = stored.replaceAll(/2026-03-0(\d)/g, (_, day: string) =>
      new Date(today - (Math.floor(days / 2) - Number(day)) * dayMs).toISOString().slice(0, 10),
    )
    plans.statements.clear()
    await created.database.pool.query(moved)
    if (cookbookExceptions.some(([part]) => query.includes(part))) continue
    for (const { text, chunks, rows } of plans.statements.values()) {
      if (isHypertable ? chunks > limits.chunks : rows > limits.rows)
        beyond.push(`${chunks} chunks, ${rows} rows: ${text}`)
    }
  }
  expect(beyond).toEqual([])
})

test(`no statement of the program looks at more than ${limits.chunks} chunks of 1,500`, async () => {
  const { database } = created
  const { db } = database
  await record()
  await openPage(recorder.pageUrl ?? '')
  await backfill()
  await archive()
  await Promise.all([newestRows(db), storeOverview(db), readLockRoom(db)])
  const old = {
    ...ofADay,
    candles: { ...ofADay.candles, retentionDays: days - 3 },
    tickers: { ...ofADay.tickers, retentionDays: days - 3 },
  }
  await applyRetention(db, forget, old, Date.now())
  const isHypertable = await hasHypertables(db)
  const statements = [...plans.statements.values()]
  expect(statements.length).toBeGreaterThan(50)
  const beyond = statements
    .filter(({ chunks, rows }) => (isHypertable ? chunks > limits.chunks : rows > limits.rows))
    .filter(({ text }) => !exceptions.some(([part]) => text.includes(part)))
  expect(beyond.map(({ text, chunks, rows }) => `${chunks} chunks, ${rows} rows: ${text}`)).toEqual([])
})
