import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { checkJobs } from '../../../../src/cli/doctor.js'
import { upsertCandles } from '../../../../src/ledger/storeCandles.js'
import { detectServer, readLockRoom } from '../../../../src/server/timescale/server.js'
import { createTestDatabase, type TestDatabase } from '../../../support/database.js'
import { aCandle, someTime } from '../../../support/marketRows.js'

let created: TestDatabase
beforeAll(async () => {
  created = await createTestDatabase()
})
afterAll(async () => created.drop())

const isCommunity = async () => (await detectServer(created.database.db)).kind === 'timescale-community'
const needsCommunity = 'only TimescaleDB Community has jobs and a columnstore'

test('doctor counts every lock that reading a table takes, also those of the columnstore', async (context) => {
  if (!(await isCommunity())) context.skip(needsCommunity)
  const { db } = created.database
  const weekMs = 7 * 86_400_000
  await upsertCandles(
    db,
    [0, 1, 2].map((week) => aCandle({ openTime: someTime - week * weekMs })),
  )
  const { largest: before } = await readLockRoom(db)
  await sql`select public.compress_chunk(c) from public.show_chunks('market.candles') c`.execute(db)
  const taken = await db.transaction().execute(async (trx) => {
    await sql`select count(*) from market.candles`.execute(trx)
    const { rows } = await sql<{ count: number }>`
      select count(*)::int as count from pg_locks l join pg_class c on c.oid = l.relation
      where l.pid = pg_backend_pid() and c.relnamespace = '_timescaledb_internal'::regnamespace`.execute(trx)
    return rows[0]?.count
  })
  const { largest } = await readLockRoom(db)
  expect(largest).toBe(taken)
  expect(largest).toBeGreaterThan(before)
})

test('doctor says when jobs of TimescaleDB fail, and says that they are well otherwise', async (context) => {
  if (!(await isCommunity())) context.skip(needsCommunity)
  const { database, url } = created
  const { db, pool } = database
  expect(await checkJobs(db)).toMatchObject([
    { what: 'jobs', detail: expect.stringContaining('none of which failed') as string },
  ])
  const { rows } = await sql<{ id: number; table: string }>`
    select j.job_id as id, format('%I.%I', materialization_hypertable_schema, materialization_hypertable_name) as "table"
    from timescaledb_information.jobs j
    join timescaledb_information.continuous_aggregates a on a.view_name = j.hypertable_name
    where j.proc_name = 'policy_refresh_continuous_aggregate' and a.view_name = 'ohlcv_5m'`.execute(db)
  const [{ id, table } = { id: 0, table: '' }] = rows
  await pool.query(`alter database ${new URL(url).pathname.slice(1)} set lock_timeout = '100ms'`)
  const inItsWay = await pool.connect()
  try {
    await inItsWay.query(`begin; lock table ${table} in access exclusive mode`)
    await pool.query(`select public.alter_job(${id}, scheduled => true, next_start => now())`)
    await pool.query('select _timescaledb_functions.start_background_workers()')
    const verdict = async () => (await checkJobs(db))[0]
    await expect.poll(verdict, { timeout: 120_000, interval: 500 }).toMatchObject({ verdict: 'warning' })
    expect((await verdict())?.detail).toMatch(/^1 of 17 jobs of TimescaleDB failed at their last run/)
  } finally {
    await inItsWay.query('rollback')
    inItsWay.release()
    await pool.query('select _timescaledb_functions.stop_background_workers()')
  }
})
