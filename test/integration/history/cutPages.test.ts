import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { falseFillClaims } from '../../simulation/claims.js'
import type { Operation } from '../../../src/market/operation.js'
import { dayMs, hourMs } from '../../../src/market/values.js'
import { type Simulator, startSimulator } from '../../../src/simulator/server.js'
import type { Quirks } from '../../../src/simulator/world/quirks.js'
import { clientOf, repairFutures, runBackfill } from '../../support/backfill.js'
import { coveredRanges } from '../../support/coverage.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { instrumentStream } from '../../../src/db/series.js'
import { storeBatch } from '../../../src/ledger/storeBatches.js'

const now = Date.UTC(2026, 10, 20)
const category = 'USDT-FUTURES'
const symbol = 'EVENUSDT'
const key = { category, symbol } as const

let test: TestDatabase
let simulator: Simulator
beforeAll(async () => {
  test = await createTestDatabase()
})
afterAll(() => test.drop())
beforeEach(() =>
  test.database.pool.query(
    `truncate market.fills, market.candles, market.funding_rates, market.liquidations,
      recorder.ledger, recorder.want, recorder.slice`,
  ),
)
afterEach(() => simulator.close())

async function startService(quirks: Partial<Quirks>, fillsPerHour = 1_440): Promise<void> {
  simulator = await startSimulator({
    scale: 'tiny',
    now: () => now,
    limits: { enforce: false },
    activity: { burstiness: 0 },
    customInstruments: [{ ...key, fillsPerHour, launchTime: now - 200 * dayMs }],
    quirks,
  })
}

const requestsOf = (operation: Operation) =>
  Object.values(simulator.control.report()).reduce((sum, source) => sum + source.operations[operation].requests, 0)

/** Pages in which a service gives what is asked for, and by which factor they are shorter than full ones. */
const services = (
  operation: Operation,
  full: number,
  sizes: readonly number[],
): [string, Partial<Quirks>, number][] => [
  ...sizes.map((rows): [string, Partial<Quirks>, number] => {
    return [`pages of ${rows}`, { pageRows: { [operation]: rows } }, full / rows]
  }),
  [`the oldest rows first`, { oldestFirst: [operation] }, 1],
]

describe('a backfill of fills from a service that gives', () => {
  const range = { from: now - 3.5 * hourMs, to: now - hourMs }
  const request = { stream: 'fills', categories: [category], symbols: [symbol], types: [], intervals: [] } as const

  it.each(services('futures-fills-history', 1_000, [999, 100]))('%s has all of them', async (_, quirks, factor) => {
    await startService(quirks)
    const { summary } = await runBackfill(test, simulator, { ...request, ...range }, { serviceNow: now })
    const truth = simulator.world.fills(category, symbol, range.from, range.to)
    expect(truth.length).toBeGreaterThan(3_000)
    const { pool, db } = test.database
    expect(await falseFillClaims(pool, { world: simulator.world }, { from: 0, to: now })).toEqual([])
    const { rows } = await pool.query<{ id: string }>(
      'select exec_id as id from market.fills where ts >= $1 and ts < $2 order by ts, exec_id',
      [new Date(range.from), new Date(range.to)],
    )
    expect(rows.map(({ id }) => id)).toEqual(truth.map(({ execId }) => execId))
    expect(summary).toMatchObject({ left: 0, failed: [] })
    const covered = await coveredRanges(db, instrumentStream('fills', key))
    expect(covered).toHaveLength(1)
    expect(covered[0]?.from).toBeLessThanOrEqual(range.from)
    expect(covered[0]?.to).toBeGreaterThanOrEqual(range.to)
    const full = Math.ceil(truth.length / 1_000)
    expect(requestsOf('futures-fills-history')).toBeLessThanOrEqual(1.1 * full * factor + 3)
  })

  it('1,200 fills of one millisecond has all but those', async () => {
    const minute = now - 2 * hourMs
    const crowd = { from: minute + 1_000, to: minute + 59_000 }
    await startService({ crowdedFills: [crowd] }, 160_000)
    const around = { from: minute - 60_000, to: minute + 120_000 }
    const { summary } = await runBackfill(test, simulator, { ...request, ...around }, { serviceNow: now })
    expect(simulator.world.fills(category, symbol, crowd.from, crowd.to).length).toBeGreaterThan(1_200)
    const { pool } = test.database
    expect(await falseFillClaims(pool, { world: simulator.world }, { from: 0, to: now })).toEqual([])
    const { rows: lacking } = await pool.query<{ from: number; to: number }>(
      `select (extract(epoch from from_time) * 1000)::bigint as from, (extract(epoch from to_time) * 1000)::bigint as to
       from market.gaps where stream = 'fills' and state <> 'repaired'`,
    )
    // The millisecond before it is not told from it, because the ends of a request may be inclusive.
    for (const { from, to } of lacking) expect(from >= crowd.from - 1 && to <= crowd.from + 1).toBe(true)
    expect(lacking.length).toBeGreaterThan(0)
    expect(summary.failed.length).toBeGreaterThan(0)
    const stored = await pool.query('select from market.fills where ts >= $1 and ts < $2 and ts <> $3', [
      new Date(around.from),
      new Date(around.to),
      new Date(crowd.from),
    ])
    const others = simulator.world.fills(category, symbol, around.from, around.to)
    expect(stored.rowCount).toBe(others.filter(({ ts }) => Number(ts) !== crowd.from).length)
  })

  it.each([400, 1_500])('times that leave their order by %i ms has all of them', async (fillsEarlierMs) => {
    await startService({ fillsEarlierMs, pageRows: { 'futures-fills-history': 100 } }, 14_400)
    const quarter = { from: now - 1.25 * hourMs, to: now - hourMs }
    const { summary } = await runBackfill(test, simulator, { ...request, ...quarter }, { serviceNow: now })
    expect(summary).toMatchObject({ left: 0, failed: [] })
    expect(await falseFillClaims(test.database.pool, { world: simulator.world }, { from: 0, to: now })).toEqual([])
  })
})

