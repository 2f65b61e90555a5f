import { sql } from 'kysely'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { foldRestatement } from '../../../src/ledger/restatements.js'
import { bounds } from '../../../src/market/bounds.js'
import type { CandleSeries } from '../../../src/market/candle.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'

const series: CandleSeries = { category: 'SPOT', symbol: 'RSTOCKUSDT', type: 'market', interval: '1m' }
const half = { numerator: 1n, denominator: 2n }

let test: TestDatabase
beforeAll(async () => {
  test = await createTestDatabase()
})
afterAll(() => test.drop())
beforeEach(async () => {
  await sql`truncate recorder.candle_revision, recorder.restatement`.execute(test.database.db)
})

/** Adds changes of as many candles. Their prices were multiplied by an SQL expression of the candle's number `n`. */
async function addRevisions(count: number, factor: string): Promise<void> {
  const prices = (times: string) => Array.from({ length: 4 }, () => `(1000 + n % 100) * ${times}`).join(', ')
  await test.database.pool.query(
    `insert into recorder.candle_revision (category, symbol, type, interval, open_time, revised_at,
       old_open, old_high, old_low, old_close, new_open, new_high, new_low, new_close)
     select 'SPOT', 'RSTOCKUSDT', 'market', '1m', '2026-01-01'::timestamptz + n * interval '1 minute', now(),
       ${prices('1')}, ${prices(factor)} from generate_series(1, ${count}) as n`,
  )
}

/** Adds restatements by 1/3, 1/5, 1/7 and so on. */
async function addRestatements(count: number, detectedAt: string): Promise<void> {
  await test.database.pool.query(
    `insert into recorder.restatement
       (category, symbol, type, interval, from_time, to_time, numerator, denominator, candles, detected_at)
     select 'SPOT', 'RSTOCKUSDT', 'market', '1m', '2026-01-01', '2026-01-02', 1, 2 * n + 1, 5, ${detectedAt}
     from generate_series(1, ${count}) as n`,
  )
}

async function joined(): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    select count(*) from recorder.candle_revision where is_restatement`.execute(test.database.db)
  return Number(rows[0]?.count)
}

describe('restatements of a series', () => {
  it('are looked for in no more changes than a slice of the history brings, however many there are', async () => {
    await addRevisions(90_000, '(2 + n)')
    let mostRows = 0
    const counting = test.database.db.withPlugin({
      transformQuery: ({ node }) => node,
      transformResult: ({ result }) => {
        mostRows = Math.max(mostRows, result.rows.length)
        return Promise.resolve(result)
      },
    })
    expect(await foldRestatement(counting, series, 0)).toBeNull()
    expect(mostRows).toBe(bounds.openRevisions)
  })

  it('have all of their changes, also when several slices bring more than are looked at once', async () => {
    await addRevisions(bounds.openRevisions + 5_000, '0.5')
    expect(await foldRestatement(test.database.db, series, 0)).toEqual(half)
    expect(await joined()).toBe(bounds.openRevisions)
    expect(await foldRestatement(test.database.db, series, 0)).toBeNull()
    expect(await joined()).toBe(bounds.openRevisions + 5_000)
    const { rows } =
      await sql`select candles::int, to_time - from_time = ${bounds.openRevisions + 5_000} * interval '1 minute'
      as "isWhole" from recorder.restatement`.execute(test.database.db)
    expect(rows).toEqual([{ candles: bounds.openRevisions + 5_000, isWhole: true }])
  })

  it('are some in a day: a service that always has another past is not read again for ever', async () => {
    await addRestatements(bounds.restatements, 'now()')
    await addRevisions(20, '0.5')
    expect(await foldRestatement(test.database.db, series, 0)).toBeNull()
    expect(await joined()).toBe(0)
    await sql`update recorder.restatement set detected_at = detected_at - interval '1 day'`.execute(test.database.db)
    expect(await foldRestatement(test.database.db, series, 0)).toEqual(half)
    expect(await joined()).toBe(20)
  })
})
