import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { insertFills } from '../../support/insertFills.js'
import type { RecorderDatabase } from '../../../src/db/database.js'
import { recordGap } from '../../../src/ledger/gaps.js'
import { recordInstruments, recordRpiSymbols } from '../../../src/ledger/instruments.js'
import { migrateToLatest } from '../../../src/db/migrate.js'
import { appendRows } from '../../../src/db/writeRows.js'
import { rejectedRow } from '../../../src/market/rows.js'
import { insertRejectedRows } from '../../../src/ledger/rejectedRows.js'
import { reconcile } from '../../../src/server/timescale/reconcile.js'
import { forget } from '../../../src/ledger/forget.js'
import { applyRetention } from '../../../src/server/timescale/retention.js'
import { refreshRollups } from '../../../src/server/timescale/rollups.js'
import { detectServer } from '../../../src/server/timescale/server.js'
import { upsertCandles } from '../../../src/ledger/storeCandles.js'
import { type TestDatabase, createTestDatabase } from '../../support/database.js'
import { testStorage } from '../../support/databaseServer.js'
import { type Login, login } from '../../support/login.js'
import { aBook, aCandle, aFill, aTicker, anInstrument, anRpiBook, someTime } from '../../support/marketRows.js'
import { addCoverage } from '../../support/coverage.js'

let created: TestDatabase
let readerLogin: Login
let writerLogin: Login
let reader: RecorderDatabase
let writer: RecorderDatabase

beforeAll(async () => {
  created = await createTestDatabase()
  readerLogin = await login(created, 'market_reader')
  writerLogin = await login(created, 'recorder_writer')
  reader = readerLogin.database
  writer = writerLogin.database
})
afterAll(async () => {
  await readerLogin.remove()
  await writerLogin.remove()
  await created.drop()
})

async function relations(schema: string): Promise<string[]> {
  const { rows } = await created.database.pool.query<{ name: string }>(
    `select format('%I.%I', n.nspname, c.relname) as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
      where n.nspname = $1 and c.relkind in ('r', 'v', 'm', 'p') order by 1`,
    [schema],
  )
  return rows.map(({ name }) => name)
}

const denied = /permission denied|must be owner|cannot|not allowed|is not a table/

async function expectDenied(user: RecorderDatabase, statement: string): Promise<void> {
  await expect(user.pool.query(statement), statement).rejects.toThrow(denied)
}

describe('recorder_writer', () => {
  it('records everything that there is to record, and removes what is too old', async () => {
    const { db } = writer
    // As the daemon does at its start: nothing is left to migrate or to change, and that needs no right.
    expect((await migrateToLatest(writer)).applied).toEqual([])
    expect(await reconcile(db, testStorage)).toEqual([])
    await recordInstruments(db, 'SPOT', [anInstrument()], someTime)
    await recordInstruments(db, 'SPOT', [anInstrument({ status: 'offline' })], someTime + 1000)
    await recordRpiSymbols(db, [{ category: 'SPOT', symbol: 'BTCUSDT' }], someTime, { complete: true })
    await recordRpiSymbols(db, [], someTime + 1000, { complete: true })
    await appendRows(db, 'tickers', [aTicker()])
    await appendRows(db, 'order_books', [aBook()])
    await appendRows(db, 'rpi_order_books', [anRpiBook()])
    await insertFills(db, [aFill()])
    await upsertCandles(db, [aCandle()])
    expect(await upsertCandles(db, [aCandle({ close: '10.5' })])).toMatchObject({ updated: 1 })
    const series = { stream: 'fills', category: 'SPOT', symbol: 'BTCUSDT', type: '', interval: '' } as const
    const range = { from: someTime, to: someTime + 1000 }
    await addCoverage(db, series, [range])
    await addCoverage(db, series, [{ from: someTime, to: someTime + 2000 }])
    await recordGap(db, { ...series, range, reason: 'a test', verdict: 'lost' })
    await insertRejectedRows(db, [rejectedRow({ operation: 'fills', parameters: {} }, 'a test', '{}')], someTime)
    await refreshRollups(db, [range])
    const settings = { ...testStorage, tickers: { ...testStorage.tickers, retentionDays: 1 } }
    const { removed } = await applyRetention(db, forget, settings, Date.now())
    expect(removed[0]).toMatch(/^removed 1 (row|chunk) of market\.tickers from before /)
  })

  it.each([
    'create table market.mine (i integer)',
    'create table recorder.mine (i integer)',
    'drop table market.fills',
    'alter table market.fills add column mine integer',
    'truncate market.fills',
    "update market.fills set price = '1'",
    "update market.tickers set last_price = '1'",
    'update market.order_books set bid_prices = ask_prices',
    'delete from market.instruments',
    'delete from recorder.candle_revision',
    "update recorder.candle_revision set new_close = '1'",
    'delete from recorder.migration',
    "insert into recorder.migration values ('9999_mine', '')",
    'create role mine',
    'create schema mine',
    'set role pg_read_all_data',
  ])('may not: %s', async (statement) => {
    await expectDenied(writer, statement)
  })
})

