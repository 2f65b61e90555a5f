import { type Kysely, sql } from 'kysely'
import { expect } from 'vitest'
import { type CandleSeries, filledBy, intervalMs } from '../../src/market/candle.js'
import { type TimeRange, union } from '../../src/market/timeRange.js'
import type { TimeMs } from '../../src/market/values.js'
import { repairFutures as wantMissing, repairOf } from '../../src/history/repairs.js'
import { type BackfillRequest, planSeries, resolveRequest, wantsOf } from '../../src/history/request.js'
import { summarize, type Summary } from '../../src/cli/backfillWork.js'
import { readProgress } from '../../src/history/progress.js'
import { OperationStates } from '../../src/history/reach.js'
import { HistoryWorker } from '../../src/history/worker.js'
import { createExchangeClient, type ExchangeClient, type ExchangeOptions } from '../../src/exchange/client.js'
import { operations } from '../../src/market/operation.js'
import { type Clock, systemClock } from '../../src/runtime/clock.js'
import { Incidents } from '../../src/runtime/incidents.js'
import { createLogger } from '../../src/runtime/logger.js'
import type { Simulator } from '../../src/simulator/server.js'
import type { Database } from '../../src/db/schema.js'
import { candleStream, type Series } from '../../src/db/series.js'
import { insertWants } from '../../src/ledger/wants.js'
import { coveredRanges } from './coverage.js'
import { believing } from './fakeService.js'
import { noTradeRanges } from './noTradeRanges.js'
import type { InstrumentSummary } from '../../src/ledger/read/instruments.js'
import type { TestDatabase } from './database.js'
import { TestRight } from './rights.js'

export const settleMs = 5_000

/** A client of the simulator, with its limits multiplied. */
export function clientOf(url: string, factor: number, more: Partial<ExchangeOptions> = {}) {
  const perSecond = Object.fromEntries(
    operations.map((operation) => [operation, (operation.startsWith('rpi') ? 10 : 20) * factor]),
  ) as ExchangeOptions['limits']['perSecond']
  return createExchangeClient(new TestRight(), {
    clock: systemClock,
    logger: createLogger('silent'),
    baseUrl: url,
    // Requests are counted: what a busy machine serves late is asked for once.
    timeoutMs: 60_000,
    maxConnections: 64,
    latencyJitterMs: 50,
    limits: { overallPerMinute: 6_000 * factor, perSecond },
    retry: { attempts: 3, minDelayMs: 20, maxDelayMs: 200, totalMs: 120_000 },
    serviceClock: believing,
    ...more,
  })
}

/** Sleeps for a tenth of what it is told. A worker's looks and second requests would take most of the time of its tests. */
const hurriedClock: Clock = { ...systemClock, sleep: (ms, signal) => systemClock.sleep(ms / 10, signal) }

/** Starts a worker of the history, beside which no candles are recorded. */
export function startWorker(
  { database: { db } }: TestDatabase,
  client: ExchangeClient,
  more: Partial<ConstructorParameters<typeof HistoryWorker>[0]> = {},
): HistoryWorker {
  const logger = createLogger('silent')
  const incidents = new Incidents(logger, systemClock)
  const states = new OperationStates(systemClock)
  const given = {
    db,
    client,
    settleMs,
    clock: hurriedClock,
    serviceNow: () => Date.now(),
    logger,
    incidents,
    states,
  }
  return new HistoryWorker({ ...given, ...more })
}

/** The simulated instruments as the recorder's own tables would list them. */
function instrumentsOf(simulator: Simulator): InstrumentSummary[] {
  return simulator.world.listings().map(({ category, symbol, launchTime, offTime, limitOpenTime, isReality }) => ({
    category,
    symbol,
    status: 'online',
    launchTime,
    offTime,
    limitOpenTime,
    isReality,
    symbolType: 'crypto',
  }))
}

export interface Backfilled {
  readonly summary: Summary
  /** Candle requests that the simulator counted. */
  readonly requests: number
}

