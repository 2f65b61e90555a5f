import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { from as copyFrom } from 'pg-copy-streams'
import { pino } from 'pino'
import { snakeCase } from '../../src/db/columns.js'
import type { RecorderDatabase } from '../../src/db/database.js'
import { CandleWriter } from '../../src/history/candleWriter.js'
import { systemClock as clock } from '../../src/runtime/clock.js'
import { atLeast, type Check, median } from '../tools/checks.js'
import { withDatabase } from '../tools/database.js'
import { candlePage, candlesOfPage } from './rows.js'

const symbols = ['AUSDT', 'BUSDT'] as const
const pages = 60
const someTime = Date.UTC(2025, 0, 1)
const logger = pino({ level: 'silent' })

/**
 * Candles of the past, two series at once on a connection each, with coverage, revisions and everything. They are
 * compared with COPY of the same rows as text into the same table on one connection.
 */
export async function measureBulk(rounds: number): Promise<Check[]> {
  return withDatabase(
    async ({ database }) => {
      const ratios: number[] = []
      for (let round = 0; round < rounds; round++) {
        const copied = await rowsPerSecond(database, copyAll)
        const written = await rowsPerSecond(database, writeAll)
        console.log(`candles a second: COPY ${copied.toFixed(0)}, two writers ${written.toFixed(0)}`)
        ratios.push(written / copied)
      }
      return [atLeast('candles of the past on two connections, against COPY on one', median(ratios), 0.65)]
    },
    { poolSize: symbols.length },
  )
}

async function rowsPerSecond(database: RecorderDatabase, store: (database: RecorderDatabase) => Promise<void>) {
  await database.pool.query('truncate market.candles, recorder.ledger')
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
