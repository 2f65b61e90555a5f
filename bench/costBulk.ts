import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { from as copyFrom } from 'pg-copy-streams'
import { pino } from 'pino'
import { CandleWriter } from '../src/history/candleWriter.js'
import { loadConfig, storageOf } from '../src/config/resolve.js'
import { systemClock as clock } from '../src/runtime/clock.js'
import { snakeCase } from '../src/db/columns.js'
import { openDatabase, type RecorderDatabase } from '../src/db/database.js'
import { migrateToLatest } from '../src/db/migrate.js'
import { reconcile } from '../src/server/timescale/reconcile.js'
import { startEmbeddedPostgres } from '../src/server/embedded/embedded.js'
import { candlePage, candlesOfPage } from './costRows.js'
import { type Check, median } from './figures.js'

const symbols = ['AUSDT', 'BUSDT'] as const
const pages = 60
const someTime = Date.UTC(2025, 0, 1)
const logger = pino({ level: 'silent' })

/**
 * Candles of the past, two series at once on a connection each, with coverage, revisions and everything, against COPY of the same
 * rows as text into the same table on one connection. On the database that `BENCH_DATABASE_URL` names, or the embedded one.
 */
export async function measureBulk(rounds: number): Promise<Check[]> {
  const folder = await mkdtemp(join(tmpdir(), 'market-recorder-bench-bulk-'))
  const given = process.env['BENCH_DATABASE_URL']
  const server = given === undefined ? await startEmbeddedPostgres({ dataDir: join(folder, 'postgres') }) : undefined
  const database = openDatabase({ url: given ?? server?.url ?? '', poolSize: symbols.length })
  try {
    await migrateToLatest(database)
    // Hypertables where the server has them.
    await reconcile(database.db, { settings: storageOf(loadConfig({ env: {} })) })
    const ratios: number[] = []
    for (let round = 0; round < rounds; round++) {
      const copied = await rowsPerSecond(database, copyAll)
      const written = await rowsPerSecond(database, writeAll)
      console.log(`candles a second: COPY ${copied.toFixed(0)}, two writers ${written.toFixed(0)}`)
      ratios.push(written / copied)
    }
    const ratio = median(ratios)
    const what = 'candles of the past on two connections, against COPY on one'
    return [{ what, measured: ratio.toFixed(2), target: '>= 0.65', isMet: ratio >= 0.65 }]
  } finally {
    await database.close()
    await server?.stop()
    await rm(folder, { recursive: true, force: true })
  }
}

async function rowsPerSecond(database: RecorderDatabase, store: (database: RecorderDatabase) => Promise<void>) {
  await database.pool.query('truncate market.candles, recorder.known')
  await database.pool.query('checkpoint').catch(() => undefined)
  const startedMs = performance.now()
  await store(database)
  const rate = (symbols.length * pages * candlesOfPage * 1000) / (performance.now() - startedMs)
  const { rows } = await database.pool.query<{ count: number }>('select count(*) as count from market.candles')
  if (rows[0]?.count !== symbols.length * pages * candlesOfPage)
    throw new Error(`${rows[0]?.count} candles were stored`)
  return rate
}

async function writeAll({ db }: RecorderDatabase): Promise<void> {
  const { signal } = new AbortController()
  await Promise.all(
    symbols.map(async (symbol) => {
      const series = { category: 'USDT-FUTURES', symbol, type: 'market', interval: '1m' } as const
      const writer = new CandleWriter(db, { series, clock, logger, signal })
      for (let page = pages - 1; page >= 0; page--) {
        const candles = candlePage(symbol, page, someTime)
        await writer.add({ candles, silence: [], rejected: [], requestTime: someTime, receivedAt: someTime })
      }
      await writer.finish()
    }),
  )
}

const fields = [
  'category',
  'symbol',
  'type',
  'interval',
  'openTime',
  'open',
  'high',
  'low',
  'close',
  'baseVolume',
  'quoteTurnover',
  'isClosed',
] as const

async function copyAll({ pool }: RecorderDatabase): Promise<void> {
  const lines: string[] = []
  for (const symbol of symbols) {
    for (let page = 0; page < pages; page++) {
      const texts = candlePage(symbol, page, someTime).map((candle) =>
        fields
          .map((field) => (field === 'openTime' ? new Date(candle[field]).toISOString() : candle[field]))
          .join('\t'),
      )
      lines.push(`${texts.join('\n')}\n`)
    }
  }
  const client = await pool.connect()
  try {
    const columns = fields.map(snakeCase).join(', ')
    await pipeline(Readable.from(lines), client.query(copyFrom(`copy market.candles (${columns}) from stdin`)))
  } finally {
    client.release()
  }
}
