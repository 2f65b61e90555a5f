import { sql } from 'kysely'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { noteService } from '../../../../src/db/service.js'
import { upsertCandles } from '../../../../src/ledger/storeCandles.js'
import { forget } from '../../../../src/ledger/forget.js'
import { removeArchived } from '../../../../src/files/archive/removal.js'
import { reconcile } from '../../../../src/server/timescale/reconcile.js'
import { applyRetention } from '../../../../src/server/timescale/retention.js'
import { refreshRollups } from '../../../../src/server/timescale/rollups.js'
import { detectServer } from '../../../../src/server/timescale/server.js'
import { archiveAll, temporaryArchive } from '../../../support/archives.js'
import { createTestDatabase, type TestDatabase } from '../../../support/database.js'
import { testStorage } from '../../../support/databaseServer.js'
import { stopSchedules } from '../../../support/schedules.js'
import { aCandle } from '../../../support/marketRows.js'

const dayMs = 86_400_000
const now = Math.floor(Date.now() / dayMs) * dayMs
const days = 70
const daily = { ...testStorage, candles: { ...testStorage.candles, chunkHours: 24 } }
const removing = { ...daily, candles: { ...daily.candles, retentionDays: 20 } }

let created: TestDatabase
beforeAll(async () => {
  created = await createTestDatabase()
  await stopSchedules(created.database)
})
afterAll(async () => created.drop())

/** Candles of an instrument, one an hour of each of the days. */
async function store(symbol: string, from: number, to: number): Promise<void> {
  const openTimes = Array.from({ length: (to - from) / 3_600_000 }, (_, hour) => from + hour * 3_600_000)
  await upsertCandles(
    created.database.db,
    openTimes.map((openTime) => aCandle({ symbol, openTime })),
  )
}

async function refreshOnSchedule(): Promise<void> {
  const { rows } = await sql<{ id: number }>`
    select job_id as id from timescaledb_information.jobs
    where proc_name = 'policy_refresh_continuous_aggregate' order by hypertable_name, job_id
  `.execute(created.database.db)
  for (const { id } of rows) await created.database.pool.query(`call public.run_job(${id})`)
}

async function rolledUpDays(view: string): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    select count(distinct date_trunc('day', open_time, 'UTC'))::int as count from ${sql.table(`market.${view}`)}
    where symbol = 'BTCUSDT'`.execute(created.database.db)
  return rows[0]?.count ?? 0
}

it('rollups outlive the candles that were removed, whatever is refreshed later', async (context) => {
  const { db } = created.database
  if ((await detectServer(db)).kind !== 'timescale-community')
    context.skip('rollups are kept apart from candles on TimescaleDB Community alone')
  await noteService(db, 'https://api.example.com')
  await store('BTCUSDT', now - days * dayMs, now)
  await reconcile(db, daily)
  await refreshRollups(db, [{ from: now - days * dayMs, to: now }])
  const expectAll = async () => {
    for (const view of ['ohlcv_5m', 'ohlcv_1h', 'ohlcv_1d']) expect(await rolledUpDays(view), view).toBe(days)
  }
  await expectAll()

  await reconcile(db, removing)
  await applyRetention(db, forget, removing, now)
  const { rows } = await sql<{ count: number }>`
    select count(*)::int as count from market.candles where open_time < ${new Date(now - 21 * dayMs)}`.execute(db)
  expect(rows[0]?.count).toBe(0)
  await refreshOnSchedule()
  await expectAll()

  // A backfill of another instrument over the days whose candles are gone.
  await store('ETHUSDT', now - 60 * dayMs, now - 50 * dayMs)
  await refreshRollups(db, [{ from: now - 60 * dayMs, to: now - 50 * dayMs }])
  await expectAll()

  // Kept for longer from now on, then for good.
  await reconcile(db, { ...daily, candles: { ...daily.candles, retentionDays: 65 } })
  await refreshOnSchedule()
  await expectAll()
  expect(await reconcile(db, daily)).toEqual([])
  await refreshOnSchedule()
  await expectAll()
})

it('what is backfilled within the days that are kept is rolled up at once', async (context) => {
  const { db } = created.database
  if ((await detectServer(db)).kind !== 'timescale-community')
    context.skip('rollups are kept apart from candles on TimescaleDB Community alone')
  await store('SOLUSDT', now - 10 * dayMs, now - 5 * dayMs)
  await refreshRollups(db, [{ from: now - 10 * dayMs, to: now - 5 * dayMs }])
  const { rows } = await sql<{ count: number }>`
    select count(*)::int as count from recorder.ohlcv_1d where symbol = 'SOLUSDT'`.execute(db)
  expect(rows[0]?.count).toBe(5)
})

async function reconcileAndRefresh(retentionDays: number | undefined): Promise<void> {
  const { db } = created.database
  const candles = retentionDays === undefined ? daily.candles : { ...daily.candles, retentionDays }
  const settings = { ...daily, candles }
  await reconcile(db, settings)
  await refreshOnSchedule()
  expect(await reconcile(db, settings)).toEqual([])
}

it('rollups outlive the candles that the archiver removed', async (context) => {
  const { database } = created
  const { db } = database
  if ((await detectServer(db)).kind !== 'timescale-community')
    context.skip('rollups are kept apart from candles on TimescaleDB Community alone')
  await reconcile(db, daily)
  await noteService(db, 'https://api.example.com')
  await sql`update recorder.service set rollups_final_before = null`.execute(db)
  await store('BTCUSDT', now - days * dayMs, now)
  await refreshRollups(db, [{ from: now - days * dayMs, to: now }])
  const archive = await temporaryArchive()
  try {
    await archiveAll(database, archive.target, now + dayMs, { tables: ['candles'] })
    const old = [{ name: 'candles', retentionDays: 20 }]
    const { removed, kept } = await removeArchived(database, archive.target, old, { now: () => now })
    expect({ removed: removed.length, kept }).toEqual({ removed: 1, kept: [] })
  } finally {
    await archive.drop()
  }

  await reconcileAndRefresh(undefined)
  await refreshRollups(db, [{ from: now - days * dayMs, to: now }])
  for (const view of ['ohlcv_5m', 'ohlcv_1d']) expect(await rolledUpDays(view), view).toBe(days)
})