/** Plans a request, wants what is missing and works on it until it is done. */
export async function runBackfill(
  test: TestDatabase,
  simulator: Simulator,
  request: BackfillRequest,
  options: {
    readonly serviceNow: number
    readonly again?: boolean
    readonly factor?: number
    readonly launchTime?: number
  },
): Promise<Backfilled> {
  const { again = false, factor = 100, serviceNow, launchTime } = options
  const listed = instrumentsOf(simulator).map((one) => (launchTime === undefined ? one : { ...one, launchTime }))
  const { db } = test.database
  const client = clientOf(simulator.url, factor)
  const before = candleRequests(simulator)
  const worker = startWorker(test, client)
  try {
    const { series } = resolveRequest(request, listed, serviceNow, settleMs)
    const planned = await planSeries(db, series, { again })
    const ids = await insertWants(db, wantsOf(planned, { kind: 'backfill', again }))
    for (;;) {
      const { wants, wantsEnded } = await readProgress(db, ids)
      if (wants === wantsEnded) {
        const open = planned.filter(({ missing }) => missing.length > 0)
        return {
          summary: await summarize(db, open, ids),
          requests: candleRequests(simulator) - before,
        }
      }
      await systemClock.sleep(50)
    }
  } finally {
    await worker.stop()
    client.close()
  }
}

function candleRequests(simulator: Simulator): number {
  return Object.values(simulator.control.report()).reduce(
    (sum, source) => sum + source.operations.candles.requests + source.operations['history-candles'].requests,
    0,
  )
}

type CandleText = string[]

/** The closed candles that exist in a range, as the simulator's market has them. */
export function trueCandles(
  simulator: Simulator,
  series: CandleSeries,
  { from, to }: TimeRange,
  at: number,
): CandleText[] {
  const length = intervalMs[series.interval]
  return simulator.world
    .candles(series, from, to, at)
    .filter(([openTime]) => Number(openTime) + length + settleMs <= at)
    .map((row) => [...row])
}

/** The closed candles of a series that are stored. */
export async function storedCandles(test: TestDatabase, series: CandleSeries): Promise<CandleText[]> {
  const { rows } = await test.database.pool.query<string[]>({
    text: `select (extract(epoch from open_time) * 1000)::bigint::text, open::text, high::text, low::text, close::text,
        base_volume::text, quote_turnover::text
      from market.candles
      where category = $1 and symbol = $2 and type = $3 and interval = $4 and is_closed order by open_time`,
    values: [series.category, series.symbol, series.type, series.interval],
    rowMode: 'array',
  })
  return rows
}

/** Reads the ranges that the stored candles allow to claim, and those that are claimed. */
export async function claims(test: TestDatabase, series: CandleSeries) {
  const stored = await storedCandles(test, series)
  const openTimes = stored.map(([openTime]) => Number(openTime))
  return {
    allowed: union(filledBy(openTimes, intervalMs[series.interval]), await noTradeRanges(test.database.db, series)),
    claimed: await coveredRanges(test.database.db, candleStream(series)),
  }
}

/** Has what is missing of a stream of futures wanted and fetched, by a recorder whose clock stands at `now`. */
export async function repairFutures(
  test: TestDatabase,
  simulator: Simulator,
  name: 'funding_rates' | 'liquidations',
  now: () => TimeMs,
): Promise<void> {
  const { db, pool } = test.database
  const client = clientOf(simulator.url, 100)
  const streams = [{ name, keptMs: null }] as const
  const worker = startWorker(test, client, { settleMs: 0 })
  await wantMissing({ db, streams, isOwn: () => true, states: new OperationStates(systemClock) }, now())
  const wants = async (condition: string) =>
    (await pool.query(`select from recorder.want where stream = $1 and ${condition}`, [name])).rowCount
  await expect.poll(() => wants('true')).not.toBe(0)
  await expect.poll(() => wants('ended_at is null')).toBe(0)
  await worker.stop()
  client.close()
}

/** Notes repairs of ranges that have just ended and filled nothing. */
export async function repairInVain(
  db: Kysely<Database>,
  series: Series,
  ranges: readonly TimeRange[],
  times: number,
): Promise<void> {
  for (let attempt = 0; attempt < times; attempt++) {
    const ids = await insertWants(db, [repairOf(series, ranges)])
    await db
      .updateTable('recorder.want')
      .set(({ fn }) => ({ ended_at: fn('now') }))
      .where('id', 'in', ids)
      .execute()
  }
}

/** Reads the ranges of an instrument that are wanted and not requested yet, ascending. */
export async function wantedRanges(db: Kysely<Database>, symbol: string): Promise<TimeRange[]> {
  const { rows } = await sql<TimeRange>`
    select lower(r) as "from", upper(r) as "to" from recorder.want cross join lateral unnest(ranges) as r
    where ended_at is null and symbol = ${symbol} order by 1`.execute(db)
  return rows
}
