import type { Candle } from '../src/market/candle.js'
import type { Fill } from '../src/market/fill.js'
import type { OrderBook, RpiOrderBook } from '../src/market/orderBook.js'
import { type Ticker, tickerFields } from '../src/market/ticker.js'
import { minuteMs } from '../src/market/values.js'
import type { StreamName } from '../src/market/stream.js'
import type { Batch } from '../src/ledger/batch/batch.js'
import { storeBatch } from '../src/ledger/batch/storeBatch.js'
import type { RecorderDatabase } from '../src/db/database.js'
import type { Check } from './figures.js'
import { withQuietDatabase } from './quietDatabase.js'

const someTime = Date.UTC(2026, 0, 15, 12)
const instruments = 200
const rounds = 10

interface Load {
  readonly stream: StreamName
  readonly what: string
  readonly table: string
  /** What comes in one round. */
  batches(round: number): Batch[]
}

const symbolOf = (index: number) => `N${String(index).padStart(3, '0')}USDT`

const loads: readonly Load[] = [
  {
    stream: 'tickers',
    what: 'tickers',
    table: 'tickers',
    batches: (round) => [
      batchOf('tickers', { category: 'SPOT' }, round * 5_000, [...Array(instruments).keys()].map(tickerAt(round))),
    ],
  },
  {
    stream: 'order_books',
    what: 'order books, 50 levels a side',
    table: 'order_books',
    batches: (round) =>
      perInstrument('order_books', round * 10_000, (symbol) => [bookOf(symbol, someTime + round * 10_000)]),
  },
  {
    stream: 'rpi_order_books',
    what: 'RPI order books, 50 levels a side',
    table: 'rpi_order_books',
    batches: (round) =>
      perInstrument('rpi_order_books', round * 30_000, (symbol) => [rpiBookOf(symbol, someTime + round * 30_000)]),
  },
  {
    stream: 'fills',
    what: 'fills, half of each page known',
    table: 'fills',
    batches: (round) => perInstrument('fills', round * 5_000 + 10_000, (symbol) => fillsOf(symbol, round)),
  },
  {
    stream: 'candles',
    what: 'candles, polled each minute with the forming one',
    table: 'candles',
    batches: (round) =>
      perInstrument('candles', (round + 2) * minuteMs + 5_000, (symbol) =>
        [0, 1, 2].map((offset) => candleOf(symbol, round + offset, offset < 2)),
      ).map((batch) => ({
        ...batch,
        target: { ...(batch.target as object), type: 'market', interval: '1m', limit: 3, settleMs: 5_000 },
      })),
  },
]

/** What a row costs the database, stream by stream: WAL, index, and what VACUUM has to clear away. */
export async function measureDatabase(): Promise<Check[]> {
  return withQuietDatabase(async (database) => {
    const checks: Check[] = []
    for (const load of loads) checks.push(await costOf(database, load))
    return checks
  })
}

async function costOf({ db, pool }: RecorderDatabase, load: Load): Promise<Check> {
  const { what, table } = load
  // The first round after a checkpoint writes whole pages, and fills catalogues and caches.
  for (const batch of load.batches(0)) await storeBatch(db, batch)
  const before = await look(pool, table)
  for (let round = 1; round <= rounds; round++) for (const batch of load.batches(round)) await storeBatch(db, batch)
  const after = await look(pool, table)
  const rows = after.inserted - before.inserted
  const perRow = (from: number, to: number) => ((to - from) / rows).toFixed(0)
  const updated = after.updated - before.updated
  const hot =
    updated === 0
      ? ''
      : `, ${(updated / rows).toFixed(2)} updates a row, ${percent(after.hot - before.hot, updated)} of them HOT`
  return {
    what: `database: ${what}`,
    measured: `${perRow(before.wal, after.wal)} bytes of WAL a row, ${perRow(before.heap, after.heap)} of table, ${perRow(before.index, after.index)} of index${hot}`,
    target: '',
    isMet: true,
  }
}

