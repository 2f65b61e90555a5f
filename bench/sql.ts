import { randomBytes } from 'node:crypto'
import { parseArgs } from 'node:util'
import Table from 'cli-table3'
import type pg from 'pg'
import { loadConfig } from '../src/config/load.js'
import { storageOf } from '../src/config/storageOf.js'
import type { RecorderDatabase } from '../src/db/database.js'
import { migrateToLatest } from '../src/db/migrate.js'
import { reconcile } from '../src/server/timescale/reconcile.js'
import { rollups } from '../src/server/timescale/rollups.js'
import { detectServer } from '../src/server/timescale/server.js'
import { communityServer, createDatabase, dropDatabase } from './databases.js'
import { instrumentCount, loadCandles, loadTickers } from './sqlData.js'

interface Check {
  readonly what: string
  readonly measured: string
  readonly wanted: string
  readonly isMet: boolean
}

/** What analysts wait for and what the disk holds, on TimescaleDB Community: in a database of its own on a server of yours. */
export async function benchSql(argv: readonly string[]): Promise<number> {
  const { values } = parseArgs({
    args: [...argv],
    options: {
      url: { type: 'string' },
      candles: { type: 'string', default: '5000000' },
      'ticker-hours': { type: 'string', default: '24' },
    },
  })
  const serverUrl = communityServer(values.url)
  const name = `recorder_bench_${randomBytes(4).toString('hex')}`
  const { database } = await createDatabase(serverUrl, name)
  try {
    const checks = await measure(database, Number(values.candles), Number(values['ticker-hours']))
    const table = new Table({ head: ['what', 'measured', 'wanted', ''], style: { head: [], border: [] } })
    for (const { what, measured, wanted, isMet } of checks)
      table.push([what, measured, wanted, isMet ? 'ok' : 'MISSED'])
    console.log(table.toString())
    return checks.every(({ isMet }) => isMet) ? 0 : 1
  } finally {
    await database.close()
    await dropDatabase(serverUrl, name)
  }
}

async function measure(database: RecorderDatabase, candles: number, tickerHours: number): Promise<Check[]> {
  const { db, pool } = database
  await migrateToLatest(database)
  await reconcile(db, { settings: storageOf(loadConfig({ env: {} })) })
  const server = await detectServer(db)
  if (server.kind !== 'timescale-community') throw new Error(`this server is ${server.kind}, not TimescaleDB Community`)
  console.log(`PostgreSQL ${server.serverVersion}, TimescaleDB ${server.timescaleVersion} Community`)
  // Everything that policies do is done here, and nothing else at the same time.
  await pool.query('select _timescaledb_functions.stop_background_workers()')

  await timed(`load ${candles} candles of ${instrumentCount} instruments`, () => loadCandles(pool, candles))
  const looseBytes = await tableBytes(pool, 'candles')
  await timed('convert them to the columnstore', () => convertAll(pool, 'candles'))
  const bytes = await tableBytes(pool, 'candles')
  await timed('roll them up', async () => {
    for (const rollup of rollups)
      await pool.query(`call refresh_continuous_aggregate('recorder.${rollup.name}', null, null)`)
  })
  await timed(`load ${tickerHours} hours of tickers of 800 instruments`, () => loadTickers(pool, tickerHours))
  await pool.query('vacuum analyze')
  // Otherwise the disk is still busy with what was loaded while queries are timed.
  await pool.query('checkpoint')

  const key = `category = 'USDT-FUTURES' and symbol = 'BENCH07USDT'`
  const rollUp = (where: string) => `
    select category, symbol, time_bucket('1 hour', open_time), first(open, open_time), max(high), min(low),
      last(close, open_time), sum(base_volume), sum(quote_turnover)
    from market.candles where type = 'market' and interval = '1m' and is_closed ${where} group by 1, 2, 3`
  const one = await ratio(pool, `select * from market.ohlcv_1h where ${key}`, rollUp(`and ${key}`), 15)
  const all = await ratio(pool, 'select * from market.ohlcv_1h', rollUp(''), 3)
  const chartMs = await median(
    () =>
      roundTripMs(
        pool,
        `select open_time, open, high, low, close, base_volume from market.candles
          where ${key} and type = 'market' and interval = '1m' order by open_time desc limit 500`,
        500,
      ),
    25,
  )
  const latest = () => roundTripMs(pool, 'select * from market.latest_tickers', 800)
  const latestMs = await median(latest, 15)
  await timed('convert the tickers to the columnstore', () => convertAll(pool, 'tickers'))
  const columnarMs = await median(latest, 5)
  const perCandle = bytes / candles
  return [
    {
      what: 'a candle in the columnstore',
      measured: `${perCandle.toFixed(1)} bytes (${(looseBytes / candles).toFixed(0)} before)`,
      wanted: '≤ 35 bytes',
      isMet: perCandle <= 35,
    },
    ratioCheck('hourly candles of one instrument: ohlcv_1h against rolling up', one, 5),
    ratioCheck('hourly candles of all instruments: ohlcv_1h against rolling up', all, 100),
    within('chart: the last 500 1m candles of one instrument', chartMs, 10),
    within(`newest ticker of all 800 instruments, over ${tickerHours} hours`, latestMs, 50),
    {
      what: 'the same with that day in the columnstore (for information)',
      measured: `${columnarMs.toFixed(1)} ms`,
      wanted: '',
      isMet: true,
    },
  ]
}

