import { sql } from 'kysely'
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { upsertCandles } from '../../../../src/ledger/storeCandles.js'
import { forget } from '../../../../src/ledger/forget.js'
import { removeArchived } from '../../../../src/files/archive/removal.js'
import { reconcile } from '../../../../src/server/timescale/reconcile.js'
import { applyRetention } from '../../../../src/server/timescale/retention.js'
import { refreshRollups, rollups } from '../../../../src/server/timescale/rollups.js'
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
    where proc_name = 'policy_refresh_continuous_aggregate'
    order by array_position(${rollups.map(({ name }) => name)}::text[], hypertable_name::text)`.execute(
    created.database.db,
  )
  for (const { id } of rows) await created.database.pool.query(`call public.run_job(${id})`)
}

async function rolledUpDays(view: string): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    select count(distinct date_trunc('day', open_time, 'UTC'))::int as count from ${sql.table(`market.${view}`)}
    where symbol = 'BTCUSDT'`.execute(created.database.db)
  return rows[0]?.count ?? 0
}

const isCommunity = async () => (await detectServer(created.database.db)).kind === 'timescale-community'
const needsCommunity = 'rollups are kept apart from candles on TimescaleDB Community alone'

/** Candles of all days, rolled up, and a schedule that reaches back over all of them. */
async function startAnew(): Promise<void> {
  const { db } = created.database
  await sql`truncate market.candles`.execute(db)
  await db.deleteFrom('recorder.final_rollups').execute()
  await reconcile(db, daily)
  await store('BTCUSDT', now - days * dayMs, now)
  await refreshOnSchedule()
  await expectAllDays()
}

async function expectAllDays(): Promise<void> {
  for (const view of ['ohlcv_5m', 'ohlcv_1h', 'ohlcv_1d']) expect(await rolledUpDays(view), view).toBe(days)
}

