import { dayMs } from '../src/market/values.js'
import type { RecorderDatabase } from '../src/db/database.js'
import { refreshRollups } from '../src/server/timescale/rollups.js'
import { convertBefore } from './tools/database.js'

export interface GrownMarket {
  readonly symbols: readonly string[]
  /** Behind the newest rows. */
  readonly end: number
}

const instrumentCount = 100
/** Minutes that one statement inserts of each instrument. */
const minutesPerStep = 7 * 24 * 60
/** Older rows are in the columnstore: earlier than by default, so that most of a large database is. */
const rowStoreDays = 8
const fillsPerDay = 1_000_000

/** Fills a migrated database with candles and fills that end now, and their coverage; all but the newest in the columnstore. */
export async function growTo(
  database: RecorderDatabase,
  { candles, fills }: { readonly candles: number; readonly fills: number },
): Promise<GrownMarket> {
  const { pool } = database
  // Everything that policies do is done here, and nothing else at the same time.
  await pool.query('select _timescaledb_functions.stop_background_workers()')
  const symbols = Array.from({ length: instrumentCount }, (_, index) => `GROWN${String(index).padStart(2, '0')}USDT`)
  const end = Math.floor(Date.now() / dayMs) * dayMs
  await pool.query(
    `insert into market.instruments (category, symbol, kind, first_seen_at, updated_at)
      select category::market.category, symbol, 'crypto', now(), now() from unnest($1::text[]) as symbol, unnest('{SPOT,USDT-FUTURES}'::text[]) as category`,
    [symbols],
  )
  const startedAt = performance.now()
  const minutes = Math.ceil(candles / instrumentCount)
  for (let done = 0; done < minutes; done += minutesPerStep) {
    const from = end - (minutes - done) * 60_000
    const to = Math.min(end, from + minutesPerStep * 60_000)
    await run(
      database,
      `insert into market.candles
        select 'USDT-FUTURES', s, 'market', '1m', t, p, p + 0.31, p - 0.27, p + 0.02, v, round(v * p, 6), true
        from unnest($1::text[]) as s cross join generate_series($2::timestamptz, $3::timestamptz - interval '1 minute', interval '1 minute') as t
        cross join lateral (select round((1000 + random() * 5)::numeric, 2) as p, round((random() ^ 3 * 40)::numeric, 4) as v) as noise`,
      [symbols, new Date(from), new Date(to)],
    )
    await refreshRollups(database.db, [{ from, to }])
    await convertBefore(pool, to - rowStoreDays * dayMs, 'candles')
  }
  const days = fills / fillsPerDay
  const fillsFrom = end - days * dayMs
  for (let from = fillsFrom; from < end; from += dayMs) {
    const to = Math.min(end, from + dayMs)
    await run(
      database,
      `insert into market.fills (category, symbol, exec_id, price, size, side, ts, received_at, extra)
        select 'SPOT', s, (extract(epoch from t) * 1000)::bigint::text, round((1000 + random() * 5)::numeric, 2),
          round((random() ^ 3 * 4)::numeric, 4), case when random() < 0.5 then 'buy' else 'sell' end::market.side, t, t + interval '1 second', '{}'
        from unnest($1::text[]) as s
        cross join generate_series($2::timestamptz, $3::timestamptz - interval '1 millisecond', $4::interval) as t`,
      [symbols, new Date(from), new Date(to), `${(dayMs * instrumentCount) / fillsPerDay} milliseconds`],
    )
    await convertBefore(pool, to - 2 * dayMs, 'fills')
  }
  for (const [stream, category, from] of [
    ['candles', 'USDT-FUTURES', end - minutes * 60_000],
    ['fills', 'SPOT', fillsFrom],
  ] as const)
    await pool.query(
      `insert into recorder.ledger (stream, category, symbol, type, interval, verdict, ranges)
        select $1, $2::market.category, s, $3, $4, 'recorded', tstzmultirange(tstzrange($5, $6)) from unnest($7::text[]) as s`,
      [
        stream,
        category,
        stream === 'candles' ? 'market' : '',
        stream === 'candles' ? '1m' : '',
        new Date(from),
        new Date(end),
        symbols,
      ],
    )
  // Both databases have equal tickers, because their number does not grow with the other rows.
  await run(
    database,
    `insert into market.tickers (category, symbol, ts, last_price, received_at)
      select 'SPOT', s, t, 1000, t from unnest($1::text[]) as s
      cross join generate_series($2::timestamptz - interval '1 hour', $2::timestamptz - interval '1 second', interval '5 seconds') as t`,
    [symbols, new Date(end)],
  )
  await pool.query('vacuum analyze')
  await pool.query('checkpoint')
  const seconds = ((performance.now() - startedAt) / 1000).toFixed(0)
  console.log(`${candles} candles and ${fills} fills of ${instrumentCount} instruments each: made in ${seconds} s`)
  return { symbols, end }
}

async function run({ pool }: RecorderDatabase, statement: string, values: readonly unknown[]): Promise<void> {
  const client = await pool.connect()
  try {
    await client.query('set synchronous_commit = off')
    await client.query(statement, [...values])
  } finally {
    client.release(true)
  }
}
