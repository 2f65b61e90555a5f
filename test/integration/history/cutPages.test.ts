import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { falseFillClaims } from '../../simulation/claims.js'
import type { Operation } from '../../../src/market/operation.js'
import { dayMs, hourMs } from '../../../src/market/values.js'
import { type Simulator, startSimulator } from '../../../src/simulator/server.js'
import type { Quirks } from '../../../src/simulator/world/quirks.js'
import { runBackfill } from '../../support/backfill.js'
import { coveredRanges } from '../../support/coverage.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { instrumentStream } from '../../../src/db/series.js'

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
    activity: { flow: 'even' },
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
  const range = { from: now - 5 * hourMs, to: now - hourMs }
  const request = { stream: 'fills', categories: [category], symbols: [symbol], types: [], intervals: [] } as const

  it.each(services('futures-fills-history', 1_000, [999, 500, 100]))(
    '%s has all of them',
    async (_, quirks, factor) => {
      await startService(quirks)
      const { summary } = await runBackfill(test, simulator, { ...request, ...range }, { serviceNow: now })
      const truth = simulator.world.fills(category, symbol, range.from, range.to)
      expect(truth.length).toBeGreaterThan(5_000)
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
    },
  )

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
       from market.gaps where stream = 'fills'`,
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
    const hour = { from: now - 2 * hourMs, to: now - hourMs }
    const { summary } = await runBackfill(test, simulator, { ...request, ...hour }, { serviceNow: now })
    expect(summary).toMatchObject({ left: 0, failed: [] })
    expect(await falseFillClaims(test.database.pool, { world: simulator.world }, { from: 0, to: now })).toEqual([])
  })
})
