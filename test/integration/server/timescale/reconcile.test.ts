import { sql } from 'kysely'
import { pino } from 'pino'
import { afterEach, describe, expect, it } from 'vitest'
import { insertFills } from '../../../support/insertFills.js'
import { untilSomebodyWaits } from '../../../support/lockWait.js'
import { resolveConfig } from '../../../../src/config/resolve.js'
import { readStorage } from '../../../../src/collect/retention.js'
import { pendingChanges, prepareBeside, prepareStore } from '../../../../src/prepareStore.js'
import { migrateToLatest } from '../../../../src/db/migrate.js'
import { plannedChanges, reconcile } from '../../../../src/server/timescale/reconcile.js'
import { detectServer } from '../../../../src/server/timescale/server.js'
import { upsertCandles } from '../../../../src/ledger/storeCandles.js'
import { aCandle, aFill, someTime } from '../../../support/marketRows.js'
import { createEmptyDatabase, createTestDatabase, type TestDatabase } from '../../../support/database.js'
import { testStorage } from '../../../support/databaseServer.js'

const open: TestDatabase[] = []
async function opened(create: () => Promise<TestDatabase>): Promise<TestDatabase['database']> {
  const created = await create()
  open.push(created)
  return created.database
}
afterEach(async () => {
  for (const database of open.splice(0)) await database.drop()
})

const timeTables = [
  'candles',
  'fills',
  'funding_forecasts',
  'funding_rates',
  'liquidations',
  'long_short_accounts',
  'long_short_positions',
  'long_short_ratios',
  'order_books',
  'rpi_order_books',
  'taker_flow',
  'tickers',
]
const rollups = ['ohlcv_15m', 'ohlcv_1d', 'ohlcv_1h', 'ohlcv_4h', 'ohlcv_5m']

/**
 * By the server's own word, not by ours: what its libraries and the extension say. A server that does not tell its login which
 * libraries it has is our embedded one, which has none.
 */
async function edition({ db }: TestDatabase['database']): Promise<'apache' | 'community' | 'none'> {
  const { rows } = await sql<{ libraries: string }>`
    select case when pg_has_role('pg_read_all_settings', 'usage')
      then current_setting('shared_preload_libraries') else '' end as libraries`.execute(db)
  if (rows[0]?.libraries.includes('timescaledb') !== true) return 'none'
  const template = await opened(createTestDatabase)
  const { rows: licenses } = await sql<{ license: string }>`show timescaledb.license`.execute(template.db)
  return licenses[0]?.['timescaledb.license' as 'license'] === 'apache' ? 'apache' : 'community'
}

async function column({ db }: TestDatabase['database'], query: string): Promise<unknown[]> {
  const { rows } = await sql<{ value: unknown }>`select value from (${sql.raw(query)}) as q (value)`.execute(db)
  return rows.map(({ value }) => value)
}

const hypertables = async (database: TestDatabase['database']) =>
  column(
    database,
    `select hypertable_name::text from timescaledb_information.hypertables where hypertable_schema = 'market' order by 1`,
  )

