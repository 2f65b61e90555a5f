import { sql } from 'kysely'
import { pino } from 'pino'
import { createStats } from '../../src/collect/streams/stream.js'
import { loadConfig } from '../../src/config/resolve.js'
import type { RecorderDatabase } from '../../src/db/database.js'
import { operations } from '../../src/market/operation.js'
import { systemClock } from '../../src/runtime/clock.js'
import { createMetrics } from '../../src/runtime/metrics.js'
import { startServer } from '../../src/serve/server.js'
import type { RecorderSource } from '../../src/serve/source.js'
import { withDatabase } from '../tools/database.js'

interface Size {
  readonly instruments: number
  readonly days: number
}

/** Serves a database with so many instruments and, of the first, a 1m candle for each minute of so many days. */
export async function withMarket<Result>(size: Size, measure: (url: string) => Promise<Result>): Promise<Result> {
  return withDatabase(async ({ url, database }) => {
    await fill(database, size)
    const server = await servePage(url)
    try {
      return await measure(server.url)
    } finally {
      await server.close()
    }
  })
}

/** The page of a recorder that records nothing. */
export async function servePage(databaseUrl: string) {
  const logger = pino({ level: 'silent' })
  const config = loadConfig({ env: {} })
  config.serve.port = 0
  const source: RecorderSource = {
    egress: 'bench',
    startedAt: Date.now(),
    spoolMaxBytes: 1,
    streams: createStats(),
    serviceNow: () => null,
    phase: () => 'waiting',
    incidents: () => [],
    backlog: () => noBacklog,
    budget: () => unusedBudget,
    maySend: () => true,
    fleet: () => ({ version: 1, unowned: 0, recorders: [] }),
    backfills: () => Promise.resolve([]),
  }
  const metrics = createMetrics({ version: 'bench' })
  return startServer({ config, source, metrics, databaseUrl, version: 'bench', logger, clock: systemClock })
}

async function fill({ db }: RecorderDatabase, { instruments, days }: Size): Promise<void> {
  await sql`
    insert into market.instruments (category, symbol, base_coin, quote_coin, status, kind, price_precision, first_seen_at, updated_at)
    select 'USDT-FUTURES', 'COIN' || lpad(i::text, 4, '0') || 'USDT', 'COIN' || i, 'USDT', 'online', 'crypto', 2, now(), now()
    from generate_series(0, ${instruments - 1}::int) as i`.execute(db)
  await sql`
    insert into market.candles
    select 'USDT-FUTURES', 'COIN0000USDT', 'market', '1m', t, 100 + sin(i), 103 + sin(i), 98 + sin(i), 101 + sin(i),
      (5 + cos(i))::numeric, 500, true
    from generate_series(date_trunc('minute', now()) - make_interval(days => ${days}), now(), '1 minute')
      with ordinality as g (t, i)`.execute(db)
  // Each instrument has some candles, tickers and books of the last hour, and a year that is covered but for a gap.
  await sql`
    insert into market.candles
    select i.category, i.symbol, 'market', '1m', t, 1, 2, 1, 2, 1, 1, true
    from market.instruments i
    cross join generate_series(date_trunc('minute', now()) - interval '1 hour', now(), '1 minute') as t
    where i.symbol <> 'COIN0000USDT'`.execute(db)
  await sql`
    insert into market.tickers (category, symbol, ts, last_price, bid1_price, ask1_price, turnover_24h, funding_rate, received_at)
    select category, symbol, t, 100, 99.9, 100.1, case when symbol = 'COIN0000USDT' then 1e9 else 1 end, 0.0001, t
    from market.instruments cross join lateral generate_series(now() - interval '1 hour', now(),
      case when symbol = 'COIN0000USDT' then interval '5 seconds' else interval '1 minute' end) as t`.execute(db)
  await sql`
    insert into market.order_books (category, symbol, ts, bid_prices, bid_sizes, ask_prices, ask_sizes, received_at)
    select category, symbol, now(), array(select 100 - n * 0.1 from generate_series(1, 50) n),
      array_fill(1.5, array[50]), array(select 100 + n * 0.1 from generate_series(1, 50) n), array_fill(2.5, array[50]), now()
    from market.instruments`.execute(db)
  await sql`
    insert into recorder.ledger (stream, category, symbol, type, interval, verdict, ranges)
    select 'candles', category, symbol, 'market', '1m', 'recorded', tstzmultirange(
      tstzrange(now() - make_interval(days => ${days}), now() - interval '10 days'),
      tstzrange(now() - interval '9 days', now()))
    from market.instruments`.execute(db)
  await sql`analyze`.execute(db)
}

const noBacklog = { batches: 0, rows: 0, oldestReceivedAt: null, spooledBytes: 0, isSpooling: false }

const noneWaiting = { count: 0, oldestWaitMs: 0, overdueMs: 0 }

const unusedBudget: ReturnType<RecorderSource['budget']> = {
  waiting: { live: noneWaiting, repair: noneWaiting, backfill: noneWaiting },
  operations: Object.fromEntries(operations.map((name) => [name, { used: 0, limit: 20 }])) as unknown as ReturnType<
    RecorderSource['budget']
  >['operations'],
  overall: { used: 0, limit: 6000 },
  inFlight: 0,
  pausedMs: 0,
  rate: 1,
}