interface Sizes {
  readonly wal: number
  readonly heap: number
  readonly index: number
  readonly inserted: number
  readonly updated: number
  readonly hot: number
}

async function look(pool: RecorderDatabase['pool'], table: string): Promise<Sizes> {
  // Counts of sessions that are idle arrive within a second.
  const client = await pool.connect()
  try {
    await client.query('select pg_stat_force_next_flush()')
    await new Promise((resolve) => {
      setTimeout(resolve, 1_500)
    })
    const { rows } = await client.query<Sizes>(
      `select (pg_current_wal_insert_lsn() - '0/0')::float8 as wal, pg_relation_size(relid)::float8 as heap,
         pg_indexes_size(relid)::float8 as index, n_tup_ins::float8 as inserted, n_tup_upd::float8 as updated,
         n_tup_hot_upd::float8 as hot
       from pg_stat_user_tables where schemaname = 'market' and relname = $1`,
      [table],
    )
    return rows[0] as Sizes
  } finally {
    client.release()
  }
}

function percent(part: number, whole: number): string {
  return `${Math.round((part / whole) * 100)} %`
}

function batchOf(stream: StreamName, target: object, afterMs: number, rows: readonly unknown[]): Batch {
  const at = someTime + afterMs
  const nothing = { rejected: [], proven: [], gaps: [], isPart: false }
  return { stream, target, requestTime: at, receivedAt: at, rows, ...nothing }
}

function perInstrument(stream: StreamName, afterMs: number, rowsOf: (symbol: string) => readonly unknown[]): Batch[] {
  return Array.from({ length: instruments }, (_, index) => {
    const symbol = symbolOf(index)
    return batchOf(stream, { category: 'SPOT', symbol, depth: 50 }, afterMs, rowsOf(symbol))
  })
}

function tickerAt(round: number) {
  const ts = someTime + round * 5_000
  const values = Object.fromEntries(
    Object.entries(tickerFields).map(([name, kind]) => [
      name,
      kind === 'decimal' ? `${60_000 + round}.${name.length}5` : null,
    ]),
  )
  return (index: number): Ticker =>
    ({ category: 'SPOT', symbol: symbolOf(index), ts, receivedAt: ts, extra: {}, ...values }) as Ticker
}

function bookOf(symbol: string, ts: number): OrderBook {
  const levels = (from: number, step: number) =>
    Array.from({ length: 50 }, (_, level) => (from + level * step).toFixed(2))
  const [bidSizes, askSizes] = [levels(1.05, 0.11), levels(2.1, 0.07)]
  const [bidPrices, askPrices] = [levels(60_000, -0.1), levels(60_000.1, 0.1)]
  return { category: 'SPOT', symbol, ts, bidPrices, bidSizes, askPrices, askSizes, receivedAt: ts, extra: {} }
}

function rpiBookOf(symbol: string, ts: number): RpiOrderBook {
  const book = bookOf(symbol, ts)
  return { ...book, bidRpiSizes: book.askSizes, askRpiSizes: book.bidSizes }
}

function fillsOf(symbol: string, round: number): Fill[] {
  return Array.from({ length: 100 }, (_, index): Fill => {
    const number = round * 50 + index
    const ts = someTime + number * 100
    const fixed = { execLinkId: null, isRpi: null, receivedAt: ts, extra: {}, category: 'SPOT' } as const
    return { ...fixed, symbol, ts, execId: String(number), side: 'buy', price: '60000.5', size: `0.0${number % 97}` }
  })
}

function candleOf(symbol: string, minute: number, isClosed: boolean): Candle {
  const volume = isClosed ? `${minute}.5` : `${minute}.25`
  return {
    ...({ category: 'SPOT', symbol, type: 'market', interval: '1m' } as const),
    openTime: someTime + minute * minuteMs,
    open: '60000.1',
    high: '60010.2',
    low: '59990.3',
    close: '60001.4',
    baseVolume: volume,
    quoteTurnover: volume,
    isClosed,
  }
}