describe('the time-series features', () => {
  it('are on in every database of the suite where the server has them', async () => {
    const database = await opened(createTestDatabase)
    const { kind } = await detectServer(database.db)
    const found = await edition(database)
    expect(kind).toBe(found === 'none' ? 'postgresql' : `timescale-${found}`)
    if (found === 'none') return
    expect(await hypertables(database)).toEqual(timeTables)
    if (found === 'apache') return
    expect(
      await column(
        database,
        `select view_name::text from timescaledb_information.continuous_aggregates
          where view_schema = 'recorder' and not materialized_only order by 1`,
      ),
    ).toEqual(rollups)
    expect(
      await column(
        database,
        `select hypertable || ': ' || segmentby || ' / ' || orderby
          from timescaledb_information.hypertable_columnstore_settings where segmentby is not null order by 1`,
      ),
    ).toEqual([
      'market.candles: category,symbol,type,interval / open_time',
      'market.fills: category,symbol / ts,exec_id',
      'market.funding_forecasts: category,symbol / ts',
      'market.funding_rates: category,symbol / ts',
      'market.liquidations: category,symbol / ts,side,price,amount,occurrence',
      'market.long_short_accounts: category,symbol / ts',
      'market.long_short_positions: category,symbol / ts',
      'market.long_short_ratios: category,symbol / ts',
      'market.order_books: category,symbol / ts',
      'market.rpi_order_books: category,symbol / ts',
      'market.taker_flow: category,symbol / ts',
      'market.tickers: category,symbol / ts',
    ])
  })

  it('are brought in line once: first said, then done, then nothing is left to do', async () => {
    const database = await opened(createEmptyDatabase)
    const { db } = database
    await migrateToLatest(database)
    const found = await edition(database)
    const planned = await plannedChanges(db, testStorage, { isMigrated: true })
    expect(planned).toEqual(
      found === 'none' ? [] : ['create extension timescaledb', 'set up the features of TimescaleDB'],
    )
    expect((await detectServer(db)).kind).toBe('postgresql')
    const done = await reconcile(db, testStorage)
    expect(await reconcile(db, testStorage)).toEqual([])
    const expected = {
      none: 0,
      apache: 1 + timeTables.length,
      community: 1 + 3 * timeTables.length + 3 * rollups.length,
    }
    expect(done).toHaveLength(expected[found])
    if (found === 'none') return
    expect(await hypertables(database)).toEqual(timeTables)
  })

  it('are planned in full once the extension and the tables are there', async () => {
    const database = await opened(createEmptyDatabase)
    const { db } = database
    if ((await edition(database)) === 'none') return
    await sql`create extension timescaledb`.execute(db)
    expect(await plannedChanges(db, testStorage, { isMigrated: false })).toEqual(['set up the features of TimescaleDB'])
    await migrateToLatest(database)
    const planned = await plannedChanges(db, testStorage, { isMigrated: true })
    expect(await reconcile(db, testStorage)).toEqual(planned)
    expect(planned.length).toBeGreaterThanOrEqual(timeTables.length)
  })

  it('follow the configuration', async () => {
    const database = await opened(createTestDatabase)
    const { db } = database
    const found = await edition(database)
    const settings = {
      ...testStorage,
      fills: { chunkHours: 12, columnstoreAfterHours: 30 },
    }
    const chunks = ['change new chunks of market.fills from 1 day to 12 hours']
    const all = [...chunks, 'convert chunks of market.fills to the columnstore after 30 hours']
    const expected = { none: [], apache: chunks, community: all }[found]
    expect(await plannedChanges(db, settings, { isMigrated: true })).toEqual(expected)
    expect(await reconcile(db, settings)).toEqual(expected)
    expect(await reconcile(db, settings)).toEqual([])
    const back = await reconcile(db, testStorage)
    expect(back).toHaveLength(expected.length)
    expect(await reconcile(db, testStorage)).toEqual([])
  })

  it('stay as the recorder has them when another command works on its database with a configuration of its own', async () => {
    const database = await opened(createEmptyDatabase)
    const silent = pino({ level: 'silent' })
    const configOf = (chunkHours: number) => {
      const config = resolveConfig({})
      config.storage.fills.chunkHours = chunkHours
      return config
    }
    // One that finds nothing yet sets up what is there from then on.
    await prepareBeside({ database }, configOf(12), silent)
    const plannedOfRecorder = async () =>
      plannedChanges(database.db, await readStorage(database.db, configOf(12)), { isMigrated: true })
    expect(await plannedOfRecorder()).toEqual([])
    await prepareBeside({ database }, configOf(24), silent)
    expect(await plannedOfRecorder()).toEqual([])
    await prepareStore({ database }, configOf(24), silent)
    const isTimescale = (await edition(database)) !== 'none'
    expect((await plannedOfRecorder()).length > 0).toBe(isTimescale)
  })

  it('have chunks of books that are as long as the recorded market allows, also where there are chunks already', async () => {
    const database = await opened(createEmptyDatabase)
    const { db } = database
    const silent = pino({ level: 'silent' })
    await prepareStore({ database }, resolveConfig({}), silent)
    const ofBooks = async () =>
      column(
        database,
        `select extract(epoch from time_interval)::int / 3600 from timescaledb_information.dimensions
          where hypertable_name = 'order_books'`,
      )
    if ((await edition(database)) === 'none') return
    expect(await ofBooks()).toEqual([24])
    const store = (firstDay: number, days: number) =>
      sql`insert into market.order_books (category, symbol, ts, bid_prices, bid_sizes, ask_prices, ask_sizes, received_at)
        select 'SPOT', 'BTCUSDT', t, '{1}', '{1}', '{2}', '{1}', t
        from generate_series(0, ${days - 1}::int) as day
        cross join lateral (select timestamptz '2026-01-01' + make_interval(days => day + ${firstDay}::int) as t) as at`.execute(
        db,
      )
    const chunks = async () =>
      (await column(database, `select c from public.show_chunks('market.order_books') c`)).length
    await store(0, 10)
    expect(await chunks()).toBe(10)
    // A market of one instrument is recorded from now on.
    await sql`insert into market.instruments (category, symbol, status, kind, first_seen_at, updated_at)
      values ('SPOT', 'BTCUSDT', 'online', 'crypto', now(), now())`.execute(db)
    await prepareStore({ database }, resolveConfig({}), silent)
    expect(await ofBooks()).toEqual([168])
    await store(10, 365)
    expect(await chunks()).toBeLessThanOrEqual(10 + 54)
    expect(await column(database, 'select count(*)::int from market.order_books')).toEqual([375])
    expect(await pendingChanges({ database }, resolveConfig({}))).toEqual([])
  })

  it('may be brought in line by several processes at once', async () => {
    const database = await opened(createEmptyDatabase)
    await migrateToLatest(database)
    const results = await Promise.all([1, 2, 3].map(() => reconcile(database.db, testStorage)))
    const found = await edition(database)
    expect(results.filter((changes) => changes.length > 0)).toHaveLength(found === 'none' ? 0 : 1)
  })

  it('come to a database that has rows already, and keep them', async () => {
    const database = await opened(createEmptyDatabase)
    const { db } = database
    await migrateToLatest(database)
    const fills = [0, 1, 2, 3].map((day) => aFill({ execId: `${day}`, ts: someTime + day * 86_400_000 }))
    await insertFills(db, fills)
    await upsertCandles(db, [aCandle()])
    const before = await column(database, 'select row_to_json(o)::text from market.ohlcv_1d o')
    expect(before).toHaveLength(1)
    await reconcile(db, testStorage)
    expect(await column(database, 'select row_to_json(o)::text from market.ohlcv_1d o')).toEqual(before)
    expect(await insertFills(db, fills)).toMatchObject({ inserted: 0 })
    expect(await upsertCandles(db, [aCandle({ close: '12' })])).toMatchObject({ updated: 1 })
    const revisions = await db.selectFrom('recorder.candle_revision').select(['old_close', 'new_close']).execute()
    expect(revisions).toEqual([{ old_close: '11', new_close: '12' }])
  })

  it('come to an empty table while its first rows are on their way, and keep them', async () => {
    const database = await opened(createEmptyDatabase)
    const { db } = database
    await migrateToLatest(database)
    const found = await edition(database)
    const reconciling = await db.transaction().execute(async (trx) => {
      await insertFills(trx, [aFill()])
      const changes = reconcile(db, testStorage)
      // A server without these features has nothing to change, and does not wait.
      await (found === 'none' ? changes : untilSomebodyWaits(db))
      return { changes }
    })
    await reconciling.changes
    expect(await column(database, 'select exec_id from market.fills')).toEqual([aFill().execId])
  })

  it('come where a schema has the name of the login, as schema recorder does in the documented setup', async () => {
    const database = await opened(createEmptyDatabase)
    await sql`do $$ begin execute format('create schema if not exists %I', current_user); end $$`.execute(database.db)
    await migrateToLatest(database)
    await reconcile(database.db, testStorage)
    if ((await edition(database)) !== 'none') expect(await hypertables(database)).toEqual(timeTables)
  })

  it('keep every column and comment of the rollups', async () => {
    const database = await opened(createTestDatabase)
    const columns = (name: string) =>
      column(
        database,
        `select attname || ' ' || format_type(atttypid, null) || ' ' || col_description(attrelid, attnum)
          from pg_attribute where attrelid = 'market.${name}'::regclass and attnum > 0 order by attnum`,
      )
    for (const name of rollups) {
      expect((await columns(name)).map((text) => String(text).split(' ').slice(0, 2).join(' '))).toEqual([
        'category market.category',
        'symbol text',
        'open_time timestamp',
        'open numeric',
        'high numeric',
        'low numeric',
        'close numeric',
        'base_volume numeric',
        'quote_turnover numeric',
        'minutes bigint',
        'expected_minutes bigint',
        'is_complete boolean',
      ])
    }
  })
})