describe('a backfill of funding rates from a service that gives', () => {
  const request = {
    stream: 'funding_rates',
    categories: [category],
    symbols: [symbol],
    types: [],
    intervals: [],
  } as const
  const range = { from: now - 60 * dayMs, to: now }

  const stored = async () => {
    const { rows } = await test.database.pool.query<{ ts: number; hours: number | null }>(
      `select (extract(epoch from ts) * 1000)::bigint as ts, interval_hours as hours from market.funding_rates order by ts`,
    )
    return rows
  }

  it.each([
    ...services('history-fund-rate', 100, [99, 50]),
    ['settlements that are some milliseconds late', { settlementsLateMs: 7 }, 1] as const,
  ])('%s has all of them', async (_, quirks, factor) => {
    await startService(quirks)
    const { summary } = await runBackfill(test, simulator, { ...request, ...range }, { serviceNow: now })
    const truth = simulator.world
      .fundingRates(category, symbol, now, 1, 10_000)
      .map(({ fundingRateTimestamp }) => Math.round(Number(fundingRateTimestamp) / hourMs) * hourMs)
    const rows = await stored()
    const isWanted = (ts: number) => ts >= range.from
    expect(rows.map(({ ts }) => ts).filter(isWanted)).toEqual(truth.toReversed().filter(isWanted))
    expect(summary).toMatchObject({ left: 0, failed: [] })
    const covered = await coveredRanges(test.database.db, instrumentStream('funding_rates', key))
    const isStored = new Set(rows.map(({ ts }) => ts))
    const isClaimed = (ts: number) => covered.some(({ from, to }) => ts >= from && ts < to)
    expect(truth.filter((ts) => isClaimed(ts) && !isStored.has(ts))).toEqual([])
    expect(rows.slice(1).filter(({ hours }) => hours === null)).toEqual([])
    // A page that overlaps the one before brings less. A last one confirms that nothing came after the newest.
    const full = Math.ceil(truth.length / 100)
    expect(requestsOf('history-fund-rate')).toBeLessThanOrEqual(1.2 * full * factor + 2)
    // Read again, each settlement is the same row.
    await runBackfill(test, simulator, { ...request, ...range }, { serviceNow: now, again: true })
    expect(await stored()).toEqual(rows)
  })
})

describe('liquidations of a service that gives', () => {
  const truth = () => {
    const { rows } = simulator.world.liquidations(category, symbol, {
      at: now,
      cursor: null,
      limit: 1_000_000,
      isFromOldest: false,
    })
    return rows.map(({ ts }) => Number(ts)).filter((ts) => ts > now - 3 * dayMs + hourMs)
  }
  const stored = async () => {
    const { rows } = await test.database.pool.query<{ ts: number }>(
      'select (extract(epoch from ts) * 1000)::bigint as ts from market.liquidations where ts > $1 order by ts desc',
      [new Date(now - 3 * dayMs + hourMs)],
    )
    return rows.map(({ ts }) => ts)
  }
  const record = async () => {
    const client = clientOf(simulator.url, 100)
    const page = await client.liquidations({ ...key, limit: 100 })
    client.close()
    await storeBatch(test.database.db, { ...page, stream: 'liquidations', target: key })
    await repairFutures(test, simulator, 'liquidations', () => now)
  }
  const falseClaims = async () => {
    const covered = await coveredRanges(test.database.db, instrumentStream('liquidations', key))
    const left = await stored()
    return truth().filter((ts) => covered.some(({ from, to }) => ts >= from && ts < to) && !left.includes(ts))
  }

  it.each([99, 50])('pages of %i has all of them', async (rows) => {
    await startService({ pageRows: { liquidations: rows } }, 360)
    await record()
    expect(truth().length).toBeGreaterThan(500)
    expect(await falseClaims()).toEqual([])
    expect(await stored()).toEqual(truth())
    const full = Math.ceil(truth().length / 100)
    // Each page is requested once more, so that the next one overlaps it.
    expect(requestsOf('liquidations')).toBeLessThanOrEqual((2.2 * full * 100) / rows + 3)
  })

  it.each([99, 50])('pages of %i and no cursor leaves a gap that says so', async (rows) => {
    await startService({ pageRows: { liquidations: rows }, liquidationsHaveCursor: false }, 360)
    await record()
    expect(await falseClaims()).toEqual([])
    expect((await stored()).length).toBeGreaterThan(rows - 2)
    const { rows: gaps } = await test.database.pool.query(
      "select reason from market.gaps where stream = 'liquidations'",
    )
    expect(gaps).toEqual([
      { reason: 'its operation names no further page, so that nothing beyond this one can be requested' },
    ])
  })
})
