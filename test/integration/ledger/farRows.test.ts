import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { storeLiquidations } from '../../../src/ledger/futures.js'
import { storePastFills } from '../../../src/ledger/storePastFills.js'
import { dayMs } from '../../../src/market/values.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { aFill, someTime } from '../../support/marketRows.js'

let created: TestDatabase
beforeAll(async () => {
  created = await createTestDatabase()
})
afterAll(() => created?.drop())

const future = { category: 'USDT-FUTURES', symbol: 'BTCUSDT' } as const
const count = 20_000

test('liquidations far apart are compared with no more stored ones than they are', async () => {
  const { db } = created.database
  const row = (ts: number) =>
    ({ ...future, ts, side: 'buy', price: '1', amount: '1', receivedAt: someTime, extra: {} }) as const
  await db.transaction().execute((trx) => storeLiquidations(trx, future, [row(someTime)], []))
  await sql`
    insert into market.liquidations (category, symbol, ts, side, price, amount, occurrence, received_at)
    select category, symbol, ts - g * interval '1 second', side, price, amount, occurrence, received_at
    from market.liquidations cross join generate_series(1, ${count}) as g`.execute(db)
  const far = someTime - 2 * count * 1_000
  const { proven, read } = await db.transaction().execute(async (trx) => {
    const stored = await storeLiquidations(
      trx,
      future,
      [row(someTime + 500), row(far)],
      [{ from: far + 1, to: someTime + 500 }],
    )
    const { rows } = await sql<{ read: number }>`
      select sum(seq_tup_read + idx_tup_fetch)::float8 as read from pg_stat_xact_user_tables
      where relname = 'liquidations' or relname like '%chunk'`.execute(trx)
    return { proven: stored.proven, read: rows[0]?.read ?? 0 }
  })
  expect(proven).toEqual([])
  expect(read).toBeLessThan(1_000)
})

test('a fill far from what was asked for is stored, and joins and proves nothing', async () => {
  const { db } = created.database
  const key = { category: 'SPOT', symbol: 'BTCUSDT' } as const
  const fill = (ts: number) => aFill({ ...key, ts, execId: `${ts}` })
  const asked = { from: someTime - 60_000, to: someTime }
  const told = { asked, other: null, reachesTo: asked.from, largest: 100, disorderMs: 0, requestTime: someTime + dayMs }
  const near = [1, 11, 21].map((second) => fill(someTime - second * 1_000))
  const page = { ...told, fills: [...near, fill(someTime - 80 * dayMs)] }
  expect(await storePastFills(db, key, page)).toMatchObject({ inserted: 4, refusal: null })
  const second = { ...told, fills: [...near, fill(someTime - 80 * dayMs)] }
  expect(await storePastFills(db, key, second)).toMatchObject({ inserted: 0, refusal: null })
  // A stored fill of its own time is missed by a page all the same.
  const without = { ...told, fills: near.filter((one) => one !== near[1]) }
  expect(await storePastFills(db, key, without)).toMatchObject({ refusal: 'incomplete' })
})
