import { dayMs, hourMs } from '../../src/market/values.js'
import type { RecorderDatabase } from '../../src/db/database.js'
import { convertBefore } from '../tools/database.js'

export interface PastSize {
  readonly candles: number
  /** Chunks of order books, besides those of the other tables. */
  readonly bookChunks: number
}

const instruments = 800
const candlesPerDay = instruments * 1440
const bookChunkMs = 6 * hourMs
/** Instruments that have a book in each old chunk. */
const oldBooks = 100
/** Newer chunks stay in the row store, as those of a recorder do. */
const rowStoreMs = 2 * dayMs

/** The instrument whose page is opened. */
export const shown = 'category=USDT-FUTURES&symbol=PAST000USDT'

/** Stores the instruments with a day of candles and an hour of all else, which end now. Resolves to that moment. */
export async function storeNewestDay({ pool }: RecorderDatabase): Promise<number> {
  // All that policies do is done here.
  await pool.query('select _timescaledb_functions.stop_background_workers()')
  const end = Math.floor(Date.now() / 60_000) * 60_000
  const newest = [new Date(end - hourMs), new Date(end)]
  await pool.query(
    `insert into market.instruments (category, symbol, base_coin, quote_coin, status, kind, price_precision, first_seen_at, updated_at)
      select 'USDT-FUTURES', 'PAST' || lpad(i::text, 3, '0') || 'USDT', 'PAST' || i, 'USDT', 'online', 'crypto', 2, now(), now()
      from generate_series(0, $1::int - 1) as i`,
    [instruments],
  )
  await storeCandles(pool, end - dayMs, end)
  await pool.query(
    `insert into market.tickers (category, symbol, ts, last_price, bid1_price, ask1_price, turnover_24h, funding_rate, received_at)
      select category, symbol, t, 100, 99.9, 100.1, 1, 0.0001, t from market.instruments
      cross join generate_series($1::timestamptz, $2::timestamptz, interval '1 minute') as t`,
    newest,
  )
  await storeBooks(pool, newest, instruments, '10 minutes')
  await pool.query(
    `insert into market.fills (category, symbol, ts, exec_id, side, price, size, received_at)
      select category, symbol, t, t::text, 'buy', 100, 1.5, t from market.instruments
      cross join generate_series($1::timestamptz, $2::timestamptz, interval '20 seconds') as t`,
    newest,
  )
  await storeClaims(pool, end - dayMs, end)
  return end
}

/** Instruments whose past the calls show. */
const shownInstruments = 12

/** Stores the past that the calls show, and no other, so that results are equal with and without a past behind them. */
export async function storeShownPast({ pool }: RecorderDatabase, end: number, size: PastSize): Promise<void> {
  const [from, before] = [end - dayMs - daysOf(size) * dayMs, end - dayMs]
  await storeCandles(pool, from, before, shownInstruments)
  await storeClaims(pool, from, before)
}

/** Stores the past before the newest day: candles, a year of books, and its fills and tickers. Old chunks are converted. */
export async function storePast({ pool }: RecorderDatabase, end: number, size: PastSize): Promise<void> {
  const before = end - dayMs
  const days = daysOf(size)
  for (let from = before - days * dayMs; from < before; from += dayMs) {
    await storeCandles(pool, from, Math.min(from + dayMs, before))
  }
  const year = [new Date(before - size.bookChunks * bookChunkMs), new Date(before)]
  await storeBooks(pool, year, oldBooks, '6 hours')
  await pool.query(
    `insert into market.fills (category, symbol, ts, exec_id, side, price, size, received_at)
      select category, symbol, t, t::text, 'buy', 100, 1.5, t
      from (select * from market.instruments order by symbol limit 20) i
      cross join generate_series($1::timestamptz, $2::timestamptz, interval '1 hour') as t`,
    year,
  )
  await pool.query(
    `insert into market.tickers (category, symbol, ts, last_price, bid1_price, ask1_price, turnover_24h, received_at)
      select category, symbol, t, 100, 99.9, 100.1, 1, t
      from (select * from market.instruments order by symbol limit 20) i
      cross join generate_series($1::timestamptz, $2::timestamptz, interval '1 hour') as t`,
    year,
  )
  await storeClaims(pool, before - days * dayMs, before)
  await convertBefore(pool, end - rowStoreMs)
}

/** Refreshes rollups and statistics, and resolves to how many candles and chunks there are. */
export async function finish({ pool }: RecorderDatabase): Promise<{ candles: number; chunks: number }> {
  for (const width of ['5m', '15m', '1h', '4h', '1d'])
    await pool.query(`call public.refresh_continuous_aggregate('recorder.ohlcv_${width}', null, now())`)
  await pool.query('vacuum analyze')
  await pool.query('checkpoint')
  const { rows } = await pool.query<{ candles: string; chunks: string }>(
    `select (select count(*) from market.candles) as candles,
      (select count(*) from timescaledb_information.chunks where hypertable_schema = 'market') as chunks`,
  )
  return { candles: Number(rows[0]?.candles), chunks: Number(rows[0]?.chunks) }
}

type Pool = RecorderDatabase['pool']

function daysOf({ candles }: PastSize): number {
  return Math.ceil(candles / candlesPerDay)
}

async function storeCandles(pool: Pool, from: number, to: number, count = instruments): Promise<void> {
  await pool.query(
    `insert into market.candles
      select i.category, i.symbol, 'market', '1m', t, p, p + 0.31, p - 0.27, p + 0.02, v, round(v * p, 6), true
      from (select * from market.instruments order by symbol limit $3) i
      cross join generate_series($1::timestamptz, $2::timestamptz - interval '1 minute', interval '1 minute') as t
      cross join lateral (select 1000 + extract(minute from t) / 10 as p, 5 + extract(minute from t) / 100 as v) as made`,
    [new Date(from), new Date(to), count],
  )
}

async function storeBooks(pool: Pool, range: readonly Date[], count: number, every: string): Promise<void> {
  await pool.query(
    `insert into market.order_books (category, symbol, ts, bid_prices, bid_sizes, ask_prices, ask_sizes, received_at)
      select i.category, i.symbol, t, b.prices, b.sizes, a.prices, b.sizes, t
      from (select * from market.instruments order by symbol limit $3) i
      cross join generate_series($1::timestamptz, $2::timestamptz, $4::interval) as t
      cross join (select array_agg(100 - n * 0.1 order by n) as prices, array_fill(1.5, array[50]) as sizes
        from generate_series(1, 50) n) b
      cross join (select array_agg(100 + n * 0.1 order by n) as prices from generate_series(1, 50) n) a`,
    [...range, count, every],
  )
}

async function storeClaims(pool: Pool, from: number, to: number): Promise<void> {
  await pool.query(
    `insert into recorder.ledger as k (stream, category, symbol, type, interval, verdict, ranges)
      select 'candles', category, symbol, 'market', '1m', 'recorded', tstzmultirange(tstzrange($1, $2))
      from market.instruments
      on conflict (stream, category, symbol, type, interval, verdict, part) do update set ranges = k.ranges + excluded.ranges`,
    [new Date(from), new Date(to)],
  )
}
