import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { TouchedRollups } from '../../../../src/history/worker.js'
import { systemClock } from '../../../../src/runtime/clock.js'
import { createLogger, type Logger } from '../../../../src/runtime/logger.js'
import type { TimeRange } from '../../../../src/market/timeRange.js'
import { upsertCandles } from '../../../../src/ledger/storeCandles.js'
import { refreshRollups } from '../../../../src/server/timescale/rollups.js'
import { detectServer } from '../../../../src/server/timescale/server.js'
import { createTestDatabase, type TestDatabase } from '../../../support/database.js'
import { aCandle, someTime } from '../../../support/marketRows.js'

const series = { stream: 'candles', category: 'SPOT', symbol: 'BTCUSDT', type: 'market', interval: '1m' } as const
const hourMs = 3_600_000

let created: TestDatabase
beforeAll(async () => {
  created = await createTestDatabase()
})
afterAll(async () => created.drop())

async function shown(): Promise<number[]> {
  const { rows } = await created.database.pool.query<{ open_time: number }>(
    'select open_time from market.ohlcv_1h order by open_time',
  )
  return rows.map((row) => row.open_time)
}

const sliceOf = (range: TimeRange) => ({ series, ranges: [range] })

it('rollups show what a backfill wrote into the past once it has nothing left to do', async () => {
  const { db } = created.database
  await upsertCandles(db, [aCandle({ openTime: someTime })])
  // Everything up to here counts as rolled up: older candles would not be looked for.
  await refreshRollups(db, [{ from: someTime - 48 * hourMs, to: someTime + 48 * hourMs }])
  const range = { from: someTime - 5 * hourMs, to: someTime - 4 * hourMs }
  await upsertCandles(db, [aCandle({ openTime: range.from })])

  const touched = new TouchedRollups()
  const slice = sliceOf(range)
  touched.add({ ...slice, series: { ...series, interval: '1H' } }, { inserted: 1, updated: 0 })
  touched.add(slice, { inserted: 1, updated: 0 })
  await touched.refresh(db, createLogger('silent'))
  expect(await shown()).toEqual([range.from, someTime])
})

it('rollups that the server is refreshing itself follow when it is done', async () => {
  const { db, pool } = created.database
  if ((await detectServer(db)).kind !== 'timescale-community') return
  const range = { from: someTime - 9 * hourMs, to: someTime - 8 * hourMs }
  await upsertCandles(db, [aCandle({ openTime: range.from })])
  const { rows } = await pool.query<{ name: string }>(`
    select format('%I.%I', materialization_hypertable_schema, materialization_hypertable_name) as name
    from timescaledb_information.continuous_aggregates where view_name = 'ohlcv_5m'`)

  const warnings: string[] = []
  const logger = { warn: (line: string) => warnings.push(line) } as unknown as Logger
  const touched = new TouchedRollups()
  touched.add(sliceOf(range), { inserted: 1, updated: 0 })

  // Its refresh stays half-way: it may read, but not write.
  const inItsWay = await pool.connect()
  await inItsWay.query(`begin; lock table ${rows[0]?.name} in share row exclusive mode`)
  const itsRefresh = pool.query(
    `call public.refresh_continuous_aggregate('recorder.ohlcv_5m', $1::timestamptz, $2::timestamptz)`,
    [new Date(range.from), new Date(range.to)],
  )
  let atLast: Promise<void>
  try {
    const waiting = `select count(*)::int as count from pg_stat_activity
      where datname = current_database() and wait_event_type = 'Lock' and query like 'call public.refresh%'`
    await vi.waitFor(async () => expect((await pool.query(waiting)).rows).toEqual([{ count: 1 }]), { timeout: 120_000 })
    expect(await touched.refresh(db, logger)).toBe(false)
    atLast = touched.refreshAtLast(db, systemClock, logger)
  } finally {
    await inItsWay.query('rollback')
    inItsWay.release()
  }
  await itsRefresh
  await atLast
  expect(warnings).toEqual([])
  expect(await shown()).toContain(range.from)
})