interface Ratio {
  readonly fastMs: number
  readonly slowMs: number
}

/** Planning and execution on the server. What crosses the network is the same for both. */
async function ratio(pool: pg.Pool, fast: string, slow: string, times: number): Promise<Ratio> {
  return {
    slowMs: await median(() => serverMs(pool, slow), times),
    fastMs: await median(() => serverMs(pool, fast), times * 3),
  }
}

async function serverMs(pool: pg.Pool, query: string): Promise<number> {
  const { rows } = await pool.query<{ 'QUERY PLAN': [{ 'Planning Time': number; 'Execution Time': number }] }>(
    `explain (analyze, timing off, format json) ${query}`,
  )
  const plan = rows[0]?.['QUERY PLAN'][0]
  if (plan === undefined) throw new Error('the server explained nothing')
  return plan['Planning Time'] + plan['Execution Time']
}

async function roundTripMs(pool: pg.Pool, query: string, rows: number): Promise<number> {
  const start = performance.now()
  const { rowCount } = await pool.query(query)
  if (rowCount !== rows) throw new Error(`${rowCount} rows came where there should be ${rows}: ${query}`)
  return performance.now() - start
}

async function median(measureOnce: () => Promise<number>, times: number): Promise<number> {
  // Once before it counts, to fill caches.
  await measureOnce()
  const samples: number[] = []
  for (let i = 0; i < times; i++) samples.push(await measureOnce())
  return samples.toSorted((a, b) => a - b)[Math.floor(times / 2)] ?? 0
}

function ratioCheck(what: string, { fastMs, slowMs }: Ratio, least: number): Check {
  const times = slowMs / fastMs
  return {
    what,
    measured: `${fastMs.toFixed(2)} ms : ${slowMs.toFixed(1)} ms = 1/${times.toFixed(0)}`,
    wanted: `≤ 1/${least}`,
    isMet: times >= least,
  }
}

function within(what: string, ms: number, maxMs: number): Check {
  return { what, measured: `${ms.toFixed(1)} ms`, wanted: `≤ ${maxMs} ms`, isMet: ms <= maxMs }
}

async function convertAll(pool: pg.Pool, table: string): Promise<void> {
  const { rows } = await pool.query<{ chunk: string }>(`select show_chunks('market.${table}')::text as chunk`)
  for (const { chunk } of rows) await pool.query(`call convert_to_columnstore('${chunk}', if_not_columnstore => true)`)
}

async function tableBytes(pool: pg.Pool, table: string): Promise<number> {
  const { rows } = await pool.query<{ bytes: number }>(`select hypertable_size('market.${table}') as bytes`)
  return Number(rows[0]?.bytes)
}

async function timed(what: string, work: () => Promise<unknown>): Promise<void> {
  const start = performance.now()
  await work()
  console.log(`${what}: ${((performance.now() - start) / 1000).toFixed(1)} s`)
}
