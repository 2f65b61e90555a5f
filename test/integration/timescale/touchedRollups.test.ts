import { afterAll, beforeAll, expect, it } from 'vitest'
import { TouchedRollups } from '../../../src/collect/backfill/touchedRollups.js'
import { createLogger } from '../../../src/runtime/logger.js'
import { upsertCandles } from '../../../src/store/candles.js'
import { refreshRollups } from '../../../src/store/timescale/rollups.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { aCandle, someTime } from '../../support/marketRows.js'
import { stopSchedules } from '../../support/schedules.js'

const series = { category: 'SPOT', symbol: 'BTCUSDT', type: 'market', interval: '1m' } as const
const hourMs = 3_600_000

let created: TestDatabase
beforeAll(async () => {
  created = await createTestDatabase()
  await stopSchedules(created.database)
})
afterAll(async () => created.drop())

async function shown(): Promise<number[]> {
  const { rows } = await created.database.pool.query<{ open_time: number }>(
    'select open_time from market.ohlcv_1h order by open_time',
  )
  return rows.map((row) => row.open_time)
}

it('rollups show what a backfill wrote into the past once it has nothing left to do', async () => {
  const { db } = created.database
  await upsertCandles(db, [aCandle({ openTime: someTime })])
  // Everything up to here counts as rolled up: older candles would not be looked for.
  await refreshRollups(db, [{ from: someTime - 48 * hourMs, to: someTime + 48 * hourMs }])
  const range = { from: someTime - 5 * hourMs, to: someTime - 4 * hourMs }
  await upsertCandles(db, [aCandle({ openTime: range.from })])

  const touched = new TouchedRollups()
  const job = { series, range } as Parameters<TouchedRollups['add']>[0]
  touched.add({ ...job, series: { ...series, interval: '1H' } }, { inserted: 1, updated: 0 })
  touched.add(job, { inserted: 1, updated: 0 })
  await touched.refresh(db, createLogger('silent'))
  expect(await shown()).toEqual([range.from, someTime])
})