async function oldCandles(): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    select count(*)::int as count from market.candles where open_time < ${new Date(now - 21 * dayMs)}`.execute(
    created.database.db,
  )
  return rows[0]?.count ?? 0
}

it('rollups outlive the candles that were removed, whatever is refreshed later', async (context) => {
  if (!(await isCommunity())) context.skip(needsCommunity)
  const { db } = created.database
  await startAnew()
  await reconcile(db, removing)
  await applyRetention(db, forget, removing, now)
  expect(await oldCandles()).toBe(0)
  await refreshOnSchedule()
  await expectAllDays()

  // A backfill of another instrument over the days whose candles are gone.
  await store('ETHUSDT', now - 60 * dayMs, now - 50 * dayMs)
  await refreshRollups(db, [{ from: now - 60 * dayMs, to: now - 50 * dayMs }])
  await expectAllDays()

  // Kept for longer from now on, then for good.
  await reconcile(db, { ...daily, candles: { ...daily.candles, retentionDays: 65 } })
  await refreshOnSchedule()
  await expectAllDays()
  expect(await reconcile(db, daily)).toEqual([])
  await refreshOnSchedule()
  await expectAllDays()
})

it('what is backfilled within the days that are kept is rolled up at once', async (context) => {
  if (!(await isCommunity())) context.skip(needsCommunity)
  const { db } = created.database
  await store('SOLUSDT', now - 10 * dayMs, now - 5 * dayMs)
  await refreshRollups(db, [{ from: now - 10 * dayMs, to: now - 5 * dayMs }])
  const { rows } = await sql<{ count: number }>`
    select count(*)::int as count from recorder.ohlcv_1d where symbol = 'SOLUSDT'`.execute(db)
  expect(rows[0]?.count).toBe(5)
})

it('rollups outlive candles that are removed while their schedule still reaches back', async (context) => {
  if (!(await isCommunity())) context.skip(needsCommunity)
  const { db } = created.database
  await startAnew()
  expect((await applyRetention(db, forget, removing, now)).kept).toEqual([])
  expect(await oldCandles()).toBe(0)
  await refreshOnSchedule()
  await expectAllDays()
  // A recorder that keeps candles for good starts again with its own configuration.
  await reconcile(db, daily)
  await refreshOnSchedule()
  expect(await reconcile(db, daily)).toEqual([])
  await refreshRollups(db, [{ from: now - days * dayMs, to: now }])
  await expectAllDays()
})

it('candles that were corrected just before their removal are rolled up first', async (context) => {
  if (!(await isCommunity())) context.skip(needsCommunity)
  const { db } = created.database
  await startAnew()
  const openTime = now - 40 * dayMs
  await upsertCandles(db, [{ ...aCandle({ symbol: 'BTCUSDT', openTime }), high: '999999999' }])
  await applyRetention(db, forget, removing, now)
  await refreshOnSchedule()
  const { rows } = await sql<{ high: string }>`
    select trim_scale(high)::text as high from market.ohlcv_1d
    where symbol = 'BTCUSDT' and open_time = ${new Date(openTime)}`.execute(db)
  expect(rows).toEqual([{ high: '999999999' }])
})

/** Raises the high of a candle of BTCUSDT that is stored already, and resolves to what its day shows after a refresh. */
async function highOfCorrectedDay(openTime: number, high: string): Promise<string | undefined> {
  const { db } = created.database
  await upsertCandles(db, [{ ...aCandle({ symbol: 'BTCUSDT', openTime }), high }])
  await refreshOnSchedule()
  const { rows } = await sql<{ high: string }>`
    select trim_scale(high)::text as high from market.ohlcv_1d
    where symbol = 'BTCUSDT' and open_time = ${new Date(openTime)}`.execute(db)
  return rows[0]?.high
}

it('candles that a removal leaves are rolled up as before', async (context) => {
  if (!(await isCommunity())) context.skip(needsCommunity)
  const { db, pool } = created.database
  await startAnew()
  const reader = await pool.connect()
  try {
    await reader.query('begin')
    await reader.query('select count(*) from market.candles')
    const { kept } = await applyRetention(db, forget, removing, now)
    expect(kept).toEqual([expect.stringContaining('market.candles')])
  } finally {
    await reader.query('rollback')
    reader.release()
  }
  expect(await db.selectFrom('recorder.final_rollups').selectAll().execute()).toEqual([])
  expect(await highOfCorrectedDay(now - 60 * dayMs, '777777777')).toBe('777777777')
  await store('XRPUSDT', now - 60 * dayMs, now - 59 * dayMs)
  await refreshRollups(db, [{ from: now - 60 * dayMs, to: now - 59 * dayMs }])
  const { rows } = await sql`select from recorder.ohlcv_1d where symbol = 'XRPUSDT'`.execute(db)
  expect(rows).toHaveLength(1)
  await expectAllDays()
})

it('the schedule looks back to the removed candles for as long as the others stay', async (context) => {
  if (!(await isCommunity())) context.skip(needsCommunity)
  const { db, pool } = created.database
  await startAnew()
  await applyRetention(db, forget, removing, now)
  // The schedule counts from the present. Some days later, it looks less far back by as many days.
  const letDaysPass = async () =>
    pool.query(`
      select public.alter_job(job_id, config => jsonb_set(config, '{start_offset}', '"240:00:00"'))
      from timescaledb_information.jobs
      where proc_name = 'policy_refresh_continuous_aggregate' and hypertable_name = 'ohlcv_5m'`)
  await letDaysPass()
  expect((await applyRetention(db, forget, daily, now)).kept).toEqual([])
  expect(await highOfCorrectedDay(now - 18 * dayMs, '777777777')).toBe('777777777')
  await letDaysPass()
  expect(await reconcile(db, daily)).toEqual(['refresh recorder.ohlcv_5m every 5 minutes'])
  expect(await highOfCorrectedDay(now - 17 * dayMs, '777777777')).toBe('777777777')
  await expectAllDays()
})

it('candles stay while a refresh that reaches back is running', async (context) => {
  if (!(await isCommunity())) context.skip(needsCommunity)
  const { db, pool } = created.database
  await startAnew()
  const { rows } = await sql<{ id: number; job: string; table: string }>`
    select j.job_id as id, j.application_name as job,
      format('%I.%I', materialization_hypertable_schema, materialization_hypertable_name) as "table"
    from timescaledb_information.jobs j
    join timescaledb_information.continuous_aggregates a on a.view_name = j.hypertable_name
    where j.proc_name = 'policy_refresh_continuous_aggregate' and a.view_name = 'ohlcv_5m'`.execute(db)
  const [{ id, job, table } = { id: 0, job: '', table: '' }] = rows
  await upsertCandles(db, [{ ...aCandle({ symbol: 'BTCUSDT', openTime: now - 60 * dayMs }), high: '999999999' }])
  const [inItsWay, itsRefresh] = [await pool.connect(), await pool.connect()]
  let removal: ReturnType<typeof applyRetention>
  let refreshed: Promise<unknown>
  try {
    // The server's schedule appears in the list of sessions under this name.
    await itsRefresh.query("select set_config('application_name', $1, false)", [job])
    await inItsWay.query(`begin; lock table ${table} in share row exclusive mode`)
    refreshed = itsRefresh.query(`call public.run_job(${id})`)
    const waiting = `select count(*)::int as count from pg_stat_activity
      where datname = current_database() and wait_event_type = 'Lock' and application_name = $1`
    await vi.waitFor(async () => expect((await pool.query(waiting, [job])).rows).toEqual([{ count: 1 }]), {
      timeout: 120_000,
    })
    removal = applyRetention(db, forget, removing, now)
    const holder = "select name from recorder.lock where name = 'rollups'"
    await vi.waitFor(async () => expect((await pool.query(holder)).rows).toHaveLength(1), { timeout: 120_000 })
    expect(await refreshRollups(db, [{ from: now - dayMs, to: now }])).toBe(false)
    expect(await oldCandles()).toBeGreaterThan(0)
  } finally {
    await inItsWay.query('rollback')
    inItsWay.release()
  }
  await refreshed
  await itsRefresh.query('reset application_name')
  itsRefresh.release()
  expect((await removal).kept).toEqual([])
  expect(await oldCandles()).toBe(0)
  await refreshOnSchedule()
  await expectAllDays()
})

it('rollups outlive the candles that the archiver removed', async (context) => {
  if (!(await isCommunity())) context.skip(needsCommunity)
  const { database } = created
  const { db } = database
  await startAnew()
  const archive = await temporaryArchive()
  try {
    await archiveAll(database, archive.target, now + dayMs, { tables: ['candles'] })
    const old = [{ name: 'candles', retentionDays: 20 }]
    const { removed, kept } = await removeArchived(database, archive.target, old, { now: () => now })
    expect({ removed: removed.length, kept }).toEqual({ removed: 1, kept: [] })
  } finally {
    await archive.drop()
  }
  await refreshOnSchedule()
  await expectAllDays()
  await reconcile(db, daily)
  await refreshOnSchedule()
  expect(await reconcile(db, daily)).toEqual([])
  await refreshRollups(db, [{ from: now - days * dayMs, to: now }])
  await expectAllDays()
})