describe('market_reader', () => {
  it('reads every relation of market', async () => {
    const readable = await relations('market')
    expect(readable.length).toBeGreaterThan(17)
    for (const name of readable) await reader.pool.query(`select * from ${name} limit 1`)
  })

  it('calls every function of market', async () => {
    const { rows } = await created.database.pool.query<{ name: string; isAllowed: boolean }>(
      `select oid::regprocedure::text as name, has_function_privilege($1, oid, 'execute') as "isAllowed"
        from pg_proc where pronamespace = 'market'::regnamespace`,
      [readerLogin.user],
    )
    expect(rows.length).toBeGreaterThan(10)
    expect(rows.filter(({ isAllowed }) => !isAllowed)).toEqual([])
    await reader.pool.query("select * from market.ticker_at('SPOT', 'BTCUSDT', now())")
  })

  it('reads nothing else', async () => {
    const hidden = await relations('recorder')
    expect(hidden.length).toBeGreaterThan(5)
    for (const name of hidden) await expectDenied(reader, `select * from ${name}`)
  })

  it('changes no relation of market', async () => {
    for (const name of await relations('market')) {
      await expectDenied(reader, `insert into ${name} select * from ${name}`)
      await expectDenied(reader, `update ${name} set symbol = 'X'`)
      await expectDenied(reader, `delete from ${name}`)
      await expectDenied(reader, `truncate ${name}`)
    }
  })

  it.each([
    'create table market.mine (i integer)',
    'create view market.mine as select 1',
    "create function market.mine() returns integer language sql as 'select 1'",
    'create table public.mine (i integer)',
    'create schema mine',
    'create role mine',
    'drop view market.latest_tickers',
    'alter table market.fills add column mine integer',
    'comment on table market.fills is null',
    'do $$ begin lock table market.fills in exclusive mode; end $$',
    "copy market.fills to program 'cat'",
    "select pg_read_file('postgresql.conf')",
    'set role recorder_writer',
  ])('may not: %s', async (statement) => {
    await expectDenied(reader, statement)
  })

  it('may not change chunks, policies or rollups either', async () => {
    const { kind } = await detectServer(created.database.db)
    if (kind === 'postgresql') return
    const { rows } = await created.database.pool.query<{ name: string }>(
      `select format('%I.%I', chunk_schema, chunk_name) as name from timescaledb_information.chunks
        where hypertable_schema = 'market'`,
    )
    expect(rows.length).toBeGreaterThan(0)
    for (const { name } of rows) await expectDenied(reader, `delete from ${name}`)
    await expectDenied(reader, "select drop_chunks('market.fills', older_than => now())")
    await expectDenied(reader, "select recorder.drop_chunks('fills', now())")
    await expectDenied(reader, "select set_chunk_time_interval('market.fills', interval '1 hour')")
    if (kind === 'timescale-apache') return
    await expectDenied(reader, "select add_retention_policy('market.fills', interval '1 day')")
    await expectDenied(reader, "call refresh_continuous_aggregate('recorder.ohlcv_5m', null, null)")
  })
})
