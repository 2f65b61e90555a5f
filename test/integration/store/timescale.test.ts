import { sql } from 'kysely'
import { afterEach, describe, expect, it } from 'vitest'
import { insertFills } from '../../../src/store/fills.js'
import { migrateToLatest } from '../../../src/store/migrate.js'
import { detectServer, reconcile } from '../../../src/store/timescale.js'
import { upsertCandles } from '../../../src/store/candles.js'
import { aCandle, aFill, someTime } from '../../support/marketRows.js'
import { createEmptyDatabase, createTestDatabase, type TestDatabase } from '../../support/database.js'
import { testChunks } from '../../support/databaseServer.js'

const open: TestDatabase[] = []
async function opened(create: () => Promise<TestDatabase>): Promise<TestDatabase['database']> {
  const created = await create()
  open.push(created)
  return created.database
}
afterEach(async () => {
  for (const database of open.splice(0)) await database.drop()
})

const timeTables = ['candles', 'fills', 'order_books', 'rpi_order_books', 'tickers']

/** By the server's own word, not by ours: whether it was started with TimescaleDB. */
async function hasTimescale({ db }: TestDatabase['database']): Promise<boolean> {
  const { rows } = await sql<{ libraries: string }>`
    select current_setting('shared_preload_libraries') as libraries`.execute(db)
  return rows[0]?.libraries.includes('timescaledb') === true
}

async function hypertables({ db }: TestDatabase['database']): Promise<string[]> {
  const { rows } = await sql<{ name: string }>`
    select hypertable_name as name from timescaledb_information.hypertables
    where hypertable_schema = 'market' order by 1`.execute(db)
  return rows.map(({ name }) => name)
}

describe('the time-series features', () => {
  it('are on in every database of the suite where the server has them', async () => {
    const database = await opened(createTestDatabase)
    const { kind } = await detectServer(database.db)
    if (!(await hasTimescale(database))) {
      expect(kind).toBe('postgresql')
      return
    }
    expect(kind).toMatch(/^timescale-/)
    expect(await hypertables(database)).toEqual(timeTables)
  })

  it('are brought in line once: first said, then done, then nothing is left to do', async () => {
    const database = await opened(createEmptyDatabase)
    const { db } = database
    await migrateToLatest(database)
    const dryRun = await reconcile(db, { dryRun: true, settings: testChunks })
    expect((await detectServer(db)).kind).toBe('postgresql')
    expect(await reconcile(db, { settings: testChunks })).toEqual(dryRun)
    expect(await reconcile(db, { settings: testChunks })).toEqual([])
    if (!(await hasTimescale(database))) {
      expect(dryRun).toEqual([])
      return
    }
    expect(dryRun).toHaveLength(1 + timeTables.length)
    expect(await hypertables(database)).toEqual(timeTables)
    const changed = { ...testChunks, fills: { chunkHours: 12 } }
    const change = ['change the chunks of market.fills from 24 to 12 hours']
    expect(await reconcile(db, { dryRun: true, settings: changed })).toEqual(change)
    expect(await reconcile(db, { settings: changed })).toEqual(change)
    expect(await reconcile(db, { settings: changed })).toEqual([])
  })

  it('come to a database that has rows already, and keep them', async () => {
    const database = await opened(createEmptyDatabase)
    const { db } = database
    await migrateToLatest(database)
    const fills = [0, 1, 2, 3].map((day) => aFill({ execId: `${day}`, ts: someTime + day * 86_400_000 }))
    await insertFills(db, fills)
    await upsertCandles(db, [aCandle()])
    await reconcile(db, { settings: testChunks })
    expect(await insertFills(db, fills)).toMatchObject({ inserted: 0, unchanged: 4 })
    expect(await upsertCandles(db, [aCandle({ close: '12' })])).toMatchObject({ updated: 1 })
    const revisions = await db.selectFrom('recorder.candle_revision').select(['old_close', 'new_close']).execute()
    expect(revisions).toEqual([{ old_close: '11', new_close: '12' }])
  })
})
