import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { checkJobs } from '../../../../src/cli/doctor.js'
import { upsertCandles } from '../../../../src/ledger/storeCandles.js'
import { detectServer, readJobs, readLockRoom } from '../../../../src/server/timescale/server.js'
import { openDatabase } from '../../../../src/db/database.js'
import type { Status } from '../../../../src/serve/api/contract.js'
import type { RunningServer } from '../../../../src/serve/server.js'
import { login, type Login } from '../../../support/login.js'
import { freshen, serveSource, settableSource } from '../../../support/recorderSource.js'
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

test('the policies begin at different moments, and none of them at once', async (context) => {
  if (!(await isCommunity())) context.skip(needsCommunity)
  const { rows } = await sql<{ firstSecond: number; everySeconds: number }>`
    select extract(epoch from initial_start)::float8 as "firstSecond",
      extract(epoch from schedule_interval)::float8 as "everySeconds"
    from timescaledb_information.jobs where hypertable_schema in ('market', 'recorder')`.execute(created.database.db)
  const seconds = rows.flatMap(({ firstSecond, everySeconds }) =>
    Array.from({ length: 3600 / everySeconds }, (_, run) => (firstSecond + run * everySeconds) % 3600),
  )
  expect(rows).toHaveLength(17)
  expect(new Set(seconds).size).toBe(seconds.length)
  const sorted = seconds.toSorted((a, b) => a - b)
  expect(Math.min(...sorted.slice(1).map((second, index) => second - (sorted[index] ?? 0)))).toBeGreaterThanOrEqual(45)
})

describe('when jobs fail', () => {
  const source = settableSource(Date.now() - 60_000)
  let reader: Login
  let server: RunningServer
  beforeAll(async () => {
    freshen(source, Date.now())
    reader = await login(created, 'market_reader')
    // As installed: the page's login owns no job, and does not see how those of others run.
    server = await serveSource(source, reader.url)
  })
  afterAll(async () => {
    await server?.close()
    await reader?.remove()
  })
  const fetched = async (path: string) => fetch(server.url + path)
  const metrics = async () => (await (await fetched('/metrics')).text()).match(/^market_recorder_database_jobs.*$/gm)
  const doctorSays = async () => (await checkJobs(created.database.db))[0]

  test('doctor, status, /readyz and a metric say so, and that all is well before', async (context) => {
    if (!(await isCommunity())) context.skip(needsCommunity)
    const { database, url } = created
    const { db, pool } = database
    expect(await doctorSays()).toMatchObject({ what: 'jobs', verdict: 'ok' })
    expect(await metrics()).toEqual([
      'market_recorder_database_jobs{state="failed"} 0',
      'market_recorder_database_jobs{state="late"} 0',
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
      await expect.poll(doctorSays, { interval: 500 }).toMatchObject({ verdict: 'warning' })
    } finally {
      await inItsWay.query('rollback')
      inItsWay.release()
      await pool.query('select _timescaledb_functions.stop_background_workers()')
    }
    const message = /^1 of 17 jobs of TimescaleDB failed at their last run: .*job_errors says why/
    expect((await doctorSays())?.detail).toMatch(message)
    // A server that has just started reads them at once.
    await server.close()
    server = await serveSource(source, reader.url)
    await expect.poll(metrics, { interval: 1_000 }).toContain('market_recorder_database_jobs{state="failed"} 1')
    const ready = await fetched('/readyz')
    expect(ready.status).toBe(200)
    expect(await ready.json()).toMatchObject({ ok: true, reasons: [], notices: [expect.stringMatching(message)] })
    const { problems } = (await (await fetched('/api/status')).json()) as Status
    expect(problems).toMatchObject([{ about: 'database', name: 'jobs', isBlocking: false }])
  })

  test('a job that is due and does not run is late', async (context) => {
    if (!(await isCommunity())) context.skip(needsCommunity)
    const { db } = created.database
    const { late: before } = (await readJobs(reader.database.db)) ?? { late: -1 }
    await sql`select public.alter_job(job_id, next_start => now() - interval '31 minutes')
      from timescaledb_information.jobs where hypertable_name = 'candles'`.execute(db)
    expect(await readJobs(reader.database.db)).toMatchObject({ late: before + 1 })
    expect((await doctorSays())?.detail).toMatch(/1 of 17 jobs of TimescaleDB have been due for half an hour/)
  })
})

test('doctor knows the versions that fail every job', async (context) => {
  if (!(await isCommunity())) context.skip(needsCommunity)
  const other = await createTestDatabase()
  try {
    const { pool } = other.database
    expect((await checkJobs(other.database.db))[0]).toMatchObject({ verdict: 'ok' })
    // What stands before the catalogue answers for it.
    await pool.query(`create schema other_versions;
      create function other_versions.current_setting(text) returns text language sql
        as $$ select case $1 when 'server_version' then '17.12 (Debian)' else pg_catalog.current_setting($1) end $$;
      create view other_versions.pg_extension as select extname, '2.29.2'::text as extversion from pg_catalog.pg_extension;
      alter database ${new URL(other.url).pathname.slice(1)} set search_path = other_versions, pg_catalog, public`)
    const database = openDatabase({ url: other.url })
    try {
      expect((await checkJobs(database.db))[0]).toMatchObject({
        verdict: 'warning',
        detail: expect.stringMatching(
          /^PostgreSQL 17.12 with TimescaleDB 2.29.2 fails each job at its end; use/,
        ) as string,
      })
    } finally {
      await database.close()
    }
  } finally {
    await other.drop()
  }
})
