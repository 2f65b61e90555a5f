import { sql } from 'kysely'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { type Candle, intervalMs } from '../../../src/market/candle.js'
import { storeCandles } from '../../../src/ledger/storeCandles.js'
import { noTradeRanges } from '../../support/noTradeRanges.js'
import { listGaps } from '../../../src/ledger/gaps.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { untilSomebodyWaits } from '../../support/lockWait.js'
import { insertFills } from '../../support/insertFills.js'
import { aCandle, aFill, someTime } from '../../support/marketRows.js'

const minuteMs = intervalMs['1m']
const at = (minute: number, more: Partial<Candle> = {}) => aCandle({ openTime: someTime + minute * minuteMs, ...more })
const range = (from: number, to: number) => ({ from: someTime + from * minuteMs, to: someTime + to * minuteMs })
const series = aCandle()

let test: TestDatabase
beforeAll(async () => {
  test = await createTestDatabase()
})
afterAll(() => test?.drop())
beforeEach(async () => {
  await sql`truncate market.candles, market.fills, recorder.ledger`.execute(test.database.db)
})

async function covered(): Promise<string[]> {
  const { rows } = await sql<{ r: string }>`
    select to_char(lower(r) at time zone 'UTC', 'HH24:MI') || '-' || to_char(upper(r) at time zone 'UTC', 'HH24:MI') as r
    from recorder_page.coverage cross join lateral unnest(ranges) as r order by 1`.execute(test.database.db)
  return rows.map(({ r }) => r)
}

/** The state that storing leaves, in one statement or step by step in a transaction. */
async function left(store: (candles: readonly Candle[]) => Promise<unknown>, batches: readonly (readonly Candle[])[]) {
  await sql`truncate market.candles, recorder.ledger`.execute(test.database.db)
  const results: unknown[] = []
  await storeCandles(test.database.db, [at(0), at(3)], [range(1, 3)])
  for (const batch of batches) results.push(await store(batch))
  const gaps = (await listGaps(test.database.db)).map(({ id: _id, detectedAt: _at, repairedAt: _too, ...gap }) => gap)
  const { rows } = await sql`
    select open_time, close, is_closed from market.candles order by open_time`.execute(test.database.db)
  return { results, rows, gaps, covered: await covered(), silent: await noTradeRanges(test.database.db, series) }
}

describe('few candles of one series', () => {
  it('leave the same whether they are stored in one statement or step by step', async () => {
    const { db } = test.database
    const batches = [
      [at(4), at(5, { isClosed: false })],
      [at(4), at(5, { isClosed: false, close: '11.5' })],
      [at(2), at(5)],
      [at(1), at(2)],
      [at(7, { isClosed: false })],
      [at(9), at(9, { close: '12' })],
      [],
    ]
    const atOnce = await left((batch) => storeCandles(db, batch), batches)
    expect(atOnce).toEqual(await left((batch) => db.transaction().execute((trx) => storeCandles(trx, batch)), batches))
    expect(atOnce.results[2]).toEqual({ inserted: 1, updated: 1, lateCandles: 1 })
    expect(atOnce.silent).toEqual([])
    expect(atOnce.gaps).toHaveLength(2)
  })

  it('claim no silence of minutes of which fills are stored', async () => {
    const { db } = test.database
    await insertFills(db, [aFill({ symbol: series.symbol, ts: someTime + 2.5 * minuteMs })])
    await storeCandles(db, [at(0), at(4)], [range(1, 4)])
    expect(await noTradeRanges(db, series)).toMatchObject([range(1, 2), range(3, 4)])
    expect(await covered()).toHaveLength(2)
    await storeCandles(db, [at(2)])
    expect(await covered()).toHaveLength(1)
  })

  it('take back a silence that another writer notes while they are being stored', async () => {
    const { db } = test.database
    await storeCandles(db, [at(0)])
    let second: Promise<unknown> | undefined
    await db.transaction().execute(async (first) => {
      await storeCandles(first, [at(3)], [range(1, 3)])
      second = storeCandles(db, [at(2)])
      // It has begun, and sees nothing of the first one: it waits for the row of the coverage.
      await untilSomebodyWaits(db)
    })
    expect(await second).toEqual({ inserted: 1, updated: 0, lateCandles: 1 })
    expect(await noTradeRanges(db, series)).toMatchObject([range(1, 2)])
    expect(await listGaps(db)).toMatchObject([{ range: range(2, 3), state: 'repaired' }])
    expect(await covered()).toHaveLength(1)
  })
})

it('candles far apart are compared with the stored ones of their own times alone', async () => {
  const { db } = test.database
  const count = 20_000
  await storeCandles(db, [at(0)])
  await sql`
    insert into market.candles (category, symbol, type, interval, open_time, open, high, low, close, base_volume,
      quote_turnover, is_closed)
    select category, symbol, type, interval, open_time + g * interval '1 minute', open, high, low, close, base_volume,
      quote_turnover, true
    from market.candles cross join generate_series(1, ${count}) as g`.execute(db)
  const read = await db.transaction().execute(async (trx) => {
    await storeCandles(
      trx,
      Array.from({ length: 200 }, (_, index) => at(1 + (index * count) / 200, { close: '10.5' })),
    )
    const { rows } = await sql<{ rows: number }>`
      select sum(seq_tup_read + idx_tup_fetch)::float8 as rows from pg_stat_xact_user_tables
      where relname = 'candles' or relname like '%chunk'`.execute(trx)
    return rows[0]?.rows ?? 0
  })
  expect(read).toBeGreaterThan(100)
  expect(read).toBeLessThan(20 * 200)
})
